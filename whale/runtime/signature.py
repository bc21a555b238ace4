"""A run signature: which tensors are fetched and fed and which ops are run, with the shapes that matter."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

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
    ranks: tuple[int, ...]
    """Rank of each fed value."""


def layout_of(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Which fed values agree in their first size: for each, the index of the first of equal size; -1 for scalars.

    A size of one, which is broadcast, is -2.
    """
    seen: dict[int, int] = {1: -2}
    return tuple(seen.setdefault(shape[0], len(seen)) if shape else -1 for shape in shapes)


@dataclasses.dataclass(frozen=True)
class Run:
    """One call of ``Session.run``, as names."""

    signature: Signature
    """Its kind."""
    feeds: Mapping[str, TensorType]
    """Types of the fed tensors as the script declares them, ranks completed from the values."""
    shapes: Mapping[str, tuple[int, ...]]
    """Shapes of the fed values."""

    def with_two_rows(self) -> Run:
        """The run as if batches of one row or none, whose size the script leaves open, had two."""
        shapes = dict(self.shapes)
        for name, shape in self.shapes.items():
            declared = self.feeds[name].shape
            if declared and declared[0] is None and shape[0] < 2:
                shapes[name] = (2, *shape[1:])
        return dataclasses.replace(self, shapes=shapes)


def signature_of(
    targets: Sequence[Any], fetches: Sequence[Any], feeds: Sequence[tuple[Any, Any]]
) -> tuple[Signature, dict[str, tuple[int, ...]]]:
    """The kind of a call of ``Session.run``, and the shapes of what it feeds: all that a step that was planned needs.

    Args:
        targets: operations that are run.
        fetches: tensors that are fetched.
        feeds: tensors that are fed, with their values.
    """
    shapes = dict(sorted((tensor.name, tuple(np.shape(value))) for tensor, value in feeds))
    ranks = tuple(len(shape) for shape in shapes.values())
    return Signature(tuple(t.name for t in fetches), tuple(o.name for o in targets), tuple(shapes), ranks), shapes


def run_of(targets: Sequence[Any], fetches: Sequence[Any], feeds: Sequence[tuple[Any, Any]]) -> Run:
    """A call of ``Session.run`` as names; arguments as for ``signature_of``."""
    signature, shapes = signature_of(targets, fetches, feeds)
    fed = {tensor.name: tensor for tensor, _ in feeds}
    types = {name: TensorType(fed[name].dtype.name, _declared(fed[name], shape)) for name, shape in shapes.items()}
    return Run(signature, types, shapes)


def _declared(tensor: Any, shape: tuple[int, ...]) -> tuple[int | None, ...]:
    """The script's static shape of a fed tensor, its rank completed from the value."""
    static = tensor.shape
    return (None,) * len(shape) if static.rank is None else tuple(static.as_list())
