"""From the plan that a search found to a plan that runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from whale.cost_model import Chain, ParallelPlan
from whale.errors import PlanError
from whale.ir.patterns import cover
from whale.ir.plan import Plan, PlannedStage
from whale.ir.program import Phase, Program
from whale.ir.task_graphs import Stage
from whale.planner.search.families import why_not_executable
from whale.planner.stage_checks import check
from whale.planner.task_graphs import assign


def runnable(
    plan: ParallelPlan,
    chain: Chain,
    program: Program,
    graph: str,
    models: Sequence[str],
    names: Sequence[str] = (),
) -> Plan:
    """A plan as a plan file holds it.

    Args:
        plan: what the search found.
        chain: the blocks it speaks of, with their ops.
        program: the captured graph, with phases.
        graph: print of its training step.
        models: of the cluster's devices, in its order.
        names: of the stages that the script names; empty where it names none.

    Raises:
        PlanError: the rewriter cannot emit it, or its stages do not fit the graph.
    """
    refused = why_not_executable(plan)
    if refused:
        raise PlanError(f"the plan cannot run yet: {refused}", fix="search with executable_only")
    rows = [tuple(replica[0] for replica in stage.replicas) for stage in plan.stages]
    if len(rows) == 1:
        stages: tuple[PlannedStage, ...] = ()
    elif names:
        stages = tuple(PlannedStage(row, (), name) for row, name in zip(rows, names))
    else:
        patterns = _patterns(plan, chain, program)
        titles = [chain.blocks[stage.start].name for stage in plan.stages]
        stages = tuple(PlannedStage(*parts) for parts in zip(rows, patterns, titles))
    return Plan(
        shares=plan.shares or (1,) * plan.num_replicas,
        devices=rows[0],
        batch="",
        micro_batches=plan.micro_batches,
        schedule=plan.schedule if stages else "",
        stages=stages,
        graph=graph,
        models=tuple(models),
    )


def _patterns(plan: ParallelPlan, chain: Chain, program: Program) -> Sequence[tuple[str, ...]]:
    """What tells the forward ops of each stage apart, those that do not depend on the batch among them."""
    cut = [Stage(frozenset(), ops=frozenset(_ops(chain, stage.start, stage.stop))) for stage in plan.stages]
    assigned = assign(program, tuple(cut), {})
    check(program, assigned, is_asked=False)
    groups: list[list[str]] = [[] for _ in cut]
    for name, op in program.ops.items():
        if op.phase is Phase.FORWARD:
            groups[assigned.of[name]].append(name)
    return cover(groups)


def _ops(chain: Chain, start: int, stop: int) -> Iterable[str]:
    return (name for block in chain.ops[start:stop] for name in block)
