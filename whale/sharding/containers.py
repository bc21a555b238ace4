"""Containers of tensors: TensorArrays, stacks, tensor lists.

A container is known by the op that made it. All its elements are placed alike, whatever the order in which ops that
write and read it are met: a write that brings another placement widens the container's, and the propagation runs
again.
"""

from __future__ import annotations

import dataclasses

from whale.ir.placement import PARTIAL, REPLICATED, Placement, Sharded
from whale.sharding.facts import Dims, Fact, Value
from whale.sharding.join import join

GRADIENT = "/gradient/"
"""Stands in the origin of a gradient's container between the forward container and the gradient's source."""


@dataclasses.dataclass
class Containers:
    """Placement of the elements of each container."""

    elements: dict[str, Placement] = dataclasses.field(default_factory=dict[str, Placement])
    """By the container's origin; absent while nothing is known."""
    zeros: dict[str, bool] = dataclasses.field(default_factory=dict[str, bool])
    """Whether all elements written so far are zeros."""
    common: dict[str, Fact] = dataclasses.field(default_factory=dict[str, Fact])
    """Sizes and value that all elements share, where they do."""
    forced: set[str] = dataclasses.field(default_factory=set[str])
    """Containers whose elements must be whole."""
    changed: bool = False
    """Set when a placement was widened since it was last cleared."""

    def write(self, origin: str, fact: Fact, placement: Placement, dims: Dims) -> Placement:
        """Notes that an element is written, placed and of sizes as given; returns where all elements are."""
        self._note(origin, dims, fact.value, fact.origin)
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

    def _note(self, origin: str, dims: Dims, value: Value | None, inner: str | None) -> None:
        """Remembers what all elements have in common; ``inner`` is the origin of elements that are containers."""
        known = Fact(dims=dims, value=value, origin=inner)
        before = self.common.get(origin)
        if before is not None:
            same = before.value is not None and Fact(value=before.value) == Fact(value=value)
            known = Fact(
                dims=dims if before.dims == dims else None,
                value=value if same else None,
                origin=self.tie(before.origin, inner),
            )
        if before != known:
            self.common[origin] = known
            self.changed = True

    def tie(self, *origins: str | None) -> str | None:
        """One origin for containers that a tensor may be: their elements are cut alike, or all whole."""
        known = [o for o in origins if o is not None]
        filled = [o for o in known if o in self.elements]
        if len({self.elements[o] for o in filled}) > 1:
            for origin in filled:
                self.force(origin)
        return next(iter(filled or known), None)

    def force(self, origin: str) -> None:
        """Makes all elements whole: some op needs them so."""
        if origin not in self.forced:
            self.forced.add(origin)
            self.elements[origin] = REPLICATED
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
