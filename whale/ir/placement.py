"""Where the pieces of a tensor are: the sharding of one tensor over one axis of the device mesh.

A step is an SPMD program. On the replica axis a tensor is *replicated* (every copy holds the value), *sharded* on a
batch (each copy holds its rows), or *partial* (the value is the sum of what the copies hold). ``EACH`` marks small
integer tensors that speak of the copy's own piece, such as the target of a reshape: every copy holds another value
and no value is the whole.
"""

from __future__ import annotations

import dataclasses
from typing import Union

from whale.ir.dims import Dim


@dataclasses.dataclass(frozen=True)
class Replicated:
    """B: every copy that needs the tensor holds the same, whole value."""

    def __str__(self) -> str:
        return "B"


@dataclasses.dataclass(frozen=True)
class Partial:
    """P: the value is the sum of the copies' values."""

    def __str__(self) -> str:
        return "P"


@dataclasses.dataclass(frozen=True)
class Each:
    """Every copy holds its own value, about its own piece."""

    def __str__(self) -> str:
        return "EACH"


@dataclasses.dataclass(frozen=True)
class Sharded:
    """S: cut on one dim along a batch.

    The dim, row-major, is ``outer x batch x inner``: a plain batch dim has outer = inner = 1, ``[B * T, h]`` has
    inner = T, ``[heads * B, ...]`` and ``concat(real, fake)`` have outer > 1.
    """

    dim: int
    """The tensor dim that is cut, from 0."""
    batch: int
    """Which batch: an index into the analysis' list of batches."""
    outer: Dim = 1
    """How often the whole batch repeats within the dim."""
    inner: Dim = 1
    """Consecutive elements of the dim that belong to one sample."""

    def on(self, dim: int) -> Sharded:
        """The same cut, on another dim."""
        return dataclasses.replace(self, dim=dim)

    @property
    def plain(self) -> bool:
        """Whether the dim is the batch and nothing else."""
        return self.outer == 1 and self.inner == 1

    def __str__(self) -> str:
        structure = "" if self.plain else f"={self.outer}*b*{self.inner}"
        return f"S{self.dim}.{self.batch}{structure}"


Placement = Union[Replicated, Partial, Each, Sharded]

REPLICATED = Replicated()
PARTIAL = Partial()
EACH = Each()
