"""What is wrong with the stages of a graph, said of all of them at once."""

from __future__ import annotations

from collections.abc import Iterable

from whale.errors import PlanError
from whale.ir.flow import Flow, flow
from whale.ir.program import MOST_NAMED, Op, Phase, Program, described
from whale.ir.task_graphs import TaskGraphs
from whale.sharding.rules.state import holder_of, on_variable, writes_variable


def check(program: Program, stages: TaskGraphs, is_asked: bool = True) -> None:
    """Checks that values flow from each stage to later ones, and that each takes part in training.

    A graph without gradients is checked for its order alone: it evaluates. Stages that Whale cuts itself need not take
    part in training: what is left behind the last variable may be one.

    Args:
        program: with phases and variables.
        stages: the stage of every op.
        is_asked: whether the script asks for the stages.

    Raises:
        PlanError: it does not; the message names stages, ops and lines.
    """
    edges = flow(program)
    trains = is_asked and any(op.phase is Phase.BACKWARD for op in program.ops.values())
    found = {
        _IN_ORDER: _order_faults(edges, stages),
        _WRITTEN_ONCE: _write_faults(program, stages),
        _WORTH_A_STAGE: _idle_faults(edges, stages) if trains else [],
    }
    faults = [fault for some in found.values() for fault in some]
    if faults:
        site = next((stage.site for stage in stages.stages if stage.site), None)
        raise PlanError(
            "the stages of the pipeline do not fit the graph:\n  " + "\n  ".join(faults),
            site=site,
            fix="; ".join(fix for fix, some in found.items() if some),
        )


_IN_ORDER = (
    "make every op in the `with wh.stage():` block of the stage that it belongs to, in data-flow order "
    "(docs/pipelines.md shows what a stage may read)"
)
_WRITTEN_ONCE = "write a variable in one stage"
_WORTH_A_STAGE = "join a stage that takes no part in training with one beside it"


def check_gradients(program: Program, stages: TaskGraphs, written: Iterable[str]) -> None:
    """Checks of a run that updates variables of a pipeline that their gradients are there.

    Raises:
        PlanError: it writes trainable variables, and the graph has no backward pass.
    """
    if any(op.phase is Phase.BACKWARD for op in program.ops.values()):
        return
    trained = [name for name in written if name in program.variables and program.variables[name].trainable]
    if trained:
        raise PlanError(
            f"the run updates {described([program.ops[name] for name in trained])}, and the graph has no gradients: a "
            f"pipeline of {len(stages.stages)} stages needs its backward pass from tf.gradients",
            site=stages.stages[0].site,
            fix="train with an optimizer's minimize() or with tf.gradients, or take the stages out",
        )


def _order_faults(edges: Flow, stages: TaskGraphs) -> list[str]:
    """Values of the model that flow from a later stage to an earlier one."""
    model = _of_the_model(edges)
    back: dict[tuple[int, int], list[str]] = {}
    forth: set[tuple[int, int]] = set()
    for op in edges.order:
        if op.phase is not Phase.FORWARD or on_variable(op.type):
            continue
        for producer in edges.producers[op.name]:
            source, target = stages.of[producer], stages.of[op.name]
            if producer not in model or source == target:
                continue
            if source < target:
                forth.add((source, target))
            else:
                back.setdefault((source, target), []).append(f"{edges.ops[producer].described()} by {op.described()}")
    faults: list[str] = []
    for (source, target), reads in sorted(back.items()):
        what = "which reads from it in turn" if (target, source) in forth else "which comes before it in the script"
        faults.append(
            f"{stages.title(source)} is read by {stages.title(target)}, {what}: "
            + "; ".join(reads[:MOST_NAMED])
            + (f" and {len(reads) - MOST_NAMED} more" if len(reads) > MOST_NAMED else "")
        )
    return faults


def _of_the_model(edges: Flow) -> set[str]:
    """Forward ops that depend on the batch, other than variables and their reads."""
    found: set[str] = set()
    for op in edges.order:
        if op.phase is Phase.INPUT and op.type != "Const":
            found.add(op.name)
        elif op.phase is not Phase.FORWARD or on_variable(op.type):
            continue
        elif any(producer in found for producer in edges.producers[op.name]):
            found.add(op.name)
    return {name for name in found if edges.ops[name].phase is Phase.FORWARD}


def _write_faults(program: Program, stages: TaskGraphs) -> list[str]:
    """Variables that ops stamped with two stages write in the forward pass."""
    stage_of_scope = {scope: number for number, stage in enumerate(stages.stages) for scope in stage.scopes}
    writers: dict[str, dict[int, Op]] = {}
    for op in program.ops.values():
        if op.phase in (Phase.INIT, Phase.SAVE) or not writes_variable(op.type) or not op.inputs:
            continue
        variable = holder_of(program.ops, op.inputs[0])
        if variable is None or op.name == _initialiser(program, variable) or op.forward is not None:
            continue
        stage = stage_of_scope.get(op.scope if op.scope is not None else -1)
        if stage is not None and not _applies(op):
            writers.setdefault(variable, {}).setdefault(stage, op)
    return [
        f"the variable '{variable}' is written by two stages: "
        + ", ".join(f"{op.described()} in stage {stage}" for stage, op in sorted(found.items()))
        for variable, found in writers.items()
        if len(found) > 1
    ]


def _idle_faults(edges: Flow, stages: TaskGraphs) -> list[str]:
    """Stages that no gradient passes through and that no gradient depends on.

    What trains nothing may be a stage: a frozen encoder, a loss of its own, variables that other stages read.
    """
    busy = {stages.of[name] for name in _behind_gradients(edges)}
    faults: list[str] = []
    for number in range(len(stages.stages)):
        if number in busy:
            continue
        own = [op for name, op in edges.ops.items() if stages.of[name] == number and op.phase is Phase.FORWARD]
        what = f"its ops ({described(own)}) have no path to the loss" if own else "it holds no op of the model"
        faults.append(f"{stages.title(number)} takes no part in training: {what}")
    return faults


def _behind_gradients(edges: Flow) -> set[str]:
    """The ops of the backward pass, and all that they depend on."""
    found = {op.name for op in edges.order if op.phase is Phase.BACKWARD}
    left = list(found)
    while left:
        for producer in edges.producers[left.pop()]:
            if producer not in found:
                found.add(producer)
                left.append(producer)
    return found


def _applies(op: Op) -> bool:
    return "Apply" in op.type


def _initialiser(program: Program, variable: str) -> str | None:
    found = program.variables.get(variable)
    return found.initial_value if found is not None else None
