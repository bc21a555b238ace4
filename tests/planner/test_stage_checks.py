"""What is wrong with stages is said of all of them at once, with scopes, ops and lines."""

from __future__ import annotations

import re

import pytest

from tests.planner.staged import FIRST, SECOND, THIRD, made, stages, trained, two_stages, with_ops
from whale.errors import PlanError
from whale.ir.program import Phase, Program
from whale.planner.stage_checks import check, check_gradients
from whale.planner.task_graphs import assign


def refused(program: Program, count: int = 2) -> PlanError:
    """The error of a check."""
    with pytest.raises(PlanError) as caught:
        check(program, assign(program, stages(count), {}))
    return caught.value


def test_stages_in_order_pass() -> None:
    program = two_stages()
    check(program, assign(program, stages(2), {}))


def test_stages_out_of_data_flow_order_are_refused() -> None:
    program = trained(
        made(None, Phase.INPUT, "x", "Placeholder"),
        made(SECOND, Phase.FORWARD, "b", "MatMul", "x", "wb"),
        made(FIRST, Phase.FORWARD, "a", "MatMul", "b", "wa"),
        made(FIRST, Phase.FORWARD, "loss", "Sum", "a"),
        layers=("b", "a"),
        variables=(("wb", SECOND), ("wa", FIRST)),
    )
    error = refused(program)
    lines = [program.ops[name].site for name in ("b", "a")]
    assert "stage 1 's1' (model.py:20) is read by stage 0 's0' (model.py:10), which comes before it" in str(error)
    assert f"MatMul 'b' at {lines[0]} by MatMul 'a' at {lines[1]}" in str(error)
    assert error.fix


def test_a_circle_of_stages_is_refused() -> None:
    """A -> B -> A."""
    program = trained(
        made(None, Phase.INPUT, "x", "Placeholder"),
        made(FIRST, Phase.FORWARD, "a", "MatMul", "x", "wa"),
        made(SECOND, Phase.FORWARD, "b", "MatMul", "a", "wb"),
        made(FIRST, Phase.FORWARD, "again", "MatMul", "b", "wc"),
        made(FIRST, Phase.FORWARD, "loss", "Sum", "again"),
        layers=("a", "b", "again"),
        variables=(("wa", FIRST), ("wb", SECOND), ("wc", FIRST)),
    )
    text = str(refused(program))
    assert "which reads from it in turn" in text
    assert "MatMul 'b' at" in text and "MatMul 'again' at" in text


def test_a_stage_without_a_path_to_the_loss_is_refused() -> None:
    program = with_ops(two_stages(), made(THIRD, Phase.FORWARD, "aside", "Tanh", "b"))
    text = str(refused(program, 3))
    assert "stage 2 's2' (model.py:30) takes no part in training" in text
    assert f"Tanh 'aside' at {program.ops['aside'].site}" in text


def test_a_stage_without_ops_is_refused() -> None:
    assert "stage 2 's2' (model.py:30) takes no part in training: it holds no op of the model" in str(
        refused(two_stages(), 3)
    )


def test_a_stage_that_holds_nothing_trainable_is_a_stage() -> None:
    """A gradient passes through it."""
    program = trained(
        made(None, Phase.INPUT, "x", "Placeholder"),
        made(FIRST, Phase.FORWARD, "a", "MatMul", "x", "wa"),
        made(SECOND, Phase.FORWARD, "middle", "Mul", "a", "a"),
        made(THIRD, Phase.FORWARD, "c", "MatMul", "middle", "wc"),
        made(THIRD, Phase.FORWARD, "loss", "Sum", "c"),
        layers=("a", "c"),
        variables=(("wa", FIRST), ("wc", THIRD)),
    )
    grad = made(None, Phase.BACKWARD, "middle_dx", "Mul", "c_dx", "a", forward="middle")
    whole = with_ops(program, grad)
    check(whole, assign(whole, stages(3), {}))


