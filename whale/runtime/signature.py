"""A run signature: which tensors are fetched and fed and which ops are run, with the shapes that matter."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from whale.ir.program import TensorType


@dataclasses.dataclass(frozen=True)
class Signature:
    """What identifies a kind of run."""

    fetches: tuple[str, ...]
    """Fetched tensors, each once, in the order in which they are asked for."""
    targets: tuple[str, ...]
    """Ops run for their effect."""
    feeds: tuple[str, ...]
    """Fed tensors, sorted."""
    layout: tuple[tuple[int, ...], ...]
    """For each feed: for each dim 0 for size 0, 1 for size 1, else the index of the first feed dim of equal size."""


def layout_of(shapes: list[tuple[int, ...]], replicas: int) -> tuple[tuple[int, ...], ...]:
    """The pattern of sizes of fed values: which leading dims agree, and which are too small to be cut."""
    seen: dict[int, int] = {}
    pattern = []
    for shape in shapes:
        row = []
        for dim, size in enumerate(shape):
            if dim > 1:
                row.append(-2)
            elif size < replicas:
                row.append(-1)
            else:
                row.append(seen.setdefault(size, len(seen)))
        pattern.append(tuple(row))
    return tuple(pattern)


@dataclasses.dataclass(frozen=True)
class Run:
    """One call of ``Session.run``, as names."""

    signature: Signature
    """Its kind."""
    feeds: Mapping[str, TensorType]
    """Types of the fed tensors as the script declares them, ranks completed from the values."""
    shapes: Mapping[str, tuple[int, ...]]
    """Shapes of the fed values."""
