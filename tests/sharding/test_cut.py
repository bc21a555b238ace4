"""Which sources are cut, and on which dim."""

from __future__ import annotations

import pytest

from tests.sharding.programs import const, op
from whale.ir.program import Op, Program, TensorType
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
