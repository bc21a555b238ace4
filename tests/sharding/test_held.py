"""Which data of a graph may be a batch, though nothing is fed or drawn for it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.sharding.programs import const, op
from whale.ir.program import Op
from whale.sharding.held import Variables, held
from whale.sharding.order import order

ROWS = (24, 4)


def _found(ops: Sequence[Op], variables: Variables, feeds: Sequence[str] = ()) -> list[str]:
    return [source.tensor for source in held(order(ops, frozenset(feeds)), frozenset(feeds), variables)]


def _numbers(kind: str) -> list[Op]:
    """Ops of which the last gives the numbers of 8 rows."""
    if kind == "drawn":
        return [op("at", "QueueDequeueV2", dtype="int32", shape=(8,))]
    if kind == "permuted":
        return [const("count", range(24)), op("at", "RandomShuffle", ["count:0"], shape=(8,), dtype="int32")]
    if kind == "counted":
        return [op("counter", "VariableV2", dtype="int32"), op("at", "Identity", ["counter:0"], shape=(8,))]
    if kind == "fixed":
        return [const("at", range(8))]
    return [op("kernel", "VariableV2", shape=(8,)), op("at", "ArgMax", ["kernel:0"], shape=(8,), dtype="int32")]


def _gathered(data: Sequence[Op], kind: str) -> list[Op]:
    return [*data, *_numbers(kind), op("rows", "GatherV2", ["data:0", "at:0"], shape=(8, 4))]


DATA = const("data", [[0.0] * 4] * 24, "float32")
TABLE = op("data", "VariableV2", shape=ROWS, dtype="float32_ref")
WEIGHTS = Variables(frozenset({"kernel", "data"}))
OTHERS = Variables(frozenset({"kernel"}))


@pytest.mark.parametrize("kind", ["drawn", "permuted", "counted"])
def test_rows_of_data_by_numbers_that_change_are_a_batch(kind: str) -> None:
    moved = [op("next", "AssignAdd", ["counter:0", "at:0"])] if kind == "counted" else []
    assert _found([*_gathered([DATA], kind), *moved], OTHERS) == ["rows:0"]


def test_rows_of_a_variable_that_is_not_trained_are_a_batch_and_the_variable_is_none() -> None:
    local = Variables(frozenset({"kernel"}), frozenset({"data"}))
    assert _found(_gathered([TABLE], "drawn"), local) == ["rows:0"]


def test_rows_of_a_trained_table_are_none() -> None:
    assert _found(_gathered([TABLE], "drawn"), WEIGHTS) == []


def test_rows_that_are_always_the_same_are_none() -> None:
    assert _found(_gathered([DATA], "fixed"), OTHERS) == []


def test_rows_that_the_model_chooses_are_none() -> None:
    assert _found(_gathered([DATA], "learned"), OTHERS) == []


def test_rows_of_data_that_the_run_writes_are_none() -> None:
    ops = [*_gathered([TABLE], "drawn"), op("write", "Assign", ["data:0", "rows:0"])]
    assert _found(ops, OTHERS) == []


@pytest.mark.parametrize(("mask", "found"), [(0, ["row:0"]), (1, [])])
def test_one_row_without_its_dim_is_no_batch(mask: int, found: list[str]) -> None:
    at = op("at", "QueueDequeueV2", dtype="int32", shape=(2,))
    ops = [DATA, at, const("steps", [1, 1])]
    row = op("row", "StridedSlice", ["data:0", "at:0", "at:0", "steps:0"], shape=(4,), shrink_axis_mask=mask)
    assert _found([*ops, row], OTHERS) == found


@pytest.mark.parametrize("shape", [None, (None, 4), (1, 4), ()])
def test_a_batch_has_a_size_that_the_script_states(shape: tuple[int | None, ...] | None) -> None:
    ops = [DATA, *_numbers("drawn"), op("rows", "GatherV2", ["data:0", "at:0"], shape=shape)]
    assert _found(ops, OTHERS) == []


@pytest.mark.parametrize(("holder", "reader"), [("VariableV2", "Identity"), ("VarHandleOp", "ReadVariableOp")])
def test_a_local_variable_that_is_only_read_is_a_batch(holder: str, reader: str) -> None:
    ops = [op("data", holder, shape=ROWS), op("read", reader, ["data:0"], shape=ROWS)]
    assert _found(ops, Variables(frozenset(), frozenset({"data"}))) == ["read:0"]
    assert _found(ops, Variables()) == [], "a global one may hold parameters"
    written = [*ops, op("write", "AssignAdd", ["data:0", "read:0"])]
    assert _found(written, Variables(frozenset(), frozenset({"data"}))) == [], "metrics are written as they are read"


def test_what_is_fed_is_no_data_of_the_graph() -> None:
    assert _found(_gathered([DATA], "drawn"), OTHERS, ["data:0"]) == []
    assert _found(_gathered([DATA], "fixed"), OTHERS, ["at:0"]) == ["rows:0"], "numbers may be fed"
