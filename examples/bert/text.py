"""Batches for pre-training from real English, with nothing to download: Python's own reference manual.

Every Python carries the manual's pages as `pydoc_data.topics`, for `help("lambda")`: some 80 pages, over 400 KB of
prose and code on one subject, with sentences in their order. Another version of Python has other pages, so figures
hold for one version.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import re
from collections.abc import Iterable, Iterator
from pydoc_data.topics import topics

import numpy as np
import tensorflow.compat.v1 as tf

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PADDING, UNKNOWN, CLASS, SEPARATOR, MASK = range(len(SPECIAL))
MASKED_SHARE = 0.15
HELD_OUT = 10
"""One page in this many is kept for evaluation."""

Sentence = list[str]
Features = dict[str, np.ndarray]
"""Arrays by name, as `bert.pretraining_losses` lists them, with the examples as their first dim."""


class Vocabulary:
    """The most frequent words, and single characters to spell the others with, inside a word as ``##c``."""

    def __init__(self, words: Iterable[str], size: int) -> None:
        """At most ``size`` pieces, the special tokens and all characters of ``words`` among them."""
        counts = collections.Counter(words)
        characters = sorted({character for word in counts for character in word})
        pieces = [*SPECIAL, *characters, *(f"##{character}" for character in characters if character.isalpha())]
        frequent = sorted((word for word in counts if len(word) > 1), key=lambda word: (-counts[word], word))
        self.pieces = (*pieces, *frequent[: max(0, size - len(pieces))])
        self._ids = {piece: i for i, piece in enumerate(self.pieces)}
        self.encode = functools.lru_cache(maxsize=None)(self._encode)

    def __len__(self) -> int:
        return len(self.pieces)

    def _encode(self, word: str) -> tuple[int, ...]:
        """Ids of the longest known beginning of a word, then of its other characters one by one."""
        end = next((end for end in range(len(word), 1, -1) if word[:end] in self._ids), 1)
        pieces = [word[:end], *(f"##{character}" for character in word[end:])]
        return tuple(self._ids.get(piece, UNKNOWN) for piece in pieces)


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Examples to train with and to evaluate with; no page, and no paragraph, is in both."""

    vocabulary: Vocabulary
    training: Features
    held_out: Features


def read_corpus(vocabulary_size: int, length: int, masked: int, seed: int, characters: int | None = None) -> Corpus:
    """Examples of ``length`` tokens with up to ``masked`` of them hidden, from the first ``characters`` of the manual.

    ``seed`` draws pairs and masks. Masks are drawn once, before training, as for BERT itself.
    """
    pages = list(read_pages(characters))
    training = [page for number, page in enumerate(pages) if number % HELD_OUT]
    vocabulary = Vocabulary((word for page in training for sentence in page for word in sentence), vocabulary_size)
    rng = np.random.default_rng(seed)
    return Corpus(
        vocabulary,
        examples(training, vocabulary, length, masked, rng),
        examples(pages[::HELD_OUT], vocabulary, length, masked, rng),
    )


def batches(features: Features, batch_size: int, seed: int) -> dict[str, tf.Tensor]:
    """The next batch of a shuffled, endless stream of the examples."""
    data = tf.data.Dataset.from_tensor_slices(features)
    data = data.shuffle(len(features["is_next"]), seed=seed).repeat().batch(batch_size, drop_remainder=True)
    return tf.data.make_one_shot_iterator(data.prefetch(1)).get_next()


def read_pages(characters: int | None = None) -> Iterator[list[Sentence]]:
    """Pages as sentences of lower-case words, digits and signs; a paragraph found on several pages is read once."""
    seen: set[str] = set()
    for name in sorted(topics):
        # Lines drawn under titles and around tables become one sign.
        text = re.sub(r"([^\w\s])\1+", r"\1", topics[name].lower())
        paragraphs = [paragraph for paragraph in re.split(r"\n\s*\n", text) if paragraph not in seen]
        seen.update(paragraphs)
        sentences = [sentence for paragraph in paragraphs for sentence in re.split(r"(?<=[.!?:])\s+", paragraph)]
        words = [re.findall(r"[a-z]+|[0-9]|[^\sa-z0-9]", sentence) for sentence in sentences]
        yield [sentence for sentence in words if len(sentence) > 2]
        if characters is not None:
            characters -= len(text)
            if characters <= 0:
                return


def examples(
    pages: list[list[Sentence]], vocabulary: Vocabulary, length: int, masked: int, rng: np.random.Generator
) -> Features:
    """An example for each passage but the last of a page: with the one that follows it, or, in half of them, any."""
    # [CLS] first [SEP] second [SEP]
    room = (length - 3) // 2
    by_page = [passages(page, vocabulary, room) for page in pages]
    every = [passage for page in by_page for passage in page]
    made: list[Features] = []
    for page in by_page:
        for first, follower in zip(page, page[1:]):
            is_next = bool(rng.random() < 0.5)
            second = follower if is_next else every[rng.integers(len(every))]
            pair = [CLASS, *first, SEPARATOR], [*second, SEPARATOR]
            made.append({**hide(pair, length, masked, len(vocabulary), rng), "is_next": np.int32(is_next)})
    if not made:
        raise ValueError(f"no two passages of {room} tokens in {len(pages)} pages; read more characters")
    return {name: np.stack([example[name] for example in made]) for name in made[0]}


def passages(page: list[Sentence], vocabulary: Vocabulary, room: int) -> list[list[int]]:
    """The sentences of a page as ids, as many in one passage as ``room`` tokens hold; a longer one is cut short."""
    result: list[list[int]] = []
    for sentence in page:
        ids = [piece for word in sentence for piece in vocabulary.encode(word)]
        if result and len(result[-1]) + len(ids) <= room:
            result[-1] += ids
        else:
            result.append(ids[:room])
    return result


def hide(
    pair: tuple[list[int], list[int]], length: int, masked: int, vocabulary_size: int, rng: np.random.Generator
) -> Features:
    """Two parts as one row of ``length`` tokens, 15 % of them (``masked`` at most) to be guessed."""
    tokens = np.array([*pair[0], *pair[1]], dtype=np.int32)
    words = np.flatnonzero((tokens != CLASS) & (tokens != SEPARATOR))
    count = min(masked, max(1, round(MASKED_SHARE * len(words))))
    positions = np.sort(rng.choice(words, size=count, replace=False))
    labels = tokens[positions]
    # Of ten hidden words, eight become [MASK], one any word, one stays: the model cannot know which it is asked for.
    dice = rng.random(count)
    any_word = rng.integers(len(SPECIAL), vocabulary_size, count)
    tokens[positions] = np.where(dice < 0.8, MASK, np.where(dice < 0.9, any_word, labels))

    def padded(values: np.ndarray, size: int, dtype: type = np.int32) -> np.ndarray:
        return np.pad(values.astype(dtype), (0, size - len(values)))

    return {
        "token_ids": padded(tokens, length),
        "type_ids": padded(np.repeat([0, 1], [len(part) for part in pair]), length),
        "input_mask": padded(np.ones(len(tokens)), length),
        "masked_positions": padded(positions, masked),
        "masked_labels": padded(labels, masked),
        "masked_weights": padded(np.ones(count), masked, np.float32),
    }
