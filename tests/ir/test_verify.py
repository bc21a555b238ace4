"""Each broken rule is found, all at once, and shown with its surroundings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from tests.ir.programs import op, program, training_step
from whale.errors import Site, VerifyError
from whale.ir.program import Phase, Program, Variable
from whale.ir.verify import check, check_groups, verify


def changed(name: str, /, **fields: Any) -> Program:
    """The training step with fields of one op changed."""
    step = training_step()
    ops = {**step.ops, name: dataclasses.replace(step.ops[name], **fields)}
    return dataclasses.replace(step, ops=ops)


def with_variable(**fields: Any) -> Program:
    """The training step with fields of its variable changed."""
    step = training_step()
    return dataclasses.replace(step, variables={"w": dataclasses.replace(step.variables["w"], **fields)})


def test_a_training_step_is_well_formed() -> None:
    assert verify(training_step()) == []
    check(training_step())


@pytest.mark.parametrize(
    ("broken", "violation"),
    [
        (changed("y", inputs=("nowhere:0", "read:0")), "y: input 'nowhere:0' comes from no op of the program"),
        (changed("y", inputs=("x:1", "read:0")), "y: input 'x:1' does not exist: 'x' has 1 output"),
        (changed("apply", inputs=("init:0", "rate:0", "dw:0")), "'init:0' does not exist: 'init' has 0 outputs"),
        (changed("y", inputs=("x", "read:0")), "y: input 'x' is not the name of a tensor (op:index)"),
        (changed("train", controls=("gone",)), "train: waits for 'gone', which is not an op of the program"),
        (changed("dw", forward="gone"), "dw: is the gradient of 'gone', which is not an op"),
        (changed("dw", forward="dw"), "dw: is its own forward op"),
        (changed("y", forward="x"), "y: is forward but names the forward op 'x'"),
        (changed("loss", name="cost"), "loss: is stored under this name but named 'cost'"),
        (changed("x", inputs=("loss:0",)), "x: is in a circle: x <- loss <- y <- x"),
        (changed("zeros", controls=("init",)), "zeros: is in a circle: zeros <- init <- zeros"),
        (changed("y", inputs=("x:0", "zeros:0")), "y: is forward but reads 'zeros:0', which is init"),
        (with_variable(name="v"), "w: the variable stored under this name is named 'v'"),
        (with_variable(initial_value="zeros:3"), "initial value or gradient 'zeros:3' does not exist"),
        (with_variable(gradients=("gone:0",)), "initial value or gradient 'gone:0' comes from no op"),
        (with_variable(updates=("gone",)), "w: is updated by 'gone', which is not an op of the program"),
        (with_variable(slot_of="w"), "w: is a slot of 'w', which is not another variable"),
        (with_variable(slot_of="gone"), "w: is a slot of 'gone', which is not another variable"),
    ],
)
def test_a_broken_rule_is_named(broken: Program, violation: str) -> None:
    assert any(violation in found for found in verify(broken)), verify(broken)


def test_variables_are_held_once() -> None:
    twice = program(
        op("a", "VarHandleOp", dtype="resource", shared_name="v", container=""),
        op("b", "VarHandleOp", dtype="resource", shared_name="v", container=""),
        variables=(Variable("a", "float32", ()), Variable("b", "float32", ()), Variable("c", "float32", ())),
    )
    assert verify(twice) == [
        "b: is the same variable as 'a': they share the name in one container",
        "c: is a variable but no op holds it",
    ]


def test_a_slot_has_no_slots() -> None:
    variables = tuple(
        Variable(name, "float32", (), slot_of=slot) for name, slot in (("a", None), ("b", "a"), ("c", "b"))
    )
    holders = program(*(op(name, "VariableV2") for name in "abc"), variables=variables)
    assert verify(holders) == ["c: is a slot of 'b', which is a slot itself"]


def test_the_back_edge_of_a_loop_is_no_circle() -> None:
    loop = program(
        op("zero", "Const"),
        op("enter", "Enter", "zero", frame_name="loop"),
        op("merge", "Merge", "enter", "next", shapes=((), ())),
        op("add", "Add", "merge", "merge"),
        op("next", "NextIteration", "add"),
    )
    assert verify(loop) == []
    straight = {**loop.ops, "next": dataclasses.replace(loop.ops["next"], type="Identity")}
    assert verify(Program(straight)) == ["merge: is in a circle: merge <- next <- add <- merge"]


def test_all_violations_are_listed_and_the_first_is_shown_in_its_place() -> None:
    broken = changed("y", inputs=("x:0", "gone:0"), site=Site("model.py", 7))
    broken = dataclasses.replace(broken, variables={"w": dataclasses.replace(broken.variables["w"], updates=("no",))})
    with pytest.raises(VerifyError) as raised:
        check(broken)
    message = str(raised.value)
    assert "2 violations in the program" in message
    assert "y: input 'gone:0' comes from no op" in message
    assert "w: is updated by 'no'" in message
    assert "--> forward  y = MatMul(x:0, gone:0)" in message
    assert "    forward  read = ReadVariableOp(w:0)" in message
    assert "model.py:7" in message


def test_what_the_op_reads_is_shown_even_when_it_is_far_away() -> None:
    middle = [op(f"c{number}", "Const") for number in range(20)]
    far = program(op("first", "Const"), *middle, op("last", "Add", "first", "gone"))
    with pytest.raises(VerifyError) as raised:
        check(far)
    assert "first = Const() -> float32[]\n    ...\n" in str(raised.value)


def test_the_message_is_stable(golden: Callable[..., None]) -> None:
    with pytest.raises(VerifyError) as raised:
        check(changed("dw", inputs=("x:0", "dy:4"), phase=Phase.FORWARD))
    golden(str(raised.value))


# -- collectives -----------------------------------------------------------------------------------------------

# Two buckets over two devices; an update on each device reads both sums.
READS = {
    "update_0": ["sum_a_0", "sum_b_0"],
    "update_1": ["sum_a_1", "sum_b_1"],
    "sum_a_0": ["gradient_0"],
    "sum_a_1": ["gradient_1"],
    "sum_b_0": ["gradient_0", "sum_a_0"],
    "sum_b_1": ["gradient_1", "sum_a_1"],
}
GROUPS = [("sum_a_0", "sum_a_1"), ("sum_b_0", "sum_b_1")]
DEVICES = {name: f"/device:CPU:{name[-1]}" for group in GROUPS for name in group}


@pytest.mark.parametrize("roots", [["update_0", "update_1"], ["gradient_0"], [], ["sum_b_0", "sum_b_1"]])
def test_a_run_that_reaches_all_of_a_group_or_none_is_well_formed(roots: list[str]) -> None:
    check_groups(READS, GROUPS, DEVICES, roots)


def test_every_group_that_a_run_reaches_in_part_is_listed() -> None:
    with pytest.raises(VerifyError) as raised:
        check_groups(READS, GROUPS, DEVICES, ["update_0", "sum_a_1"])
    assert "reaches sum_b_0 but not sum_b_1" in str(raised.value) and "sum_a_0 but" not in str(raised.value)
    with pytest.raises(VerifyError) as raised:
        check_groups(READS, GROUPS, DEVICES, ["update_1"])
    assert "reaches sum_a_1 but not sum_a_0" in str(raised.value)
    assert "reaches sum_b_1 but not sum_b_0" in str(raised.value)


def test_two_members_of_a_group_on_one_device_never_meet() -> None:
    with pytest.raises(VerifyError, match="are on /device:CPU:0"):
        check_groups(READS, GROUPS, {**DEVICES, "sum_a_1": "/device:CPU:0"}, ["update_0", "update_1"])
