"""A prepared run as the session executes it, and which runs it serves."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from whale.rewriter.mesh import Feed
from whale.runtime.draws import Draws
from whale.runtime.preparation import Prepared
from whale.runtime.signature import Signature, layout_of


@dataclasses.dataclass(frozen=True)
class Plan:
    """A prepared run with handles instead of names."""

    signature: Signature
    number: int
    """That of its report."""
    prepared: Prepared
    shapes: tuple[tuple[int, ...], ...]
    """Shapes of the values fed when it was prepared."""
    fetches: Sequence[Any]
    targets: Sequence[Any]
    feeds: Sequence[tuple[Any, Feed]]
    observed: Sequence[Any] = ()
    """For the check before the first update: what the run draws."""
    sent: Sequence[Any] = ()
    """Targets that send random ops their inputs (``rewriter/streams.py``)."""
    draws: Draws | None = None
    """Knows whether the input of its runs has come; None where they draw none."""

    def accepts(self, names: Sequence[str], shapes: tuple[tuple[int, ...], ...], replicas: int) -> bool:
        """Whether it serves a run that feeds values of these shapes."""
        if self.prepared.pinned:
            return shapes == self.shapes
        if shapes == self.shapes:
            return True
        fed = self.prepared.fed
        if fed.clash is not None:
            return fed.clashes(names, shapes)
        if not self.prepared.cut:
            small = not self.prepared.small or _largest(shapes) < replicas
            return small and layout_of(shapes) == layout_of(self.shapes)
        smallest = fed.smallest(names, shapes)
        return (smallest is None or smallest >= self.prepared.least) and fed.fit(names, shapes)


def _largest(shapes: Sequence[tuple[int, ...]]) -> int:
    return max((s[0] for s in shapes if s), default=0)
