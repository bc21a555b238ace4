"""Which sources are cut, and on which dim."""

from __future__ import annotations

import dataclasses

import pytest

from tests.sharding.programs import const, op
from whale.ir.program import Op, Program, TensorType
from whale.planner import cut
from whale.planner.cut import choose
from whale.sharding.order import order
from whale.sharding.propagate import Request, Source

SHAPE = (8, 8)


def reversed_then(axis: int, length: int) -> list[Op]:
    """A reversal along an axis of x, which no piece on that dim can do, and element-wise ops after it."""
    ops = [const(f"axis_{axis}", [axis]), op(f"turned_{axis}", "ReverseV2", ["x:0", f"axis_{axis}:0"], SHAPE)]
    for i in range(length):
        ops.append(op(f"tanh_{axis}_{i}", "Tanh", [ops[-1].output()], SHAPE))
    return ops


def dim_cut(along_0: int, along_1: int) -> int:
    """The dim on which x is cut, given the work that cannot be done on pieces of dim 0 and of dim 1."""
    ops = [*reversed_then(0, along_0), *reversed_then(1, along_1)]
    feeds = {"x:0": TensorType("float32", SHAPE)}
    program = Program({o.name: o for o in ops})
    request = Request(order(ops, frozenset(feeds)), feeds)
    choice = choose(program, request, (Source("x:0", 0, 8, 8),), {"x:0": SHAPE})
    (source,) = choice.analysis.sources
    return source.dim


def test_the_dim_with_more_work_on_pieces_is_cut() -> None:
    assert dim_cut(along_0=20, along_1=2) == 1
    assert dim_cut(along_0=2, along_1=20) == 0


def test_a_gain_of_next_to_nothing_does_not_move_the_cut() -> None:
    """Runs of one session are cut alike then, and share what they draw."""
    assert dim_cut(along_0=60, along_1=59) == 0


def cut_of_rows(dtype: str, declared: tuple[int | None, ...], shape: tuple[int, ...]) -> list[Source]:
    """What is cut of x, whose samples are turned round first: no piece of them can do that."""
    ops = [const("axis", [0]), op("turned", "ReverseV2", ["x:0", "axis:0"], declared)]
    for i in range(20):
        ops.append(op(f"plus_{i}", "AddV2", [ops[-1].output()] * 2, declared))
    feeds = {"x:0": TensorType(dtype, declared)}
    request = Request(order(ops, frozenset(feeds)), feeds, shapes={"x:0": shape})
    source = Source("x:0", 0, declared[0], shape[0])
    choice = choose(Program({o.name: o for o in ops}), request, (source,), {"x:0": shape})
    return list(choice.analysis.sources)


def test_features_are_no_batch() -> None:
    """Of rows of real numbers, their count open and their length written in the script, the length is not cut."""
    assert [source.dim for source in cut_of_rows("float32", (None, 4), (8, 4))] == [0]


@pytest.mark.parametrize(
    ("dtype", "declared", "shape"),
    [
        ("int32", (None, 4), (8, 4)),
        ("float32", (None, None), (8, 4)),
        ("float32", (None, 4, 3), (8, 4, 3)),
        ("float32", (8, 4), (8, 4)),
    ],
)
def test_a_second_dim_that_may_be_a_batch_is_cut(
    dtype: str, declared: tuple[int | None, ...], shape: tuple[int, ...]
) -> None:
    (source,) = cut_of_rows(dtype, declared, shape)
    assert (source.dim, source.static) == (1, declared[1])


def program_of(*ops: Op, **fed: tuple[int, ...]) -> tuple[Program, Request, tuple[Source, ...]]:
    """Ops that read fed tensors, each of which may be cut on dim 0."""
    feeds = {f"{name}:0": TensorType("float32", shape) for name, shape in fed.items()}
    sources = tuple(Source(tensor, 0, kind.shape[0], kind.shape[0]) for tensor, kind in feeds.items() if kind.shape)
    return Program({o.name: o for o in ops}), Request(order(ops, frozenset(feeds)), feeds), sources


