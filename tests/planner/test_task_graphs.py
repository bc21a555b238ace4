"""The stage of every op: stamps, data flow, variables, gradients, loops, and what is added later."""

from __future__ import annotations

import random

from tests.planner.staged import FIRST, SECOND, THIRD, made, stages, trained, two_stages, with_ops
from whale.ir.program import Phase, Program, Variable
from whale.planner.task_graphs import assign


def of(program: Program, count: int = 2, before: dict[str, int] | None = None) -> dict[str, int]:
    """Stages by op."""
    return dict(assign(program, stages(count), before or {}).of)


def test_every_op_has_a_stage() -> None:
    program = two_stages()
    assert of(program).keys() == program.ops.keys()


def test_stamps_hold_and_the_rest_joins_what_it_reads() -> None:
    found = of(two_stages())
    assert (found["a"], found["relu"], found["b"], found["loss"]) == (0, 0, 1, 1)


def test_inputs_are_where_they_are_read_first() -> None:
    """Labels go straight to the last stage."""
    found = of(two_stages())
    assert (found["x"], found["labels"]) == (0, 1)


def test_an_input_that_two_stages_read_is_with_the_earlier() -> None:
    program = with_ops(two_stages(), made(None, Phase.FORWARD, "scaled", "Mul", "b", "x"))
    found = of(program)
    assert (found["x"], found["scaled"]) == (0, 1)


def test_gradients_are_where_their_forward_ops_are_and_updates_with_their_variables() -> None:
    found = of(two_stages())
    assert {name: found[name] for name in ("b_dw", "b_dx", "a_dw", "a_dx")} == {
        "b_dw": 1,
        "b_dx": 1,
        "a_dw": 0,
        "a_dx": 0,
    }
    assert (found["wa_apply"], found["wb_apply"], found["seed"]) == (0, 1, 1)


def test_a_skip_over_a_stage_is_read_where_it_is_read() -> None:
    program = trained(
        made(None, Phase.INPUT, "x", "Placeholder"),
        made(FIRST, Phase.FORWARD, "a", "MatMul", "x", "wa"),
        made(SECOND, Phase.FORWARD, "b", "MatMul", "a", "wb"),
        made(THIRD, Phase.FORWARD, "c", "MatMul", "b", "wc"),
        made(None, Phase.FORWARD, "loss", "AddV2", "c", "a"),
        layers=("a", "b", "c"),
        variables=(("wa", FIRST), ("wb", SECOND), ("wc", THIRD)),
    )
    assert of(program, 3)["loss"] == 2


def test_a_tied_weight_lives_once_and_its_gradients_are_added_up_there() -> None:
    program = trained(
        made(None, Phase.INPUT, "x", "Placeholder"),
        made(FIRST, Phase.FORWARD, "a", "MatMul", "x", "w"),
        made(SECOND, Phase.FORWARD, "b", "MatMul", "a", "w"),
        made(SECOND, Phase.FORWARD, "loss", "Sum", "b"),
        layers=("a", "b"),
        variables=(("w", FIRST), ("w", FIRST)),
    )
    found = of(program)
    assert {found[name] for name in ("w", "w_sum", "w_apply", "a_dw")} == {0}
    assert found["b_dw"] == 1


def test_an_unstamped_variable_is_where_it_is_first_read() -> None:
    program = trained(
        made(None, Phase.INPUT, "x", "Placeholder"),
        made(FIRST, Phase.FORWARD, "a", "MatMul", "x", "wa"),
        made(SECOND, Phase.FORWARD, "b", "MatMul", "a", "free"),
        made(SECOND, Phase.FORWARD, "loss", "Sum", "b"),
        layers=("a", "b"),
        variables=(("wa", FIRST), ("free", None)),  # type: ignore[arg-type]
    )
    assert of(program)["free"] == 1


def test_slots_are_with_their_variables() -> None:
    slot = made(None, Phase.OTHER, "wb/Momentum", "VariableV2", dtype="float32_ref")
    value = made(None, Phase.INIT, "zeros", "Const")
    init = made(None, Phase.INIT, "wb/Momentum/init", "Assign", "wb/Momentum", "zeros", dtype="float32_ref")
    entry = Variable("wb/Momentum", "float32", (), False, "zeros:0", (), "wb")
    found = of(with_ops(two_stages(), slot, value, init, variables=(entry,)))
    assert (found["wb/Momentum"], found["wb/Momentum/init"]) == (1, 1)


def test_reads_of_a_variable_are_with_it_whatever_their_stamp() -> None:
    program = with_ops(two_stages(), made(SECOND, Phase.FORWARD, "read", "Identity", "wa"))
    assert of(program)["read"] == 0


def test_an_array_whose_size_comes_from_a_table_is_not_the_table() -> None:
    """A TensorArray's handle is a resource too, and its size a number that can be traced back to a variable."""
    program = with_ops(
        two_stages(),
        made(SECOND, Phase.FORWARD, "size", "Size", "wa"),
        made(SECOND, Phase.FORWARD, "array", "TensorArrayV3", "size", dtype="resource"),
        made(SECOND, Phase.FORWARD, "scatter", "TensorArrayScatterV3", "array", "b"),
    )
    found = of(program)
    assert (found["array"], found["scatter"]) == (1, 1)


def test_a_loop_is_in_one_stage() -> None:
    """Where most of its ops are."""
    program = with_ops(
        two_stages(),
        made(FIRST, Phase.FORWARD, "enter", "Enter", "a", frame_name="loop"),
        made(SECOND, Phase.FORWARD, "merge", "Merge", "enter", "next"),
        made(SECOND, Phase.FORWARD, "body", "Tanh", "merge"),
        made(SECOND, Phase.FORWARD, "next", "NextIteration", "body"),
        made(SECOND, Phase.FORWARD, "exit", "Exit", "merge"),
    )
    found = of(program)
    assert {found[name] for name in ("enter", "merge", "body", "next")} == {1}


def test_a_summary_of_a_kernel_is_where_the_kernel_is() -> None:
    summary = made(None, Phase.OTHER, "summary", "HistogramSummary", "tag", "wb")
    tag = made(None, Phase.OTHER, "tag", "Const")
    assert of(with_ops(two_stages(), tag, summary))["summary"] == 1


def test_ops_that_were_there_keep_their_stage() -> None:
    """The graph grows while variables hold values on their devices."""
    before = of(two_stages())
    before["relu"] = 1
    grown = with_ops(two_stages(), made(None, Phase.FORWARD, "later", "Neg", "relu"))
    found = of(grown, 2, before)
    assert {name: found[name] for name in before} == before
    assert found["later"] == 1


def test_the_order_in_which_ops_are_listed_is_the_graph_s_and_the_answer_does_not_hang_on_hashes() -> None:
    program = two_stages()
    expected = of(program)
    names = list(program.ops)
    for _ in range(5):
        random.shuffle(names)
        mixed = Program({name: program.ops[name] for name in names}, program.variables)
        assert of(mixed) == expected


def test_forward_ops_without_a_scope_are_told_by_stage() -> None:
    joined = assign(two_stages(), stages(2), {}).joined
    assert {stage: len(ops) for stage, ops in joined.items()} == {0: 1, 1: 1}
    assert all(op.scope is None for ops in joined.values() for op in ops)


def test_a_stage_is_told_by_number_name_and_line() -> None:
    assert assign(two_stages(), stages(2), {}).title(1) == "stage 1 's1' (model.py:20)"
