"""Placements found by the propagation; the stride rule of reshapes against numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.sharding.programs import analyse, const, op
from whale.ir import dims as D
from whale.ir.placement import PARTIAL, REPLICATED, Placement, Sharded
from whale.ir.program import Op, TensorType
from whale.sharding.batches import Batches
from whale.sharding.call import Call
from whale.sharding.facts import Decline, Fact, Local
from whale.sharding.propagate import Source
from whale.sharding.rules.reshape import split_cut

X = TensorType("float32", (None, 4))
SOURCE = Source("x:0", 0, None, 7)


def placements(*ops: Op, source: Source = SOURCE, kind: TensorType = X) -> dict[str, Placement]:
    """Where the first outputs of ops are, by op."""
    analysis = analyse(ops, {"x:0": kind}, [source])
    return {o.name: analysis.fact(o.output()).placement for o in ops if o.outputs}


# -- the stride rule -------------------------------------------------------------------------------------------------


def take_pieces(whole: np.ndarray, cut: Sharded, count: int, shares: list[int]) -> list[np.ndarray]:
    """The pieces of an array whose dim ``cut.dim`` is ``outer x count x inner``."""
    shape = whole.shape
    opened = whole.reshape(*shape[: cut.dim], cut.outer, count, cut.inner, *shape[cut.dim + 1 :])
    pieces = np.split(opened, np.cumsum(shares)[:-1], axis=cut.dim + 1)
    return [p.reshape(*shape[: cut.dim], -1, *shape[cut.dim + 1 :]) if p.size else _empty(p, cut.dim) for p in pieces]


def _empty(opened: np.ndarray, dim: int) -> np.ndarray:
    shape = opened.shape
    return opened.reshape(*shape[:dim], math.prod(shape[dim : dim + 3]), *shape[dim + 3 :])


def put_together(pieces: list[np.ndarray], cut: Sharded, shares: list[int]) -> np.ndarray:
    """The inverse of ``take_pieces``."""
    opened = []
    for piece, share in zip(pieces, shares):
        shape = piece.shape
        opened.append(piece.reshape(*shape[: cut.dim], cut.outer, share, cut.inner, *shape[cut.dim + 1 :]))
    whole = np.concatenate(opened, axis=cut.dim + 1)
    shape = whole.shape
    return whole.reshape(*shape[: cut.dim], math.prod(shape[cut.dim : cut.dim + 3]), *shape[cut.dim + 3 :])


@st.composite
def reshapes(draw: st.DrawFn) -> tuple[tuple[int, ...], Sharded, int, tuple[int, ...]]:
    """An input shape, where it is cut, the batch size, and a target of the same size."""
    factor = st.sampled_from([1, 2, 3])
    count = draw(st.sampled_from([2, 3, 5, 6]))
    outer, inner = draw(factor), draw(factor)
    before, after = draw(st.lists(factor, max_size=2)), draw(st.lists(factor, max_size=2))
    shape = (*before, outer * count * inner, *after)
    pieces = [f for size in (*before, outer, count, inner, *after) for f in _factors(size)]
    if draw(st.booleans()):
        pieces = draw(st.permutations(pieces))
    target = [1]
    for piece in pieces:
        if draw(st.booleans()):
            target.append(piece)
        else:
            target[-1] *= piece
    return shape, Sharded(len(before), 0, outer, inner), count, tuple(target)


def _factors(size: int) -> list[int]:
    found = [f for f in (2, 3, 5) if size % f == 0]
    return [] if size == 1 else [found[0], *_factors(size // found[0])]


def call_on(fact: Fact, static: int | None, count: int) -> Call:
    """A call of a reshape on one cut tensor of batch 0."""
    batches = Batches()
    batches.add("x:0", static, count)
    return Call(op("reshape", "Reshape", ["x:0", "shape:0"]), (fact,), batches)


@given(reshapes(), st.booleans(), st.data())
def test_reshaped_pieces_are_pieces_of_the_reshaped(
    case: tuple[tuple[int, ...], Sharded, int, tuple[int, ...]], fixed: bool, data: st.DataObject
) -> None:
    shape, cut, count, target = case
    call = call_on(Fact(cut, shape), count if fixed else None, count)
    try:
        found = split_cut(call, cut, shape, target)
    except Decline:
        assume(False)
    assert isinstance(found.outer, int) and isinstance(found.inner, int)
    assert found.outer * count * found.inner == target[found.dim]
    first = data.draw(st.integers(0, count))
    second = data.draw(st.integers(0, count - first))
    shares = [first, second, count - first - second]
    whole = np.arange(math.prod(shape)).reshape(shape)
    pieces = []
    for piece, share in zip(take_pieces(whole, cut, count, shares), shares):
        local = [found.outer * share * found.inner if i == found.dim else size for i, size in enumerate(target)]
        pieces.append(piece.reshape(local))
    np.testing.assert_array_equal(put_together(pieces, found, shares), whole.reshape(target))


@given(reshapes())
def test_a_reshape_that_keeps_the_batch_in_one_dim_is_found(
    case: tuple[tuple[int, ...], Sharded, int, tuple[int, ...]],
) -> None:
    """Where numpy says that some cut of the target has the right pieces, the rule finds one."""
    shape, cut, count, target = case
    whole = np.arange(math.prod(shape)).reshape(shape)
    shares = [1, count - 1]
    wanted = [set(p.ravel().tolist()) for p in take_pieces(whole, cut, count, shares)]
    possible = False
    for dim, size in enumerate(target):
        for outer in range(1, size // count + 1):
            if size % (outer * count) == 0:
                trial = Sharded(dim, 0, outer, size // (outer * count))
                pieces = take_pieces(whole.reshape(target), trial, count, shares)
                possible |= [set(p.ravel().tolist()) for p in pieces] == wanted
    try:
        split_cut(call_on(Fact(cut, shape), count, count), cut, shape, target)
        found = True
    except Decline:
        found = False
    assert found == possible


def test_the_batch_is_found_though_its_size_is_open() -> None:
    n = D.symbol("n0")
    call = call_on(Fact(Sharded(0, 0), (n, 3, 4)), None, 7)
    assert split_cut(call, Sharded(0, 0), (n, 3, 4), (D.multiply(n, 3), 4)) == Sharded(0, 0, 1, 3)
    assert split_cut(call, Sharded(1, 0), (3, n, 4), (D.multiply(n, 3), 4)) == Sharded(0, 0, 3, 1)
    assert split_cut(call, Sharded(0, 0, 3, 1), (D.multiply(n, 3), 4), (3, n, 4)) == Sharded(1, 0)


def test_a_number_in_the_target_that_is_this_runs_size_pins_it() -> None:
    n = D.symbol("n0")
    call = call_on(Fact(Sharded(0, 0), (n, 4)), None, 7)
    assert split_cut(call, Sharded(0, 0), (n, 4), (7, 2, 2)) == Sharded(0, 0)
    assert call.batches.pinned == {0}
    with pytest.raises(Decline, match="does not keep the batch"):
        split_cut(call, Sharded(0, 0), (n, 4), (2, 14))


# -- placements ------------------------------------------------------------------------------------------------------


def test_pieces_stay_pieces_and_sums_are_partial() -> None:
    found = placements(
        op("tanh", "Tanh", ["x:0"], (None, 4)),
        const("batch", [0]),
        const("features", [1]),
        op("sum", "Sum", ["tanh:0", "batch:0"], (4,), keep_dims=False),
        op("rows", "Sum", ["tanh:0", "features:0"], (None,), keep_dims=False),
        op("root", "Sqrt", ["sum:0"], (4,)),
    )
    assert found["tanh"] == found["rows"] == Sharded(0, 0)
    assert found["sum"] == PARTIAL
    assert found["root"] == REPLICATED


def test_what_is_not_linear_wants_sums_added_up() -> None:
    ops = [const("batch", [0]), op("sum", "Sum", ["x:0", "batch:0"], (4,)), op("root", "Sqrt", ["sum:0"], (4,))]
    analysis = analyse(ops, {"x:0": X}, [SOURCE])
    assert analysis.decisions["root"].wants == (REPLICATED,)
    assert analysis.decisions["sum"].wants[0] is None


def test_shapes_speak_of_the_whole_and_targets_of_the_piece() -> None:
    ops = [
        op("shape", "Shape", ["x:0"], (2,), "int32"),
        op("reshape", "Reshape", ["x:0", "shape:0"], (None, 4)),
    ]
    analysis = analyse(ops, {"x:0": X}, [SOURCE])
    shape = analysis.fact("shape:0")
    assert shape.value is not None and list(shape.value) == [D.symbol("n0"), 4]
    assert analysis.decisions["reshape"].wants[1] == Local(0, (0,))


def test_two_sources_that_meet_are_cut_together() -> None:
    ops = [op("add", "AddV2", ["x:0", "y:0"], (None, 4))]
    analysis = analyse(ops, {"x:0": X, "y:0": X}, [SOURCE, Source("y:0", 0, None, 7)])
    assert len(analysis.batches.roots()) == 1
    assert analysis.batches[0].sources == ["x:0", "y:0"]


def test_sources_of_different_sizes_do_not_meet() -> None:
    ops = [op("pairs", "MatMul", ["x:0", "y:0"], (None, None), transpose_b=True)]
    analysis = analyse(ops, {"x:0": X, "y:0": X}, [SOURCE, Source("y:0", 0, None, 5)])
    assert len(analysis.batches.roots()) == 2
    assert analysis.fact("pairs:0").sharded is not None


def test_two_batches_of_one_dim_are_not_taken_to_be_one() -> None:
    """``[B * T, 3]`` cut along T meets ``[B * T, 5]`` cut along B: both sum over all of it, and T need not be B."""
    given = {"x:0": TensorType("float32", (None, None, 3)), "y:0": TensorType("float32", (None, None, 5))}
    ops = [
        const("three", [-1, 3]),
        const("five", [-1, 5]),
        op("left", "Reshape", ["x:0", "three:0"], (None, 3)),
        op("right", "Reshape", ["y:0", "five:0"], (None, 5)),
        op("product", "MatMul", ["left:0", "right:0"], (3, 5), transpose_a=True),
    ]
    analysis = analyse(ops, given, [Source("x:0", 1, None, None), Source("y:0", 0, None, None)])
    assert len(analysis.batches.roots()) == 2
    left, right = analysis.fact("left:0").sharded, analysis.fact("right:0").sharded
    assert left is not None and right is not None and left.batch != right.batch
    assert analysis.decisions["product"].wants == (None, left)
    assert analysis.fact("product:0").placement == PARTIAL


def test_an_op_without_a_rule_runs_whole_and_says_so() -> None:
    analysis = analyse([op("odd", "Odd", ["x:0"], (None, 4))], {"x:0": X}, [SOURCE])
    decision = analysis.decisions["odd"]
    assert decision.wants == (REPLICATED,)
    assert decision.outputs[0].placement == REPLICATED
    assert decision.declined == "Odd has no sharding rule"


def test_an_op_that_must_run_whole_does() -> None:
    ops = [op("tanh", "Tanh", ["x:0"], (None, 4))]
    analysis = analyse(ops, {"x:0": X}, [SOURCE], {"tanh": "because"})
    assert analysis.decisions["tanh"].declined == "because"
    assert analysis.fact("tanh:0").placement == REPLICATED


def test_a_source_cut_on_dim_1() -> None:
    found = placements(
        op("tanh", "Tanh", ["x:0"], (4, None)),
        const("first", [0]),
        op("rows", "Sum", ["tanh:0", "first:0"], (None,)),
        source=Source("x:0", 1, None, 7),
        kind=TensorType("float32", (4, None)),
    )
    assert found["tanh"] == Sharded(1, 0)
    assert found["rows"] == Sharded(0, 0)


# -- loops -----------------------------------------------------------------------------------------------------------


def loop(start: Op, *body: Op) -> list[Op]:
    """A loop that carries ``start``; the body makes ``made`` from ``switch:1``."""
    return [
        start,
        op("enter", "Enter", ["start:0"], (None, 4), frame_name="loop"),
        op("invariant", "Enter", ["x:0"], (None, 4), frame_name="loop", is_constant=True),
        op(
            "merge", "Merge", ["enter:0", "next:0"], outputs=[TensorType("float32", (None, 4)), TensorType("int32", ())]
        ),
        op("less", "LoopBound", [], (), "bool", controls=["merge"]),
        op("cond", "LoopCond", ["less:0"], (), "bool"),
        op("switch", "Switch", ["merge:0", "cond:0"], outputs=[TensorType("float32", (None, 4))] * 2),
        *body,
        op("next", "NextIteration", ["made:0"], (None, 4)),
        op("exit", "Exit", ["switch:0"], (None, 4)),
    ]


def test_a_loop_that_starts_from_zeros_carries_pieces() -> None:
    found = placements(
        *loop(
            op("start", "ZerosLike", ["x:0"], (None, 4)),
            op("made", "AddV2", ["switch:1", "invariant:0"], (None, 4)),
        )
    )
    assert found["merge"] == found["exit"] == Sharded(0, 0)


def test_a_loop_that_starts_whole_and_meets_pieces_carries_pieces() -> None:
    found = placements(
        const("dims", [7, 4]),
        const("one", 1.0, "float32"),
        *loop(
            op("start", "Fill", ["dims:0", "one:0"], (7, 4)),
            op("made", "AddV2", ["switch:1", "invariant:0"], (None, 4)),
        ),
    )
    assert found["merge"] == found["exit"] == Sharded(0, 0)


def test_a_loop_whose_carried_value_is_of_no_batch_stays_whole() -> None:
    found = placements(
        *loop(
            op("start", "Const", [], (3, 4)),
            op("made", "Tanh", ["switch:1"], (3, 4)),
        )
    )
    assert found["merge"] == found["exit"] == REPLICATED


# -- sums ------------------------------------------------------------------------------------------------------------


def _gradient(*readers: Op) -> dict[str, Placement]:
    return placements(const("axis", [0]), op("gradient", "Sum", ["x:0", "axis:0"], (4,), keep_dims=False), *readers)


def test_what_is_linear_passes_a_sum_on_unsummed() -> None:
    found = _gradient(op("step", "Neg", ["gradient:0"], (4,)))
    assert (found["gradient"], found["step"]) == (PARTIAL, PARTIAL)


@pytest.mark.parametrize("norm_first", [True, False])
def test_a_sum_that_some_op_needs_is_read_by_all(norm_first: bool) -> None:
    """Else a clipped gradient would be summed for its norm and again for its update."""
    norm, step = op("norm", "L2Loss", ["gradient:0"], ()), op("step", "Neg", ["gradient:0"], (4,))
    found = _gradient(*((norm, step) if norm_first else (step, norm)))
    assert (found["gradient"], found["norm"], found["step"]) == (PARTIAL, REPLICATED, REPLICATED)
