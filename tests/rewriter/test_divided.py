"""Which ops have a copy per piece of the batch."""

from __future__ import annotations

from whale.ir.placement import REPLICATED, Placement, Sharded
from whale.ir.program import Op, TensorType
from whale.rewriter.divided import divided
from whale.sharding.batches import Batches
from whale.sharding.containers import Containers
from whale.sharding.facts import Decision, Fact
from whale.sharding.order import Order
from whale.sharding.propagate import Analysis
from whale.sharding.residence import Residence

PIECE, WHOLE = Sharded(0, 0), REPLICATED


def divided_of(frames: dict[str, tuple[str, ...]], *ops: Op) -> frozenset[str]:
    """The divided ops of a graph in which what is named ``piece...`` is cut and all else is whole."""

    def placed(name: str) -> Placement:
        return PIECE if name.startswith("piece") else WHOLE

    facts = {op.output(i): Fact(placed(op.name)) for op in ops for i in range(len(op.outputs))}
    decisions = {
        op.name: Decision(
            tuple(None if placed(tensor) == PIECE else WHOLE for tensor in op.inputs),
            tuple(Fact(placed(op.name)) for _ in op.outputs),
        )
        for op in ops
    }
    analysis = Analysis(Order(ops, frames), facts, decisions, Batches(), (), Containers())
    return divided(analysis, Residence(frozenset(op.name for op in ops), ()))


def op(kind: str, name: str, *inputs: str, dtype: str = "float32", controls: tuple[str, ...] = ()) -> Op:
    return Op(name, kind, inputs, controls, (TensorType(dtype, None),), {}, b"")


def test_a_stack_is_each_copys_own_also_where_its_elements_are_whole() -> None:
    """Its handle goes into a loop that is gone through in pieces, and to where nothing is known of its elements."""
    frames = {name: ("loop",) for name in ("entered", "push", "piece_state")}
    found = divided_of(
        frames,
        op("StackV2", "stack", "size:0", dtype="resource"),
        op("Enter", "entered", "stack:0", dtype="resource"),
        op("StackPushV2", "push", "entered:0", "whole:0"),
        op("Tanh", "piece_state", "piece:0"),
        op("Identity", "whole"),
        op("Identity", "piece"),
        op("Identity", "size"),
    )
    assert found == {"stack", "entered", "push", "piece_state", "piece"}


def test_a_constant_that_an_update_reads_is_there_once_whatever_it_waits_for() -> None:
    found = divided_of(
        {},
        op("Tanh", "piece_gradient", "piece:0"),
        op("Identity", "piece"),
        op("Const", "rate", controls=("piece_gradient",)),
        op("Const", "factor", controls=("piece_gradient",)),
        op("Mul", "update", "rate:0"),
        op("Mul", "piece_scaled", "piece:0", "factor:0"),
    )
    assert found == {"piece_gradient", "piece", "factor", "piece_scaled"}
