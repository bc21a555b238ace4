"""``tf.contrib.learn.preprocessing``: words to ids, in numpy."""

from __future__ import annotations

import collections
import pickle
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

__all__ = ["ByteProcessor", "CategoricalVocabulary", "VocabularyProcessor", "tokenizer"]

# A package for the import system: TF1 had files below it.
__path__: list[str] = []

_TOKEN = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z][a-z]+(?=[A-Z])|[\'\w\-]+")


def tokenizer(iterator: Iterable[str]) -> Iterator[list[str]]:
    """The words of each document."""
    for document in iterator:
        yield _TOKEN.findall(document)


class CategoricalVocabulary:
    """Ids of categories in the order they were met; id 0 is what is unknown."""

    def __init__(self, unknown_token: str = "<UNK>", support_reverse: bool = True) -> None:
        self._unknown = unknown_token
        self._mapping: dict[Any, int] = {unknown_token: 0}
        self._reverse: list[Any] | None = [unknown_token] if support_reverse else None
        self._counts: collections.Counter[Any] = collections.Counter()
        self._frozen = False

    def __len__(self) -> int:
        return len(self._mapping)

    def freeze(self, freeze: bool = True) -> None:
        """From now on unknown categories have id 0, instead of getting a new one."""
        self._frozen = freeze

    def get(self, category: Any) -> int:
        """The id of a category."""
        if category not in self._mapping:
            if self._frozen:
                return 0
            self._mapping[category] = len(self._mapping)
            if self._reverse is not None:
                self._reverse.append(category)
        return self._mapping[category]

    def add(self, category: Any, count: int = 1) -> None:
        """Counts a category."""
        if self.get(category) > 0:
            self._counts[category] += count

    def trim(self, min_frequency: int, max_frequency: int = -1) -> None:
        """Keeps what was counted more than ``min_frequency`` times, the most frequent first."""
        ordered = sorted(sorted(self._counts.items()), key=lambda item: item[1], reverse=True)
        kept = [c for c, n in ordered if n > min_frequency and (max_frequency <= 0 or n < max_frequency)]
        self._mapping = {category: number for number, category in enumerate([self._unknown, *kept])}
        self._counts = collections.Counter({category: self._counts[category] for category in kept})
        if self._reverse is not None:
            self._reverse = [self._unknown, *kept]

    def reverse(self, class_id: int) -> Any:
        """The category of an id.

        Raises:
            ValueError: the vocabulary was made without ``support_reverse``.
        """
        if self._reverse is None:
            raise ValueError("this vocabulary was made with support_reverse=False")
        return self._reverse[class_id]


class VocabularyProcessor:
    """Documents to rows of word ids ``[max_document_length]``, padded with 0."""

    def __init__(
        self,
        max_document_length: int,
        min_frequency: int = 0,
        vocabulary: CategoricalVocabulary | None = None,
        tokenizer_fn: Callable[[Iterable[str]], Iterator[list[str]]] | None = None,
    ) -> None:
        self.max_document_length = max_document_length
        self.min_frequency = min_frequency
        self.vocabulary_ = vocabulary or CategoricalVocabulary()
        self._tokenizer = tokenizer_fn or tokenizer

    def fit(self, raw_documents: Iterable[str], unused_y: Any = None) -> VocabularyProcessor:
        """Learns the words of the documents, drops the rare ones and freezes the vocabulary."""
        for tokens in self._tokenizer(raw_documents):
            for token in tokens:
                self.vocabulary_.add(token)
        if self.min_frequency > 0:
            self.vocabulary_.trim(self.min_frequency)
        self.vocabulary_.freeze()
        return self

    def fit_transform(self, raw_documents: Iterable[str], unused_y: Any = None) -> Iterator[Any]:
        """Learns, then transforms the same documents."""
        self.fit(raw_documents)
        return self.transform(raw_documents)

    def transform(self, raw_documents: Iterable[str]) -> Iterator[Any]:
        """An int64 row per document; words beyond the length are left out."""
        for tokens in self._tokenizer(raw_documents):
            row = np.zeros(self.max_document_length, np.int64)
            known = [self.vocabulary_.get(token) for token in tokens[: self.max_document_length]]
            row[: len(known)] = known
            yield row

    def reverse(self, documents: Iterable[Iterable[int]]) -> Iterator[str]:
        """The words of rows of ids, joined by blanks."""
        for row in documents:
            yield " ".join(self.vocabulary_.reverse(number) for number in row)

    def save(self, filename: str) -> None:
        """Writes the processor to a file."""
        with open(filename, "wb") as file:
            pickle.dump(self, file)

    @classmethod
    def restore(cls, filename: str) -> VocabularyProcessor:
        """Reads a processor that ``save`` wrote; as with every pickle, only from a source you trust."""
        with open(filename, "rb") as file:
            return pickle.load(file)


class ByteProcessor:
    """Documents to rows of bytes ``[max_document_length]``, padded with 0."""

    def __init__(self, max_document_length: int) -> None:
        self.max_document_length = max_document_length

    def fit(self, x: Any) -> ByteProcessor:
        """There is nothing to learn."""
        return self

    def fit_transform(self, x: Iterable[Any]) -> Iterator[Any]:
        """The same as ``transform``."""
        return self.transform(x)

    def transform(self, x: Iterable[Any]) -> Iterator[Any]:
        """A uint8 row per document."""
        for document in x:
            content = document if isinstance(document, bytes) else document.encode("utf-8")
            row = np.zeros(self.max_document_length, np.uint8)
            kept = np.frombuffer(content, np.uint8)[: self.max_document_length]
            row[: len(kept)] = kept
            yield row
