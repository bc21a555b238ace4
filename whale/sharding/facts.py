"""What the analysis knows about a tensor, and how a rule answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Optional, Union

import numpy as np

from whale.ir.dims import Dim
from whale.ir.placement import EACH, REPLICATED, Placement, Sharded

Dims = Optional[tuple[Dim, ...]]
"""Global sizes of a tensor's dims; None for unknown rank."""

PartDims = Optional[tuple[Optional[Dim], ...]]
"""Sizes of which some, None, are not known, or differ among the tensors that are spoken of."""

Value = np.ndarray[Any, np.dtype[Any]]
"""Array of dtype object holding ints and polynomials: the known global value of a small integer tensor."""


@dataclasses.dataclass(frozen=True, eq=False)
class Fact:
    """What is known of one tensor."""

    placement: Placement = REPLICATED
    """Where its pieces are."""
    dims: Dims = None
    """Its global sizes."""
    value: Value | None = None
    """Its global value, for shapes, axes and the like."""
    zero: bool = False
    """Whether every element is zero (then it is partial as well as replicated)."""
    iota: int | None = None
    """For ``range(batch size)``: the batch it counts."""
    origin: str | None = None
    """For a handle or flow of a container: the op that made it."""
    shape_of: Placement | None = None
    """For the shape of a tensor: where that tensor's pieces are."""
    part: Value | None = None
    """Where some elements of its value are known before the run: these, and None for the others."""

    def _key(self) -> tuple[object, ...]:
        value = None if self.value is None else (self.value.shape, tuple(np.ravel(self.value)))
        part = None if self.part is None else (self.part.shape, tuple(np.ravel(self.part)))
        return (self.placement, self.dims, value, part, self.zero, self.iota, self.origin, self.shape_of)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Fact) and self._key() == other._key())

    def __hash__(self) -> int:
        return hash(self._key())

    @property
    def rank(self) -> int | None:
        """Number of dims, or None."""
        return None if self.dims is None else len(self.dims)

    @property
    def sharded(self) -> Sharded | None:
        """Its cut, where it is cut."""
        return self.placement if isinstance(self.placement, Sharded) else None


@dataclasses.dataclass(frozen=True)
class Local:
    """Wanted of a vector of sizes: elements that scale with a batch are replaced by the copy's own share."""

    batch: int
    """The batch."""
    scaled: tuple[int, ...]
    """Indices of the elements that scale."""
    fixed: tuple[tuple[int, Dim], ...] = ()
    """(index, value) of elements to overwrite, such as a -1 that cannot be inferred from an empty piece: numbers, or
    sizes of tensors where batches enter, which a piece has too."""

    def __str__(self) -> str:
        return f"LOCAL{self.batch}{list(self.scaled)}"


@dataclasses.dataclass(frozen=True)
class Relaxed:
    """Wanted of a shape vector: one entry replaced by -1, for a size that every copy finds out itself."""

    dim: int
    """The entry."""

    def __str__(self) -> str:
        return f"RELAXED[{self.dim}]"


Want = Union[Placement, Local, Relaxed, None]
"""What a rule needs of an input; None takes it as it is."""


@dataclasses.dataclass(frozen=True)
class Decision:
    """How an op is executed over the copies."""

    wants: tuple[Want, ...]
    """One per data input."""
    outputs: tuple[Fact, ...]
    """One per output."""
    recipe: str = "copy"
    """How the rewriter emits it: ``copy`` is one copy of the op per device."""
    params: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any])
    """Arguments of the recipe."""
    exchanges: bool = False
    """Whether its copies read each other's pieces, whatever the wants say: inside a loop they must run as one loop."""
    declined: str = ""
    """Why the op runs whole although an input is cut; empty when a rule applied."""
    approximate: str = ""
    """What is approximate about it, by choice of the user."""

    @property
    def distributed(self) -> bool:
        """Whether copies differ: some input is wanted in pieces, or some output is."""
        return any(w is not None and w != REPLICATED for w in self.wants) or any(
            f.placement != REPLICATED for f in self.outputs
        )


class Decline(Exception):
    """Raised by a rule that cannot run on pieces; carries the reason shown in the plan."""


def each(dims: Dims = None, value: Value | None = None) -> Fact:
    """A fact about a small integer tensor that every copy holds for its own piece."""
    return Fact(EACH, dims, value)
