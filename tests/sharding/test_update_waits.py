"""Waits for updates: which ops keep them, which get them from what leads to them, and what the run is to wait for."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.sharding.programs import op
from whale.ir.program import Op, TensorType
from whale.sharding.order import order
from whale.sharding.update_waits import PutOff, put_off

HANDLE, REFERENCE = "resource", "float32_ref"


def moving(*more: Op, dtype: str = REFERENCE) -> list[Op]:
    """A step: a mean of the batch that a variable is moved by, and what comes after."""
    write = "AssignSub" if dtype == REFERENCE else "AssignSubVariableOp"
    return [
        op("average", "VariableV2" if dtype == REFERENCE else "VarHandleOp", dtype=dtype),
        op("weight", "VariableV2", dtype=REFERENCE),
        op("weight/read", "Identity", ["weight:0"]),
        op("mean", "Mean", ["x:0"]),
        op("update", write, ["average:0", "mean:0"], dtype=dtype),
        op("loss", "Mul", ["x:0", "weight/read:0"]),
        op("start", "Const", controls=["update"]),
        op("gradient", "Mul", ["start:0", "weight/read:0"]),
        *more,
    ]


def moved(ops: Sequence[Op], fetches: Sequence[str] = (), targets: Sequence[str] = ()) -> PutOff:
    return put_off(order(ops, frozenset(["x:0"])), frozenset(["x:0"]), fetches, targets)


def controls(found: PutOff) -> dict[str, tuple[str, ...]]:
    return {op.name: op.controls for op in found.order.ops}


def test_what_is_applied_waits_in_place_of_the_gradient() -> None:
    found = moved(moving(op("apply", "ApplyGradientDescent", ["weight:0", "gradient:0"])), targets=["apply"])
    assert controls(found)["start"] == ()
    assert controls(found)["apply"] == ("update",)
    assert found.awaited == ()


def test_a_run_waits_for_the_update_where_it_fetches_the_gradient() -> None:
    found = moved(moving(), fetches=["gradient:0", "loss:0"])
    assert controls(found)["start"] == ()
    assert found.awaited == ("update",)


@pytest.mark.parametrize(
    ("dtype", "read"),
    [(REFERENCE, "Identity"), (REFERENCE, "Mul"), (HANDLE, "ReadVariableOp"), (HANDLE, "ResourceGather")],
)
def test_a_read_of_what_is_written_waits(dtype: str, read: str) -> None:
    found = moved(moving(op("again", read, ["average:0"], controls=["update"]), dtype=dtype), fetches=["again:0"])
    assert controls(found)["again"] == ("update",)


@pytest.mark.parametrize("dtype", [REFERENCE, HANDLE])
def test_a_read_behind_what_need_not_wait_waits(dtype: str) -> None:
    read = op("again", "Mul" if dtype == REFERENCE else "ReadVariableOp", ["average:0"], controls=["gradient"])
    found = moved(moving(read, dtype=dtype), fetches=["again:0"])
    assert controls(found)["start"] == ()
    assert controls(found)["again"] == ("gradient", "update")
    assert found.awaited == ()


def test_memory_of_a_variable_that_is_written_is_read_after_it() -> None:
    early = op("early", "Identity", ["average:0"])
    late = op("late", "Mul", ["early:0", "x:0"], controls=["update"])
    assert controls(moved(moving(early, late), fetches=["late:0"]))["late"] == ("update",)


def test_a_value_that_was_read_from_a_resource_does_not_change() -> None:
    early = op("early", "ReadVariableOp", ["average:0"])
    late = op("late", "Mul", ["early:0", "x:0"], controls=["update"])
    assert controls(moved(moving(early, late, dtype=HANDLE), fetches=["late:0"]))["late"] == ()


@pytest.mark.parametrize("effect", ["PrintV2", "EagerPyFunc", "QueueEnqueueV2", "Assert"])
def test_what_has_an_effect_waits(effect: str) -> None:
    shown = op("shown", effect, ["gradient:0"])
    shown = Op(**{**shown.__dict__, "stateful": True})
    assert controls(moved(moving(shown), targets=["shown"]))["shown"] == ("update",)


def test_a_group_of_updates_is_waited_for_as_one() -> None:
    ops = moving(
        op("all", "NoOp", controls=["update"], outputs=()), op("late", "Neg", ["gradient:0"], controls=["all"])
    )
    found = moved(ops, fetches=["late:0"])
    assert controls(found)["all"] == ("update",)
    assert controls(found)["late"] == ()
    assert set(found.awaited) == {"update", "all"}


def test_a_group_of_an_update_and_a_gradient_waits_for_the_gradient_alone() -> None:
    """As ``tf.gradients`` groups the gradients of one op, where these wait for updates."""
    ops = moving(
        op("both", "NoOp", controls=["update", "gradient"], outputs=()),
        op("late", "Identity", ["gradient:0"], controls=["both"]),
    )
    found = moved(ops, fetches=["late:0"])
    assert controls(found)["both"] == ("gradient",)
    assert controls(found)["late"] == ("both",)
    assert found.awaited == ("update",)


def test_a_group_that_is_run_keeps_what_it_waits_for() -> None:
    ops = moving(op("both", "NoOp", controls=["update", "gradient"], outputs=()))
    assert controls(moved(ops, targets=["both"]))["both"] == ("update", "gradient")


def loop(*body: Op) -> list[Op]:
    """A loop that the gradient goes into."""
    return [
        op("enter", "Enter", ["gradient:0"], frame_name="loop"),
        op("merge", "Merge", ["enter:0", "next:0"], outputs=[TensorType("float32", None)] * 2),
        op("less", "Less", ["merge:0", "merge:0"]),
        op("more", "LoopCond", ["less:0"]),
        op("switch", "Switch", ["merge:0", "more:0"], outputs=[TensorType("float32", None)] * 2),
        *body,
        op("next", "NextIteration", ["body:0"]),
        op("exit", "Exit", ["switch:0"]),
    ]


def test_a_wait_goes_around_a_loop() -> None:
    body = op("body", "Neg", ["switch:1"])
    apply = op("apply", "ApplyGradientDescent", ["weight:0", "exit:0"])
    found = moved(moving(*loop(body), apply), targets=["apply"])
    assert controls(found)["start"] == ()
    assert controls(found)["apply"] == ("update",)


def test_a_wait_stays_where_a_turn_of_a_loop_reads_what_is_written() -> None:
    """A control edge cannot lead into a loop from outside."""
    held = op("held", "Enter", ["average:0"], dtype=HANDLE, frame_name="loop", is_constant=True)
    read = op("read", "ReadVariableOp", ["held:0"], controls=["switch"])
    body = op("body", "Mul", ["switch:1", "read:0"])
    found = moved(moving(held, *loop(read, body), dtype=HANDLE), fetches=["exit:0"])
    assert controls(found)["start"] == ("update",)
    assert found.awaited == ()


def test_what_is_in_a_branch_passes_its_waits_on() -> None:
    """The branch may not be taken, and what comes after it waits all the same."""
    ops = moving(
        op("choice", "Switch", ["gradient:0", "predicate:0"], outputs=[TensorType("float32", None)] * 2),
        op("written", "AssignAdd", ["weight:0", "choice:1"], dtype=REFERENCE),
        op("kept", "Identity", ["choice:0"]),
        op("either", "Merge", ["written:0", "kept:0"], outputs=[TensorType("float32", None)] * 2),
    )
    found = moved([op("predicate", "Placeholder", dtype="bool"), *ops], fetches=["either:0"])
    assert controls(found)["written"] == ("update",)
    assert found.awaited == ("update",)


def test_a_wait_for_an_op_in_a_branch_stays() -> None:
    ops = moving(
        op("choice", "Switch", ["mean:0", "predicate:0"], outputs=[TensorType("float32", None)] * 2),
        op("written", "AssignAdd", ["average:0", "choice:1"], dtype=REFERENCE),
        op("alive", "Const", controls=["written"]),
    )
    found = moved([op("predicate", "Placeholder", dtype="bool"), *ops], fetches=["alive:0"])
    assert controls(found)["alive"] == ("written",)
