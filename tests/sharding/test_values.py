"""Shape arithmetic on symbols says what numpy says once the symbols are numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sharding.programs import const, op
from whale.ir import dims as D
from whale.ir.dims import Dim
from whale.sharding.facts import Fact, Value
from whale.sharding.values import array, broadcast, evaluate

SIZES = {"n0": 6, "n1": 35}
"""What the symbols stand for."""

numbers = st.integers(1, 12)
symbols = st.sampled_from([D.symbol("n0"), D.symbol("n1"), D.multiply(D.symbol("n0"), 4), D.add(D.symbol("n1"), 3)])
sizes: st.SearchStrategy[Dim] = st.one_of(numbers, symbols)
vectors = st.lists(sizes, min_size=1, max_size=4)


def concrete(value: Value) -> np.ndarray:
    """A known value with its symbols replaced; fails on symbols that are not in ``SIZES``."""
    found = np.frompyfunc(lambda item: D.evaluate(item, SIZES), 1, 1)(value)
    return np.asarray(found, dtype=np.int64)


def known(items: Any) -> Fact:
    """The fact of a tensor with a known value."""
    value = array(items)
    return Fact(dims=value.shape, value=value)


def result(op_type: str, *facts: Fact, **attrs: Any) -> Value | None:
    """What is known of the output of an op."""
    inputs = [f"in{i}:0" for i in range(len(facts))]
    return evaluate(op("made", op_type, inputs, dtype="int32", **attrs), facts)


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "AddV2": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
}


@given(st.sampled_from(sorted(ARITHMETIC)), vectors, sizes)
def test_arithmetic(op_type: str, left: list[Dim], right: Dim) -> None:
    made = result(op_type, known(left), known(right))
    assert made is not None
    expected = ARITHMETIC[op_type](concrete(array(left)), concrete(array(right)))
    np.testing.assert_array_equal(concrete(made), expected)


DIVISIONS: dict[str, Callable[[Any, Any], Any]] = {
    "FloorDiv": np.floor_divide,
    "FloorMod": np.mod,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
}


@given(st.sampled_from(sorted(DIVISIONS)), sizes, sizes)
def test_divisions_and_extremes_are_right_or_new_symbols(op_type: str, left: Dim, right: Dim) -> None:
    made = result(op_type, known(left), known(right))
    assert made is not None
    item = made[()]
    if not D.symbols_of(item) <= set(SIZES):
        return
    expected = DIVISIONS[op_type](concrete(array(left)), concrete(array(right)))
    assert D.evaluate(item, SIZES) == expected


def test_an_inexact_division_is_one_symbol_wherever_it_is_made() -> None:
    first = result("FloorDiv", known(D.symbol("n0")), known(4))
    again = result("FloorDiv", known(D.symbol("n0")), known(4))
    other = result("FloorDiv", known(D.symbol("n1")), known(4))
    assert first is not None and again is not None and other is not None
    assert first[()] == again[()] != other[()]


@given(vectors)
def test_shape_size_and_rank(dims: list[Dim]) -> None:
    fact = Fact(dims=tuple(dims))
    shape, size, rank = (result(t, fact) for t in ("Shape", "Size", "Rank"))
    assert shape is not None and size is not None and rank is not None
    np.testing.assert_array_equal(concrete(shape), concrete(array(dims)))
    assert D.evaluate(size[()], SIZES) == np.prod(concrete(array(dims)))
    assert rank[()] == len(dims)


@pytest.mark.parametrize("op_type", ["Shape", "Size", "Rank"])
def test_nothing_is_known_of_a_tensor_of_unknown_rank(op_type: str) -> None:
    assert result(op_type, Fact()) is None


@given(vectors)
def test_products_and_sums(items: list[Dim]) -> None:
    for op_type, function in (("Prod", np.prod), ("Sum", np.sum)):
        for keep in (False, True):
            made = result(op_type, known(items), known([0]), keep_dims=keep)
            assert made is not None
            np.testing.assert_array_equal(concrete(made), function(concrete(array(items)), axis=0, keepdims=keep))


@given(st.lists(vectors, min_size=1, max_size=3))
def test_joining(parts: list[list[Dim]]) -> None:
    made = result("ConcatV2", *(known(p) for p in parts), known(0))
    assert made is not None
    np.testing.assert_array_equal(concrete(made), np.concatenate([concrete(array(p)) for p in parts]))


@given(vectors)
def test_stacking_scalars(items: list[Dim]) -> None:
    made = result("Pack", *(known(i) for i in items), axis=0)
    assert made is not None
    np.testing.assert_array_equal(concrete(made), concrete(array(items)))


@given(st.lists(sizes, min_size=2, max_size=2), st.lists(sizes, min_size=2, max_size=2), st.sampled_from([0, 1]))
def test_stacking_vectors(first: list[Dim], second: list[Dim], axis: int) -> None:
    made = result("Pack", known(first), known(second), axis=axis)
    assert made is not None
    np.testing.assert_array_equal(concrete(made), np.stack([concrete(array(first)), concrete(array(second))], axis))


bounds = st.one_of(st.none(), st.integers(-5, 5))


@given(vectors, bounds, bounds, st.sampled_from([1, 2, -1, -2]))
def test_strided_slices(items: list[Dim], begin: int | None, end: int | None, stride: int) -> None:
    made = result(
        "StridedSlice", known(items), known([begin or 0]), known([end or 0]), known([stride]),
        begin_mask=int(begin is None), end_mask=int(end is None),
    )  # fmt: skip
    assert made is not None
    np.testing.assert_array_equal(concrete(made), concrete(array(items))[begin:end:stride])


@given(vectors, st.integers(0, 3))
def test_one_element(items: list[Dim], index: int) -> None:
    made = result("StridedSlice", known(items), known([index]), known([index + 1]), known([1]), shrink_axis_mask=1)
    if index >= len(items):
        assert made is None
        return
    assert made is not None and made.shape == ()
    assert made[()] == items[index]


@given(vectors, st.data())
def test_slices(items: list[Dim], data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(items)))
    size = data.draw(st.one_of(st.just(-1), st.integers(0, len(items) - begin)))
    made = result("Slice", known(items), known([begin]), known([size]))
    assert made is not None
    expected = concrete(array(items))[begin : None if size < 0 else begin + size]
    np.testing.assert_array_equal(concrete(made), expected)


@given(vectors, st.data())
def test_gathering(items: list[Dim], data: st.DataObject) -> None:
    indices = data.draw(st.lists(st.integers(0, len(items) - 1), max_size=4))
    made = result("GatherV2", known(items), known(np.array(indices, dtype=np.int64)), known(0))
    assert made is not None
    np.testing.assert_array_equal(concrete(made), concrete(array(items))[np.array(indices, dtype=int)])


@given(st.permutations(range(5)))
def test_inverse_permutations(permutation: list[int]) -> None:
    made = result("InvertPermutation", known(permutation))
    assert made is not None
    np.testing.assert_array_equal(concrete(made), np.argsort(permutation))


@given(st.permutations(range(4)), st.lists(sizes, min_size=4, max_size=4))
def test_stitching(where: list[int], items: list[Dim]) -> None:
    made = result("DynamicStitch", known(where[:2]), known(where[2:]), known(items[:2]), known(items[2:]))
    assert made is not None
    expected = np.zeros(4, dtype=np.int64)
    expected[where] = concrete(array(items))
    np.testing.assert_array_equal(concrete(made), expected)


@given(st.integers(-3, 3), st.integers(-3, 6), st.sampled_from([1, 2, -1]))
def test_ranges(start: int, stop: int, step: int) -> None:
    made = result("Range", known(start), known(stop), known(step))
    assert made is not None
    np.testing.assert_array_equal(concrete(made), np.arange(start, stop, step))


def test_a_range_over_the_batch_has_no_known_value() -> None:
    assert result("Range", known(0), known(D.symbol("n0")), known(1)) is None


@given(vectors)
def test_moving_dims(items: list[Dim]) -> None:
    numbers = concrete(array(items))
    made = {
        "ExpandDims": (result("ExpandDims", known(items), known(1)), numbers[:, None]),
        "Squeeze": (result("Squeeze", known([items]), squeeze_dims=(0,)), numbers),
        "Reshape": (result("Reshape", known(items), known([-1, 1])), numbers.reshape(-1, 1)),
        "Tile": (result("Tile", known(items), known([2])), np.tile(numbers, 2)),
        "ReverseV2": (result("ReverseV2", known(items), known([0])), numbers[::-1]),
        "Transpose": (result("Transpose", known([items]), known([1, 0])), numbers[:, None]),
        "Fill": (result("Fill", known([2, 2]), known(items[0])), np.full((2, 2), numbers[0])),
        "Identity": (result("Identity", known(items)), numbers),
        "Cast": (result("Cast", known(items)), numbers),
    }
    for name, (value, expected) in made.items():
        assert value is not None, name
        np.testing.assert_array_equal(concrete(value), expected, err_msg=name)


@given(st.lists(numbers, min_size=1, max_size=4))
def test_comparisons_of_numbers(items: list[int]) -> None:
    for op_type, function in (("Equal", np.equal), ("Less", np.less), ("Greater", np.greater)):
        made = result(op_type, known(items), known(5))
        assert made is not None
        np.testing.assert_array_equal(concrete(made), function(items, 5))


def test_comparisons_of_symbols_are_not_guessed() -> None:
    made = result("Equal", known(D.symbol("n0")), known(6))
    assert made is not None
    assert str(made[()]) == "Equal(n0,6)"
    assert result("Equal", known([D.symbol("n0")]), known(6)) is None


def test_the_largest_of_one_size_is_that_size() -> None:
    assert result("Max", known([D.symbol("n0")]), known([0])) == D.symbol("n0")
    assert result("Max", known([4, 6, 5]), known([0])) == 6
    assert result("Min", known([4, 6, 5]), known([0])) == 4


shapes = st.lists(st.sampled_from([1, 1, 3]), max_size=4)


@given(shapes, shapes)
def test_broadcast_of_numbers(left: list[int], right: list[int]) -> None:
    assert broadcast(tuple(left), tuple(right)) == np.broadcast_shapes(tuple(left), tuple(right))


def test_broadcast_of_symbols() -> None:
    n = D.symbol("n0")
    for left, right in itertools.permutations([(n, 1), (1, 4)], 2):
        assert broadcast(left, right) == (n, 4)
    assert broadcast((n,), (3, 1)) == (3, n)


def test_only_integers_are_followed() -> None:
    constant = const("c", [0.5, 1.5], "float32")
    assert evaluate(constant, ()) is None
    assert evaluate(const("c", [3, 4]), ()) is not None


def test_large_values_are_not_followed() -> None:
    assert result("Fill", known([65, 65]), known(1)) is None
    assert result("Fill", known([64, 64]), known(1)) is not None
