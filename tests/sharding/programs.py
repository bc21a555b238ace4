"""Small programs made by hand, for tests of the analysis without TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from whale.ir.program import Op, Shape, TensorType
from whale.sharding.order import order
from whale.sharding.propagate import Analysis, Request, Source, propagate
from whale.sharding.rules.state import writes_variable


def op(
    name: str,
    op_type: str,
    inputs: Sequence[str] = (),
    shape: Shape = None,
    dtype: str = "float32",
    controls: Sequence[str] = (),
    outputs: Sequence[TensorType] | None = None,
    **attrs: Any,
) -> Op:
    """An op with one output, or with the outputs given; one that writes takes its first input by reference."""
    state = (0,) if writes_variable(op_type) else ()
    made = (TensorType(dtype, shape),) if outputs is None else tuple(outputs)
    return Op(name, op_type, tuple(inputs), tuple(controls), made, attrs, b"", state=state)


def const(name: str, value: Any, dtype: str = "int32") -> Op:
    """A constant whose value the analysis knows."""
    array = np.asarray(value, dtype=dtype)
    return Op(name, "Const", (), (), (TensorType(dtype, array.shape),), {}, b"", value=array)


def analyse(
    ops: Sequence[Op],
    feeds: Mapping[str, TensorType],
    sources: Sequence[Source],
    whole_ops: Mapping[str, str] | None = None,
) -> Analysis:
    """Propagates over ops in which fed tensors have no producer, or one that is left out."""
    ordered = order(ops, frozenset(feeds))
    return propagate(Request(ordered, feeds, whole_ops=whole_ops or {}), tuple(sources))