def test_a_stage_whose_values_gradients_read_is_a_stage() -> None:
    """No gradient gets to a frozen encoder, and that of the next layer reads what it computes."""
    program = trained(
        made(None, Phase.INPUT, "x", "Placeholder"),
        made(FIRST, Phase.FORWARD, "encoded", "Tanh", "x"),
        made(SECOND, Phase.FORWARD, "b", "MatMul", "encoded", "wb"),
        made(SECOND, Phase.FORWARD, "loss", "Sum", "b"),
        layers=("b",),
        variables=(("wb", SECOND),),
    )
    grad = made(None, Phase.BACKWARD, "wb_grad", "MatMul", "encoded", "loss", forward="b")
    whole = with_ops(program, grad)
    check(whole, assign(whole, stages(2), {}))


def test_a_variable_that_two_stages_write_is_refused() -> None:
    program = with_ops(
        two_stages(),
        made(FIRST, Phase.FORWARD, "count", "VariableV2", dtype="float32_ref"),
        made(FIRST, Phase.FORWARD, "write0", "AssignAdd", "count", "a", dtype="float32_ref"),
        made(SECOND, Phase.FORWARD, "write1", "AssignAdd", "count", "b", dtype="float32_ref"),
    )
    text = str(refused(program))
    sites = [program.ops[name].site for name in ("write0", "write1")]
    assert (
        f"the variable 'count' is written by two stages: AssignAdd 'write0' at {sites[0]} in stage 0, "
        f"AssignAdd 'write1' at {sites[1]} in stage 1"
    ) in text


def test_an_update_of_a_tied_weight_is_no_second_writer() -> None:
    program = trained(
        made(None, Phase.INPUT, "x", "Placeholder"),
        made(FIRST, Phase.FORWARD, "a", "MatMul", "x", "w"),
        made(SECOND, Phase.FORWARD, "b", "MatMul", "a", "w"),
        made(SECOND, Phase.FORWARD, "c", "MatMul", "b", "wc"),
        made(SECOND, Phase.FORWARD, "loss", "Sum", "c"),
        layers=("a", "b", "c"),
        variables=(("w", FIRST), ("w", FIRST), ("wc", SECOND)),
    )
    check(program, assign(program, stages(2), {}))


def test_all_faults_are_told_at_once() -> None:
    program = with_ops(
        two_stages(),
        made(FIRST, Phase.FORWARD, "back", "Neg", "b"),
        made(FIRST, Phase.FORWARD, "count", "VariableV2", dtype="float32_ref"),
        made(FIRST, Phase.FORWARD, "write0", "AssignAdd", "count", "a", dtype="float32_ref"),
        made(SECOND, Phase.FORWARD, "write1", "AssignAdd", "count", "b", dtype="float32_ref"),
    )
    text = str(refused(program, 3))
    for fault in ("is read by stage 0", "is written by two stages", "takes no part in training"):
        assert fault in text


def test_many_reads_are_counted() -> None:
    more = [made(FIRST, Phase.FORWARD, f"back{i}", "Neg", "b") for i in range(5)]
    assert "and 2 more" in str(refused(with_ops(two_stages(), *more)))


def without_gradients() -> Program:
    """The forward pass of ``two_stages``, and an update that descends from no gradient."""
    ops = {n: o for n, o in two_stages().ops.items() if o.phase is not Phase.BACKWARD and "apply" not in n}
    return Program(ops, two_stages().variables)


def test_a_graph_without_gradients_is_checked_for_its_order_alone() -> None:
    program = with_ops(without_gradients(), made(THIRD, Phase.FORWARD, "aside", "Tanh", "b"))
    check(program, assign(program, stages(3), {}))
    assert "is read by stage 0" in str(refused(with_ops(program, made(FIRST, Phase.FORWARD, "back", "Neg", "b")), 3))


def test_updates_without_gradients_are_refused() -> None:
    program = without_gradients()
    task_graphs = assign(program, stages(2), {})
    check_gradients(program, task_graphs, [])
    with pytest.raises(PlanError, match=re.escape(f"VariableV2 'wa' at {program.ops['wa'].site}")) as caught:
        check_gradients(program, task_graphs, ["wa"])
    assert "the graph has no gradients" in str(caught.value) and "2 stages" in str(caught.value)


def test_updates_with_gradients_pass() -> None:
    program = two_stages()
    check_gradients(program, assign(program, stages(2), {}), ["wa", "wb"])
