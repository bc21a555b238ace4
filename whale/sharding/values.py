"""Shape arithmetic evaluated on symbols.

Every function maps the known values of an op's inputs to the value of its first output, or None when it cannot say.
Values are arrays of dtype object holding ints and polynomials, and always speak of the whole batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Optional

import numpy as np

from whale.ir import dims as D
from whale.ir.dims import Dim
from whale.ir.program import Op
from whale.sharding.facts import Fact, Value

LARGEST = 4096
"""Values of more elements are not followed."""

INTEGERS = frozenset({"int32", "int64", "int16", "uint8", "int8", "bool"})
"""Types of tensors whose values are followed."""

Evaluator = Callable[[Op, tuple[Fact, ...]], Optional[Value]]


def evaluate(op: Op, ins: tuple[Fact, ...]) -> Value | None:
    """Known value of the first output of an op, or None."""
    evaluator = EVALUATORS.get(op.type)
    if evaluator is None or not op.outputs or op.outputs[0].dtype.replace("_ref", "") not in INTEGERS:
        return None
    value = evaluator(op, ins)
    return value if value is not None and value.size <= LARGEST else None


def array(items: Any) -> Value:
    """An array of dtype object, from a nested list or an array of numbers."""
    result = np.array(items, dtype=object)
    if result.dtype == object and isinstance(items, np.ndarray):
        result = np.frompyfunc(int, 1, 1)(result) if result.size else result
        result = np.asarray(result, dtype=object)
    return result


def _known(ins: tuple[Fact, ...]) -> list[Value] | None:
    values = [f.value for f in ins]
    return None if any(v is None for v in values) else [v for v in values if v is not None]


def _constant(op: Op, ins: tuple[Fact, ...]) -> Value | None:
    if op.value is None or op.value.dtype.kind not in "iub":
        return None
    return array(op.value)


def _shape(op: Op, ins: tuple[Fact, ...]) -> Value | None:
    return None if ins[0].dims is None else array(list(ins[0].dims))


def _size(op: Op, ins: tuple[Fact, ...]) -> Value | None:
    return None if ins[0].dims is None else array(D.product(ins[0].dims))


def _rank(op: Op, ins: tuple[Fact, ...]) -> Value | None:
    return None if ins[0].dims is None else array(len(ins[0].dims))


def _first(op: Op, ins: tuple[Fact, ...]) -> Value | None:
    return ins[0].value


def _elementwise(function: Callable[[Dim, Dim], Dim]) -> Evaluator:
    apply = np.frompyfunc(_where_known(function), 2, 1)

    def evaluator(op: Op, ins: tuple[Fact, ...]) -> Value | None:
        values = _known(ins)
        return None if values is None else np.asarray(apply(values[0], values[1]), dtype=object)

    return evaluator


def _where_known(function: Callable[[Dim, Dim], Dim]) -> Callable[[Dim | None, Dim | None], Dim | None]:
    """A function of two elements that may not be known. What one leaves is known, whatever is divided by it."""

    def apply(a: Dim | None, b: Dim | None) -> Dim | None:
        if b is not None and (a is not None or (function is D.modulo and b == 1)):
            return function(0 if a is None else a, b)
        return None

    return apply


def _negative(op: Op, ins: tuple[Fact, ...]) -> Value | None:
    return _elementwise(D.multiply)(op, (Fact(value=array(-1)), ins[0]))


def _extreme(name: str, pick: Callable[[int, int], int]) -> Callable[[Dim, Dim], Dim]:
    def function(a: Dim, b: Dim) -> Dim:
        if isinstance(a, int) and isinstance(b, int):
            return pick(a, b)
        if a == b:
            return a
        if name == "max" and 1 in (a, b):  # sizes are at least one wherever a script takes max(size, 1)
            return b if a == 1 else a
        return D.opaque(name, a, b)

    return function


def _subtract(a: Dim, b: Dim) -> Dim:
    return D.add(a, D.negate(b))


def _pack(op: Op, ins: tuple[Fact, ...]) -> Value | None:
    values = _known(ins)
    if values is None:
        return None
    return np.stack(values, axis=op.attrs.get("axis", 0)) if values[0].ndim else array([v[()] for v in values])


def _concat(op: Op, ins: tuple[Fact, ...]) -> Value | None:
    values = _known(ins)
    if values is None or not isinstance(values[-1][()], int):
        return None
    return np.concatenate(values[:-1], axis=values[-1][()])


def _indices(value: Value) -> list[int] | None:
    flat = [item for item in np.ravel(value)]
    return [int(i) for i in flat] if all(isinstance(i, (int, np.integer)) for i in flat) else None


def strided_index(op: Op, begin: list[int], end: list[int], strides: list[int]) -> tuple[Any, ...]:
    """The numpy index of a StridedSlice."""
    masks = {name: op.attrs.get(f"{name}_mask", 0) for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    index: list[Any] = []
    for i in range(len(begin)):
        bit = 1 << i
        if masks["ellipsis"] & bit:
            index.append(Ellipsis)
        elif masks["new_axis"] & bit:
            index.append(None)
        elif masks["shrink_axis"] & bit:
            index.append(begin[i])
        else:
            start = None if masks["begin"] & bit else begin[i]
            stop = None if masks["end"] & bit else end[i]
            index.append(slice(start, stop, strides[i]))
    return tuple(index)


def _strided_slice(op: Op, ins: tuple[Fact, ...]) -> Value | None:
    values = _known(ins)
    if values is None:
        return None
    numbers = [_indices(v) for v in values[1:4]]
    if any(n is None for n in numbers):
        return None
    begin, end, strides = (n for n in numbers if n is not None)
    try:
        return np.asarray(values[0][strided_index(op, begin, end, strides)], dtype=object)
    except IndexError:
        return None


def _slice(op: Op, ins: tuple[Fact, ...]) -> Value | None:
    values = _known(ins)
    if values is None:
        return None
    begin, size = _indices(values[1]), _indices(values[2])
    if begin is None or size is None:
        return None
    return values[0][tuple(slice(b, None if s < 0 else b + s) for b, s in zip(begin, size))]


def _gather(op: Op, ins: tuple[Fact, ...]) -> Value | None:
    values = _known(ins)
    if values is None:
        return None
    indices = _indices(values[1])
    if indices is None or (len(values) > 2 and values[2][()] != 0) or values[0].ndim == 0:
        return None
    if any(not 0 <= i < values[0].shape[0] for i in indices):
        return None
    return np.asarray(values[0][np.reshape(np.array(indices, dtype=int), values[1].shape)], dtype=object)


def _reduce(function: Callable[[Dim, Dim], Dim], start: Dim) -> Evaluator:
    def evaluator(op: Op, ins: tuple[Fact, ...]) -> Value | None:
        values = _known(ins)
        if values is None or values[0].ndim > 1:
            return None
        axes = _indices(values[1])
        if values[0].ndim == 0 or not axes:
            return values[0]
        result: Dim | None = start
        for item in values[0]:
            result = _where_known(function)(result, item)
        return array([result]) if op.attrs.get("keep_dims") else array(result)

    return evaluator


def _range(op: Op, ins: tuple[Fact, ...]) -> Value | None:
    values = _known(ins)
    numbers = None if values is None else [v[()] for v in values]
    if numbers is None or not all(isinstance(n, int) for n in numbers) or numbers[2] == 0:
        return None
    return array(list(range(*numbers)))


def _reshape(op: Op, ins: tuple[Fact, ...]) -> Value | None:
    values = _known(ins)
    target = None if values is None else _indices(values[1])
    if values is None or target is None:
        return None
    return np.reshape(values[0], target)


def _expand_dims(op: Op, ins: tuple[Fact, ...]) -> Value | None:
    values = _known(ins)
    if values is None or not isinstance(values[1][()], int):
        return None
    return np.expand_dims(values[0], values[1][()])


def _squeeze(op: Op, ins: tuple[Fact, ...]) -> Value | None:
    value = ins[0].value
    if value is None:
        return None
    axes = op.attrs.get("squeeze_dims") or None
    return np.asarray(np.squeeze(value, axis=axes), dtype=object)


def _fill(op: Op, ins: tuple[Fact, ...]) -> Value | None:
    values = _known(ins)
    shape = None if values is None else _indices(values[0])
    if values is None or shape is None or int(np.prod(shape)) > LARGEST:
        return None
    result = np.empty(shape, dtype=object)
    result.fill(values[1][()])
    return result


def _tile(op: Op, ins: tuple[Fact, ...]) -> Value | None:
    values = _known(ins)
    multiples = None if values is None else _indices(values[1])
    if values is None or multiples is None:
        return None
    return np.tile(values[0], multiples)


def _dynamic_stitch(op: Op, ins: tuple[Fact, ...]) -> Value | None:
    values = _known(ins)
    if values is None:
        return None
    half = len(values) // 2
    items: dict[int, Dim] = {}
    for index, data in zip(values[:half], values[half:]):
        where = _indices(index)
        if where is None or data.ndim != index.ndim:
            return None
        items.update(zip(where, np.ravel(data)))
    if sorted(items) != list(range(len(items))):
        return None
    return array([items[i] for i in range(len(items))])


def _invert_permutation(op: Op, ins: tuple[Fact, ...]) -> Value | None:
    value = ins[0].value
    permutation = None if value is None else _indices(value)
    return None if permutation is None else array([permutation.index(i) for i in range(len(permutation))])


def _transpose(op: Op, ins: tuple[Fact, ...]) -> Value | None:
    values = _known(ins)
    permutation = None if values is None else _indices(values[1])
    return None if values is None or permutation is None else np.transpose(values[0], permutation)


def _reverse(op: Op, ins: tuple[Fact, ...]) -> Value | None:
    values = _known(ins)
    axes = None if values is None else _indices(values[1])
    return None if values is None or axes is None else np.flip(values[0], tuple(axes))


def _broadcast_args(op: Op, ins: tuple[Fact, ...]) -> Value | None:
    values = _known(ins)
    if values is None:
        return None
    merged = broadcast(tuple(values[0]), tuple(values[1]))
    return array(list(merged))


def broadcast(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Sizes of the broadcast of two shapes; where the sizes are not comparable the first is taken."""
    rank = max(len(a), len(b))
    left = (1,) * (rank - len(a)) + a
    right = (1,) * (rank - len(b)) + b
    merged: list[Dim] = []
    for x, y in zip(left, right):
        if x == 1:
            merged.append(y)
        elif y == 1 or not isinstance(y, int):
            merged.append(x)
        else:
            merged.append(y)
    return tuple(merged)


