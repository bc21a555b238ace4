"""Values of which some elements are known before a run and others are not: ``[batch, longest length, 3]``.

What stands for an element that is not known is None. The arithmetic is that of ``values``.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from whale.ir.program import Op
from whale.sharding import values
from whale.sharding.facts import Fact, Value

BY_ELEMENT = frozenset(
    [
        *("Identity", "StopGradient", "PreventGradient", "Snapshot", "Cast", "Enter", "RefEnter", "Switch"),
        *("Neg", "Add", "AddV2", "Sub", "Mul", "FloorDiv", "Div", "TruncateDiv", "FloorMod", "Maximum", "Minimum"),
        *("Pack", "ConcatV2", "StridedSlice", "Slice", "Gather", "GatherV2", "Reshape", "ExpandDims", "Squeeze"),
    ]
)
"""Ops of which each element of the output comes from few of the inputs: the others need not be known."""


def evaluate(op: Op, ins: tuple[Fact, ...]) -> tuple[Value | None, Value | None]:
    """The value of the first output of an op of whose inputs only some elements are known.

    Returns:
        The value, where none of the unknown elements is in it; else the elements that are known, if there are any.
    """
    if op.type not in BY_ELEMENT or all(f.value is None and f.part is None for f in ins):
        return None, None
    result = values.evaluate(op, tuple(dataclasses.replace(f, value=_elements(f)) for f in ins))
    unknown = 0 if result is None else sum(item is None for item in np.ravel(result))
    if result is None or unknown == result.size > 0:
        return None, None
    return (None, result) if unknown else (result, None)


def _elements(fact: Fact) -> Value | None:
    """The elements of a tensor, None for those that are not known."""
    if fact.value is not None or fact.part is not None:
        return fact.part if fact.value is None else fact.value
    sizes = [d for d in fact.dims or () if isinstance(d, int)]
    if fact.dims is None or len(sizes) < len(fact.dims) or math.prod(sizes) > values.LARGEST:
        return None
    return np.full(sizes, None, dtype=object)
