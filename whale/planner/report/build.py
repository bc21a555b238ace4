"""Makes the report of a plan that was found."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from whale.cluster import CATALOGUE, Catalogue, Cluster
from whale.cost_model import (
    Block,
    Chain,
    Coefficients,
    Estimate,
    MemoryUse,
    ParallelPlan,
    Runtime,
    World,
    gradient_bytes,
    packaged_coefficients,
    runtime,
    simulate,
)
from whale.cost_model.runtimes import element_bytes
from whale.errors import PlanError
from whale.ir.program import Phase
from whale.planner.report.events import make_timeline
from whale.planner.report.report import (
    DeviceFacts,
    GraphFacts,
    Measured,
    OtherPlan,
    PlanReport,
    Prediction,
    ReplicaFacts,
    SearchFacts,
    StageFacts,
)
from whale.planner.report.words import layout_words
from whale.planner.search.families import Loser, family_of, why_not_executable
from whale.planner.search.options import SearchOptions
from whale.planner.search.search import Found
from whale.planner.search.world import Judge

_VARIABLE_BYTES = 4
"""Of an element of a variable, which a script keeps in 32 bits whatever it computes with."""


def make_report(
    found: Found,
    chain: Chain,
    cluster: Cluster,
    options: SearchOptions,
    *,
    title: str,
    graph: GraphFacts,
    names: Sequence[str] = (),
    numerics: Sequence[str] = (),
    measured: Measured | None = None,
    execution: Runtime | None = None,
    catalogue: Catalogue = CATALOGUE,
    coefficients: Coefficients | None = None,
    most_events: int = 4000,
) -> PlanReport:
    """The report of what a search found.

    Args:
        found: the plan, its estimate and the losers.
        chain: the model that was searched for.
        cluster: the devices that were allowed.
        options: the space that was searched.
        title: the script's name.
        graph: facts of the captured graph.
        names: of the TaskGraphs in order; by default ``stage 0`` and so on, or ``whole model``.
        numerics: what is promised of results, a line each.
        measured: what a run came to.
        execution: what runs the plan; as it was given to the search, like the two below.
        catalogue: what is known of devices and links.
        coefficients: fitted numbers.
        most_events: a longer step is shown by its beginning and its end.

    Raises:
        PlanError: there are not as many names as stages, or the plan is of another model.
        ClusterError: the plan is of another cluster.
    """
    plan = found.plan
    if names and len(names) != len(plan.stages):
        raise PlanError(f"{len(names)} names for the {len(plan.stages)} stages of a plan", fix="name each, or none")
    world = World(cluster, execution or runtime("tensorflow"), catalogue, coefficients or packaged_coefficients())
    # The search keeps no timeline. One step more is simulated in the world that its plans were simulated in.
    shown = simulate(chain, plan, Judge(chain, world).seen_by(plan.devices))
    replicas = _replicas(plan, shown)
    estimate = found.estimate
    return PlanReport(
        title=title,
        graph=graph,
        batch=plan.global_batch,
        family=family_of(plan).name,
        layout=layout_words(plan),
        devices=_devices(plan, estimate, cluster),
        stages=_stages(plan, chain, world, names),
        rows=plan.rows,
        replicas=replicas,
        micro_batches=plan.micro_batches,
        schedule=plan.schedule,
        recomputation=plan.recompute.value,
        precision=plan.precision,
        prediction=Prediction(
            step_seconds=estimate.step_seconds,
            samples_per_second=plan.global_batch / estimate.step_seconds if estimate.step_seconds else 0.0,
            bubble=estimate.bubble,
            compute_seconds=estimate.compute_seconds,
            reduce_seconds=estimate.reduce_seconds,
        ),
        timeline=make_timeline(shown.timeline, plan, [replica.like for replica in replicas], most_events),
        runners_up=tuple(_other(loser, options) for loser in found.runners_up),
        left_out=_other(found.left_out, options) if found.left_out is not None else None,
        search=SearchFacts(found.exact, found.simulated, tuple(found.seconds.items())),
        numerics=tuple(numerics),
        measured=measured,
    )


def _replicas(plan: ParallelPlan, estimate: Estimate) -> tuple[ReplicaFacts, ...]:
    # Replicas that the simulation takes for equal share one object for their memory.
    firsts: dict[int, int] = {}
    made: list[ReplicaFacts] = []
    for number, group in enumerate(plan.stages[0].replicas):
        like = firsts.setdefault(id(estimate.memory[group[0]]), number)
        samples = plan.samples(number) * plan.micro_batches
        made.append(ReplicaFacts(number, samples, samples / plan.global_batch, like))
    return tuple(made)


def _devices(plan: ParallelPlan, estimate: Estimate, cluster: Cluster) -> tuple[DeviceFacts, ...]:
    stages: dict[str, list[int]] = {}
    for number, stage in enumerate(plan.stages):
        for device in (d for replica in stage.replicas for d in replica):
            stages.setdefault(device, []).append(number)
    made: list[DeviceFacts] = []
    for device in cluster.devices:
        if device not in cluster.compute_devices and device.name not in stages:
            continue
        use = estimate.memory.get(device.name)
        made.append(
            DeviceFacts(
                name=device.name,
                host=device.host,
                kind=device.kind,
                index=device.index,
                model=device.model,
                limit_bytes=device.memory_bytes,
                stages=tuple(stages.get(device.name, ())),
                memory=MemoryUse(*(float(size) for size in dataclasses.astuple(use))) if use is not None else None,
            )
        )
    return tuple(made)


def _stages(plan: ParallelPlan, chain: Chain, world: World, names: Sequence[str]) -> tuple[StageFacts, ...]:
    total = _flops(chain.blocks, plan)
    made: list[StageFacts] = []
    for number, stage in enumerate(plan.stages):
        blocks = chain.blocks[stage.start : stage.stop]
        parts = stage.tensor_parallel
        reduced = gradient_bytes(blocks, parts, plan.precision, world.runtime) if plan.num_replicas > 1 else 0.0
        divided = "whole" if parts == 1 else f"{parts} devices"
        if parts > 1 and plan.sequence_parallel:
            divided += ", sequence too"
        made.append(
            StageFacts(
                number=number,
                name=names[number] if names else _stage_name(plan, number),
                start=stage.start,
                stop=stage.stop,
                first=blocks[0].name,
                last=blocks[-1].name,
                folded=len(blocks) - len(set(blocks)),
                work=_flops(blocks, plan) / total if total else 0.0,
                parameter_bytes=_parameter_bytes(blocks),
                reduced_bytes=float(reduced),
                output_bytes=_output_bytes(plan, blocks[-1]) if number + 1 < len(plan.stages) else 0.0,
                devices=stage.replicas,
                divided=divided,
            )
        )
    return tuple(made)


def _stage_name(plan: ParallelPlan, number: int) -> str:
    return f"stage {number}" if len(plan.stages) > 1 else "whole model"


def _flops(blocks: Sequence[Block], plan: ParallelPlan) -> float:
    samples = max(plan.samples(replica) for replica in range(plan.num_replicas))
    of_each = {block: sum(block.flops(p, samples) for p in (Phase.FORWARD, Phase.BACKWARD)) for block in set(blocks)}
    return sum(of_each[block] for block in blocks)


def _parameter_bytes(blocks: Sequence[Block]) -> int:
    shared: set[str] = set()
    elements = 0
    for parameter in (p for block in blocks for p in block.parameters):
        if parameter.shared in shared:
            continue
        if parameter.shared:
            shared.add(parameter.shared)
        elements += parameter.elements
    return elements * _VARIABLE_BYTES


def _output_bytes(plan: ParallelPlan, last: Block) -> float:
    width = element_bytes(plan.precision)
    of_all = sum(last.output.at(plan.samples(replica)) for replica in range(plan.num_replicas))
    return float(of_all * width * plan.micro_batches)


def _other(loser: Loser, options: SearchOptions) -> OtherPlan:
    judged = loser.judged
    refused = why_not_executable(judged.plan) if options.executable_only else ""
    return OtherPlan(
        name=loser.family.name,
        layout=layout_words(judged.plan),
        step_seconds=judged.seconds if judged.fits else None,
        fits=judged.fits,
        refused=refused,
        reason=loser.reason,
    )