def _list_difference(op: Op, ins: tuple[Fact, ...]) -> Value | None:
    numbers = [None if f.value is None else _indices(f.value) for f in ins]
    if numbers[0] is None or numbers[1] is None:
        return None
    without = set(numbers[1])
    return array([n for n in numbers[0] if n not in without])


def _extreme_of(function: Callable[[Dim, Dim], Dim]) -> Evaluator:
    """The largest or smallest element of a vector; a single one is that, whatever it is."""

    def evaluator(op: Op, ins: tuple[Fact, ...]) -> Value | None:
        value = ins[0].value
        if value is None or value.ndim > 1 or not value.size:
            return None
        return _reduce(function, np.ravel(value)[0])(op, ins)

    return evaluator


def _compare(function: Callable[[int, int], bool]) -> Evaluator:
    def number(a: int, b: int) -> int:
        return int(function(a, b))

    apply = np.frompyfunc(number, 2, 1)

    def evaluator(op: Op, ins: tuple[Fact, ...]) -> Value | None:
        values = _known(ins)
        if values is None:
            return None
        if any(not isinstance(i, int) for v in values for i in np.ravel(v)):
            pair: list[Dim | None] = [item for v in values if v.ndim == 0 for item in np.ravel(v)]
            known = [item for item in pair if item is not None]
            return array(D.opaque(op.type, *known)) if len(known) == 2 else None
        return np.asarray(apply(*values), dtype=object)

    return evaluator


