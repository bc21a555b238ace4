"""What a script recorded, as a flat list of named arrays, and the comparison of two such lists."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

SMALLEST_SCALE = 1e-2
"""Arrays whose largest magnitude is below this are compared as if it were this: they are sums of numbers of order
one that cancel, and keep the rounding error of what they were made of."""


@dataclasses.dataclass
class Recording:
    """Values in the order in which the script recorded them."""

    entries: list[tuple[str, np.ndarray]] = dataclasses.field(default_factory=list)
    """Name and value; structures are flattened to ``name/key`` entries."""

    def __call__(self, name: str, value: Any) -> None:
        """Add a value: a number, array or string, or any nesting of tuples, lists, dicts and None."""
        self.entries += list(_flatten(name, value))

    @property
    def names(self) -> list[str]:
        """The names, in order."""
        return [name for name, _ in self.entries]


def _flatten(name: str, value: Any) -> Iterator[tuple[str, np.ndarray]]:
    if isinstance(value, Mapping):
        for key in sorted(value):
            yield from _flatten(f"{name}/{key}", value[key])
    elif hasattr(value, "_fields"):
        for key in value._fields:
            yield from _flatten(f"{name}/{key}", getattr(value, key))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _flatten(f"{name}/{index}", item)
    elif value is None:
        yield name, np.array("None", dtype=object)
    else:
        yield name, np.array(value)


def differences(expected: Recording, actual: Recording, tolerance: float) -> list[str]:
    """Sentences, one for each way in which ``actual`` is not ``expected``; empty when they agree.

    Floating point arrays agree when no element differs by more than ``tolerance`` times the largest magnitude
    of the expected array. Everything else (types, shapes, integers, booleans, strings) must be equal.
    """
    if expected.names != actual.names:
        return [f"recorded names differ: {_first_unequal(expected.names, actual.names)}"]
    found = []
    for position, ((name, left), (_, right)) in enumerate(zip(expected.entries, actual.entries)):
        sentence = _difference(left, right, tolerance)
        if sentence:
            found.append(f"entry {position} ({name}): {sentence}")
    return found


def _first_unequal(expected: list[str], actual: list[str]) -> str:
    for position, (left, right) in enumerate(zip(expected, actual)):
        if left != right:
            return f"entry {position} is {right!r}, expected {left!r}"
    return f"{len(actual)} entries, expected {len(expected)}"


def _difference(expected: np.ndarray, actual: np.ndarray, tolerance: float) -> str:
    if expected.dtype != actual.dtype and not {expected.dtype.kind, actual.dtype.kind} <= set("OSU"):
        return f"type {actual.dtype}, expected {expected.dtype}"
    if expected.shape != actual.shape:
        return f"shape {actual.shape}, expected {expected.shape}"
    if not np.issubdtype(expected.dtype, np.inexact) and expected.dtype.name != "bfloat16":
        return "" if expected.tolist() == actual.tolist() else f"{_brief(actual)}, expected {_brief(expected)}"
    error = relative_error(expected, actual)
    if error <= tolerance:
        return ""
    return f"differs by {error:.3g} of its scale (allowed {tolerance:g}): {_brief(actual)}, expected {_brief(expected)}"


def relative_error(expected: np.ndarray, actual: np.ndarray) -> float:
    """Largest difference divided by the largest finite magnitude; infinite when NaN or infinity do not coincide."""
    kind = np.complex128 if expected.dtype.kind == "c" else np.float64
    left, right = expected.astype(kind).ravel(), actual.astype(kind).ravel()
    finite = np.isfinite(left)
    if not np.array_equal(finite, np.isfinite(right)):
        return float("inf")
    if not np.array_equal(left[~finite], right[~finite], equal_nan=True):
        return float("inf")
    left, right = left[finite], right[finite]
    if not left.size:
        return 0.0
    return float(np.abs(left - right).max() / max(np.abs(left).max(), SMALLEST_SCALE))


def _brief(value: np.ndarray) -> str:
    return np.array2string(value, threshold=6, edgeitems=3, precision=9).replace("\n", " ")
