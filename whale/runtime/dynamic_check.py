"""The comparison of whole and cut gradients on the first batch, before the first update.

It refutes, it does not prove: branches not taken and gradients of zero are not seen. It costs about two steps, once for
each kind of training run, and consumes nothing: what was drawn for it is fed to the step itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from whale.planner.witness import Witness

_COARSE = 5e-2
_SINGLE = 1e-3
_DOUBLE = 1e-6
"""Largest difference that rounding explains, as a part of a tensor's largest element: where something is computed in 16
bits, in float32, in wider types."""

_NOTHING = 1e-3
"""No tensor is compared by less than this part of the largest element of any: gradients that
cancel to rounding have no size of their own."""


_OF_SUMMANDS = 1e-2
"""Nor by less than this part of the sum of the magnitudes that it adds up: what is left when summands cancel has their
rounding errors, which are larger than those of adding, since the summands were computed themselves."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What a comparison found."""

    compared: int
    """Number of tensors compared."""
    worst: float = 0.0
    """Largest difference, as a part of its tensor's largest element."""
    mismatch: str = ""
    """The first tensor that differs and by how much; empty where all agree."""
    failure: str = ""
    """Why nothing could be compared, where something should have been."""

    def line(self) -> str:
        """The verdict as the plan prints it."""
        if self.mismatch:
            return f"the check before the first update failed: {self.mismatch}"
        if self.failure:
            return f"not checked: {self.failure}"
        if not self.compared:
            return "not checked: nothing that updates read can be computed without a side effect"
        plural = "s" if self.compared > 1 else ""
        return f"checked: {self.compared} tensor{plural} that updates read agree whole and cut (to {self.worst:.1e})"


def compare(seen: Witness, whole: Sequence[Any], cut: Sequence[Any], made_of: Sequence[float] | None = None) -> Verdict:
    """Compares tensors computed whole and cut.

    Args:
        seen: what was compared.
        whole: the values on one device.
        cut: the values from pieces.
        made_of: for each tensor, what its elements are made of (see ``size_of_sum``), where that was asked for.
    """
    worst, count = 0.0, len(seen.compared)
    least = _NOTHING * max((_size(np.asarray(value)) for value in whole), default=0.0)
    sizes = made_of or [0.0] * count
    for tensor, reader, left, right, made in zip(seen.compared, seen.readers, whole, cut, sizes):
        a, b = np.asarray(left), np.asarray(right)
        if a.shape != b.shape:
            return Verdict(count, worst, f"'{tensor}', read by '{reader}', has shape {b.shape} instead of {a.shape}")
        narrow = a.dtype.itemsize * (2 if a.dtype.kind != "c" else 1) <= 8
        bound = _COARSE if seen.coarse else _SINGLE if narrow else _DOUBLE
        difference = _difference(a, b, max(least, made * _OF_SUMMANDS))
        if difference > bound:
            return Verdict(count, worst, f"'{tensor}', read by '{reader}', differs by {difference:.1e} of its size")
        worst = max(worst, difference)
    return Verdict(count, worst)


def size_of_sum(compared: Any, total: Any, summands: Any) -> float:
    """The size of what a tensor is made of: the mean over its elements of the summands' magnitudes, added up.

    Args:
        compared: the tensor: the sum, up to its shape and a factor.
        total: the sum.
        summands: what it adds up, each into one of its elements.
    """
    if np.size(compared) != np.size(total):
        return 0.0  # the sum was a factor
    magnitudes = np.abs(np.asarray(summands).astype(np.complex128))
    size = float(magnitudes.sum()) / max(np.asarray(total).size, 1)
    of_total = _size(np.asarray(total))
    factor = _size(np.asarray(compared)) / of_total if of_total else 0.0
    return size * factor if np.isfinite(size) else 0.0


def merged(names: Sequence[str], known: Mapping[str, Any], computed: Sequence[Any]) -> list[Any]:
    """Values of all ``names`` in order, those not ``known`` taken from ``computed`` in turn."""
    rest = iter(computed)
    return [known[name] if name in known else next(rest) for name in names]


def _size(array: np.ndarray[Any, Any]) -> float:
    """The largest finite magnitude of a tensor."""
    magnitudes = np.abs(array.astype(np.complex128 if array.dtype.kind == "c" else np.float64))
    return float(np.max(magnitudes, initial=0.0, where=np.isfinite(magnitudes)))


def _difference(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], least: float) -> float:
    """Largest difference of two arrays of one shape, as a part of the first's size or of ``least``."""
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    a, b = a.astype(wide), b.astype(wide)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return 0.0
    gap = np.abs(a - b)[~same]
    return float("inf") if not np.isfinite(gap).all() else float(gap.max()) / max(_size(a), least, 1e-300)