EVALUATORS: Mapping[str, Evaluator] = {
    "Const": _constant,
    "Shape": _shape,
    "Size": _size,
    "Rank": _rank,
    "Identity": _first,
    "StopGradient": _first,
    "PreventGradient": _first,
    "Snapshot": _first,
    "Cast": _first,
    "Enter": _first,
    "RefEnter": _first,
    "Exit": _first,
    "Switch": _first,
    "Neg": _negative,
    "Add": _elementwise(D.add),
    "AddV2": _elementwise(D.add),
    "Sub": _elementwise(_subtract),
    "Mul": _elementwise(D.multiply),
    "FloorDiv": _elementwise(D.floor_divide),
    "Div": _elementwise(D.floor_divide),
    "TruncateDiv": _elementwise(D.floor_divide),
    "FloorMod": _elementwise(D.modulo),
    "Maximum": _elementwise(_extreme("max", max)),
    "Minimum": _elementwise(_extreme("min", min)),
    "Equal": _compare(lambda a, b: a == b),
    "Less": _compare(lambda a, b: a < b),
    "Greater": _compare(lambda a, b: a > b),
    "GreaterEqual": _compare(lambda a, b: a >= b),
    "Pack": _pack,
    "ConcatV2": _concat,
    "StridedSlice": _strided_slice,
    "Slice": _slice,
    "Gather": _gather,
    "GatherV2": _gather,
    "Prod": _reduce(D.multiply, 1),
    "Sum": _reduce(D.add, 0),
    "Max": _extreme_of(_extreme("max", max)),
    "Min": _extreme_of(_extreme("min", min)),
    "Range": _range,
    "Reshape": _reshape,
    "ExpandDims": _expand_dims,
    "Squeeze": _squeeze,
    "Fill": _fill,
    "Tile": _tile,
    "DynamicStitch": _dynamic_stitch,
    "ListDiff": _list_difference,
    "InvertPermutation": _invert_permutation,
    "Transpose": _transpose,
    "ReverseV2": _reverse,
    "BroadcastArgs": _broadcast_args,
}
