"""Which models the benchmarks build."""

from __future__ import annotations

import dataclasses
from typing import Literal, Union

Head = Literal["language model", "masked words", "none", "span"]


@dataclasses.dataclass(frozen=True)
class Transformer:
    """Sizes of a GPT or BERT."""

    layers: int
    hidden: int
    heads: int
    sequence: int
    vocabulary: int
    head: Head = "language model"
    causal: bool = True
    """GPT: a causal mask, and normalisation before each sub-layer. Otherwise BERT: after it."""
    dropout: float = 0.1
    masked: int = 20
    """Predicted words of a sequence, for the head ``masked words``."""
    tied: bool = True
    """Whether the head multiplies by the table of the embedding, not by one of its own."""


@dataclasses.dataclass(frozen=True)
class Convolutional:
    """A model for images of 224 x 224."""

    name: Literal["resnet50", "resnet101", "resnet152"]


Model = Union[Convolutional, Transformer]
