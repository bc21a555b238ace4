"""Containers of tensors: TensorArrays, stacks, tensor lists.

A container is known by the op that made it. All its elements are placed alike, whatever the order in which ops that
write and read it are met: a write that brings another placement widens the container's, and the propagation runs
again.
"""

from __future__ import annotations

import dataclasses

from whale.ir.placement import PARTIAL, REPLICATED, Placement, Sharded
from whale.sharding.facts import Fact, PartDims, Value
from whale.sharding.join import common_dims, join

GRADIENT = "/gradient/"
"""Stands in the origin of a gradient's container between the forward container and the gradient's source."""


@dataclasses.dataclass(frozen=True)
class Common:
    """What all elements of a container share."""

    dims: PartDims = None
    """Sizes, None for those in which elements differ; None where their rank is not known or differs."""
    value: Value | None = None
    """Their value, where it is one for all."""
    origin: str | None = None
    """For elements that are containers: where they come from."""
    iota: int | None = None
    """For elements that are numbers of samples: the batch they count."""

    def same_as(self, other: Common) -> bool:
        """Whether the two say the same."""
        return (self.dims, self.origin, self.iota) == (other.dims, other.origin, other.iota) and _equal(
            self.value, other.value
        )


def _equal(a: Value | None, b: Value | None) -> bool:
    return Fact(value=a) == Fact(value=b)


@dataclasses.dataclass
class Containers:
    """Placement of the elements of each container."""

    elements: dict[str, Placement] = dataclasses.field(default_factory=dict[str, Placement])
    """By the container's origin; absent while nothing is known."""
    zeros: dict[str, bool] = dataclasses.field(default_factory=dict[str, bool])
    """Whether all elements written so far are zeros."""
    common: dict[str, Common] = dataclasses.field(default_factory=dict[str, Common])
    """What all elements of a container share."""
    forced: set[str] = dataclasses.field(default_factory=set[str])
    """Containers whose elements must be whole."""
    beside: dict[str, str] = dataclasses.field(default_factory=dict[str, str])
    """By origin of a container of values: that of a container of containers that the same tensor may be."""
    changed: bool = False
    """Set when a placement was widened since it was last cleared."""

    def write(self, origin: str, fact: Fact, placement: Placement, dims: PartDims) -> Placement:
        """Notes that an element is written, placed and of sizes as given; returns where all elements are."""
        self._note(origin, dims, fact)
        zero = fact.zero
        before, was_zero = self.elements.get(origin), self.zeros.get(origin, True)
        forward, _, gradient = origin.partition(GRADIENT)
        if origin in self.forced or forward in self.forced:
            after: Placement = REPLICATED
        elif gradient:
            after = self._gradient(self.read(forward), placement, before)
        else:
            after = placement if before is None else join(before, placement, was_zero, zero)
            if after == REPLICATED and REPLICATED not in (before, placement):
                self.forced.add(origin)  # what met a conflict stays whole, or it would never settle
        if self.zeros.get(origin) != (was_zero and zero):
            self.zeros[origin] = was_zero and zero
            self.changed = True
        if after != before:
            self.elements[origin] = after
            self.changed = True
        return after

    @staticmethod
    def _gradient(forward: Placement, placement: Placement, before: Placement | None) -> Placement:
        """A gradient's elements have the shapes of the forward ones: cut alike, or whole or partial."""
        if isinstance(forward, Sharded):
            return forward
        partial = placement == PARTIAL and before in (None, PARTIAL)
        return PARTIAL if partial else REPLICATED

    def _note(self, origin: str, dims: PartDims, fact: Fact) -> None:
        """Remembers what all elements have in common."""
        known = Common(dims, fact.value, fact.origin, fact.iota)
        before = self.common.get(origin)
        if before is not None:
            value = fact.value if _equal(before.value, fact.value) else None
            shapes = common_dims([before.dims, dims], origin)
            iota = fact.iota if before.iota == fact.iota else None
            known = Common(shapes, value, self.tie(before.origin, fact.origin), iota)
        if before is None or not before.same_as(known):
            self.common[origin] = known
            self.changed = True

    def tie(self, *origins: str | None) -> str | None:
        """One origin for containers that a tensor may be: their elements are cut alike, or all whole.

        Of a conditional in a conditional one branch hands values to the backward pass and the other a container of
        values. Who reads knows which of them it reads (``holding``); they need not be cut alike.
        """
        known = [o for o in origins if o is not None]
        outer = [o for o in known if self._holds_containers(o)]
        if 0 < len(outer) < len(known):
            values = [o for o in known if o not in outer]
            tied, other = self.tie(*values), self.tie(*outer)
            assert tied is not None and other is not None, "both have an origin"
            if self.beside.get(tied) != other:
                self.beside[tied] = other
                self.changed = True
            return tied
        filled = [o for o in known if o in self.elements]
        if len({self.elements[o] for o in filled}) > 1:
            for origin in filled:
                self.force(origin)
        return next(iter(filled or known), None)

    def _holds_containers(self, origin: str) -> bool:
        return origin in self.common and self.common[origin].origin is not None

    def holding(self, origin: str, containers: bool) -> str:
        """The origin of a container whose elements are, or are not, containers, where a tensor may be one of both."""
        return self.beside.get(origin, origin) if containers else origin

    def force(self, origin: str) -> None:
        """Makes all elements whole: some op needs them so. A gradient's have the shapes of the forward ones."""
        for name in dict.fromkeys((origin.partition(GRADIENT)[0], origin)):
            if name not in self.forced:
                self.forced.add(name)
                self.elements[name] = REPLICATED
                self.changed = True

    def read(self, origin: str) -> Placement:
        """Where the elements of a container are, as far as is known."""
        return self.elements.get(origin, REPLICATED)

    def cut(self, origin: str) -> Sharded | None:
        """How the elements of a container, or of a gradient's container made from it, are cut."""
        for name, placement in self.elements.items():
            if isinstance(placement, Sharded) and (name == origin or name.startswith(origin + GRADIENT)):
                return placement
        return None