def test_the_work_of_a_source_left_whole_counts() -> None:
    """Two alike halves of the work, of which one is on pieces, are half of it."""
    halves = [op(f"{name}_tanh", "Tanh", [f"{name}:0"], SHAPE) for name in "xy"]
    program, request, sources = program_of(*halves, x=SHAPE, y=SHAPE)
    every = frozenset(source.tensor for source in sources)
    assert cut.attempt(program, request, sources, every).on_pieces == 1
    assert cut.attempt(program, request, sources[:1], every).on_pieces == 0.5


@pytest.mark.parametrize("rows", [50, 100_000])
@pytest.mark.parametrize("update", ["ScatterSub", "whole rows"])
def test_a_table_counts_by_the_rows_touched(rows: int, update: str) -> None:
    """However large the table is, its update is as much work as the rows; and what it holds then is not the batch's."""
    ops = [
        op("table", "VariableV2", shape=(rows, 8)),
        const("axis", 0),
        op("read", "GatherV2", ["table:0", "ids:0", "axis:0"], (8, 8)),
        *(op(f"tanh_{i}", "Tanh", ["read:0" if not i else f"tanh_{i - 1}:0"], (8, 8)) for i in range(20)),
        op("turned", "ReverseV2", ["tanh_19:0", "axis_rows:0"], (8, 8)),
        op(
            "write",
            "ScatterSub",
            ["table:0", "ids:0", "tanh_19:0" if update == "ScatterSub" else "turned:0"],
            (rows, 8),
        ),
        op("decayed", "Neg", ["write:0"], (rows, 8)),
    ]
    ops.insert(0, const("axis_rows", [0]))
    program, request, sources = program_of(*ops, ids=(8,))
    choice = choose(program, request, sources, {"ids:0": (8,)})
    assert [source.tensor for source in choice.analysis.sources] == ["ids:0"]
    assert choice.on_pieces > 0.8


def test_a_source_taken_apart_sample_by_sample_is_left_whole_and_named() -> None:
    """The search stops there: with all of the work that may be on pieces there, nothing else is tried."""
    marks = {"begin_mask": 0, "end_mask": 0, "ellipsis_mask": 0, "new_axis_mask": 0, "shrink_axis_mask": 1}
    ops = [
        *(const(name, [value]) for name, value in (("zero", 0), ("one", 1))),
        op("rate", "StridedSlice", ["settings:0", "zero:0", "one:0", "one:0"], (), **marks),
        op("scaled", "Mul", ["x:0", "rate:0"], SHAPE),
        op("tanh", "Tanh", ["scaled:0"], SHAPE),
    ]
    program, request, sources = program_of(*ops, settings=(2,), x=SHAPE)
    choice = choose(program, request, sources, {"settings:0": (2,), "x:0": SHAPE})
    assert [source.tensor for source in choice.analysis.sources] == ["x:0"]
    (left,) = choice.left
    assert (left.tensor, left.culprit, left.declined) == (
        "settings:0",
        program.ops["rate"],
        "takes one sample of the batch",
    )


def test_a_source_too_small_is_named_and_its_work_counts() -> None:
    halves = [op(f"{name}_tanh", "Tanh", [f"{name}:0"], SHAPE) for name in "xy"]
    program, request, (x, y) = program_of(*halves, x=SHAPE, y=SHAPE)
    choice = choose(program, request, (x,), {"x:0": SHAPE}, (y,))
    assert choice.on_pieces == 0.5
    assert [left.tensor for left in choice.left] == ["y:0"]


def test_what_every_copy_draws_is_never_left_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no whole of it; and no more than two choices a source, and one, are looked at."""
    ops = [*reversed_then(0, 20), *reversed_then(1, 20), op("y_turned", "ReverseV2", ["y:0", "axis_0:0"], SHAPE)]
    program, request, sources = program_of(*ops, x=SHAPE, y=SHAPE)
    request = dataclasses.replace(request, drawn=frozenset(source.tensor for source in sources))
    tried: list[tuple[Source, ...]] = []
    attempt = cut.attempt
    monkeypatch.setattr(cut, "attempt", lambda *args: (tried.append(args[2]), attempt(*args))[1])
    choose(program, request, sources, {"x:0": SHAPE, "y:0": SHAPE})
    assert len(tried) <= 2 * len(sources) + 1
    assert all(len(some) == len(sources) for some in tried)
