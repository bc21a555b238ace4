"""Which loops every copy goes through for its own samples, and why others are left whole."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sharding import graphs, ops_sample_loops
from tests.sharding.rows import Row
from whale.annotations.capture import capture
from whale.ir.placement import EACH, PARTIAL
from whale.ir.program import Program, TensorType, reachable, split_tensor
from whale.sharding.order import EXITS, order
from whale.sharding.propagate import Analysis, Request, Source, propagate

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

ROWS = {row.name: row for row in ops_sample_loops.OWN + ops_sample_loops.WHOLE}


def analysed(tf: Any, row: Row) -> Analysis:
    """The analysis of a row whose fed tensors are cut; nothing is known of how many samples there will be."""
    built = graphs.build(tf, [row], "dynamic")
    program = capture(built.graph, Program({}))
    feeds = {t.name: TensorType(t.dtype.name, tuple(t.shape.as_list())) for t in built.feeds[0]}
    ops = reachable(program, [t.name for t in built.fetches[row.name].values()], [], list(feeds))
    sources = tuple(Source(t.name, 0, None, None) for t in built.feeds[0])
    return propagate(Request(order(ops, frozenset(feeds)), feeds), sources)


@pytest.mark.parametrize("row", ops_sample_loops.OWN, ids=lambda row: row.name)
def test_copies_go_through_their_own_samples(tf: Any, row: Row) -> None:
    assert analysed(tf, row).own_frames


@pytest.mark.parametrize("row", ops_sample_loops.WHOLE, ids=lambda row: row.name)
def test_other_loops_are_left_whole(tf: Any, row: Row) -> None:
    analysis = analysed(tf, row)
    assert not analysis.own_frames
    # Two batches that may differ in size are whole before they come to a loop.
    assert any(d.declined for name, d in analysis.decisions.items() if "Scatter" in name or "concat" in name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("while: all but the last", "Less makes use of the number of a sample"),
        ("while: all but the first", "it does not start from the first sample"),
        ("while: counts the samples", "Cast makes use of the number of a sample"),
        ("fold: a sum from ones", "its sums do not start from zero"),
    ],
)
def test_says_why_a_loop_is_left_whole(tf: Any, name: str, reason: str) -> None:
    decisions = analysed(tf, ROWS[name]).decisions.values()
    assert reason in {d.declined for d in decisions}


def test_sums_over_the_iterations_are_partial(tf: Any) -> None:
    """What a loop over samples leaves behind is never read as one value for all."""
    analysis = analysed(tf, ROWS["while: a sum"])
    exits = [op for op in analysis.order.ops if op.type in EXITS and op.outputs[0].dtype == "float32"]
    placements = {analysis.fact(op.output(0)).placement for op in exits if op.outputs[0].shape == (4,)}
    assert placements == {PARTIAL}


def test_nothing_in_the_loop_is_brought_together(tf: Any) -> None:
    analysis = analysed(tf, ROWS["map: reads the batch"])
    for op in analysis.order.ops:
        frame = analysis.order.frame(op.name)
        if not frame or frame[0] not in analysis.own_frames:
            continue
        for tensor, want in zip(op.inputs, analysis.decisions[op.name].wants):
            inside = analysis.order.frame(split_tensor(tensor)[0])
            assert not inside or want is None or analysis.fact(tensor).placement != EACH, op.name
