"""From a training step to the plan it runs by."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from whale.annotations.strategies import Kind
from whale.cluster import CATALOGUE, Catalogue, Cluster
from whale.config.schedule_names import canonical
from whale.cost_model import Coefficients, Precision, World, packaged_coefficients, runtime
from whale.errors import PlanError
from whale.ir.plan import Plan
from whale.ir.schedules import INTERLEAVED
from whale.planner.ask import Ask, everything, shares_only, what_runs
from whale.planner.prefer import simplest
from whale.planner.runnable import runnable
from whale.planner.search.options import SearchOptions
from whale.planner.search.search import Found, search
from whale.planner.search.world import Judge
from whale.rewriter.mesh import Mesh
from whale.runtime.planning.fixed import as_costed
from whale.runtime.planning.training_step import TrainingStep

SPACES: dict[str, Callable[[Ask], SearchOptions]] = {
    "everything": everything,
    "what runs": what_runs,
    "shares only": shares_only,
}
"""What is looked at, by name."""


@dataclasses.dataclass(frozen=True)
class Decided:
    """A plan for a training step."""

    step: TrainingStep
    options: SearchOptions
    """The space that was searched."""
    found: Found
    plan: Plan
    """As a plan file has it."""
    names: tuple[str, ...]
    """Of the stages that the script names."""
    notes: tuple[str, ...]
    """What was given up on the way."""


def decide(
    step: TrainingStep,
    cluster: Cluster,
    space: str,
    *,
    precision: Precision = "fp32",
    catalogue: Catalogue = CATALOGUE,
    coefficients: Coefficients | None = None,
    progress: Callable[[str], None] | None = None,
) -> Decided:
    """Searches a plan for a training step that can run.

    Args:
        step: the training step.
        cluster: the devices that may be used.
        space: one of ``SPACES``.
        precision: of products.
        catalogue: what is known of devices and links.
        coefficients: fitted numbers; those that ship with Whale by default.
        progress: told the phases of a search as they begin.

    Raises:
        PlanError: no plan fits, or the cost model has no plan like that of the script.
        ClusterError: a device is unknown, or a link is down that no plan can do without.
    """
    ask = ask_of(step, cluster, precision)
    options = SPACES[space](ask)
    models = [device.model for device in cluster.compute_devices]
    names = stage_names(step)
    notes: list[str] = []
    while True:
        found = simplest(
            search(step.chain, cluster, options, catalogue=catalogue, coefficients=coefficients, progress=progress)
        )
        try:
            plan = runnable(found.plan, step.chain, step.program, step.graph, models, names)
        except PlanError as error:
            if step.stages or options.max_stages == 1:
                raise
            # A cut that the cost model sees and the rewriter cannot make: through a loop, or back to an earlier stage.
            notes.append(f"a pipeline was left out: {' '.join(error.what.split())}")
            options = dataclasses.replace(options, max_stages=1)
            continue
        return Decided(step, options, found, plan, names, tuple(notes))


def as_dealt(
    step: TrainingStep,
    mesh: Mesh,
    cluster: Cluster,
    *,
    precision: Precision = "fp32",
    catalogue: Catalogue = CATALOGUE,
    coefficients: Coefficients | None = None,
) -> Decided:
    """The plan of a step that leaves nothing to choose, or that runs already: nothing is searched.

    Args:
        step: the training step.
        mesh: its copies, as the runtime has dealt them.
        cluster: the devices.
        precision: of products.
        catalogue: what is known of devices and links.
        coefficients: fitted numbers; those that ship with Whale by default.

    Raises:
        ClusterError: a device is unknown, or a link is down that the plan needs.
    """
    plan = dataclasses.replace(as_costed(mesh, step.chain, step.batch, step.local and step.draws), precision=precision)
    fitted = coefficients or packaged_coefficients()
    judge = Judge(step.chain, World(cluster, runtime("tensorflow"), catalogue, fitted))
    found = Found(plan, judge.whole_step(plan), (), None, False, 0, {})
    options = SearchOptions(plan.global_batch, precision=precision, executable_only=True)
    devices = cluster.compute_devices
    names, models = tuple(device.name for device in devices), tuple(device.model for device in devices)
    mode = "local" if step.local else "global"
    file = Plan((1,) * len(devices), names, mode, graph=step.graph, models=models)  # the script says the rest
    return Decided(step, options, found, file, stage_names(step), ())


def ask_of(step: TrainingStep, cluster: Cluster, precision: Precision) -> Ask:
    """What a script and a cluster fix of the plan.

    Only for a step that is not fixed.
    """
    devices = len(cluster.compute_devices)
    request = step.pipeline
    stages = request.stages if request is not None else ()
    replicas: int | None = None
    if len(stages) > 1:
        # Where devices have several stages, how many devices a copy takes is open.
        several = request is not None and canonical(request.strategy) == INTERLEAVED
        replicas = (None if several else devices // len(stages)) if step.replicated else 1
    elif step.replicated:
        replicas = devices
    return Ask(
        batch=step.batch,
        local=step.local,
        devices=devices,
        replicas=replicas,
        micro_batches=request.micro_batches if request is not None else 0,
        stages=step.stages,
        schedule=request.strategy if request is not None else "",
        precision=precision,
        # How a batch of unknown size is best cut into small pieces is not known either.
        needs_whole_batch=step.needs_whole_batch or not step.is_batch_known,
        copies=not step.allowed or Kind.REPLICA in step.allowed,
        pipelines=not step.allowed or not {Kind.STAGE, Kind.PIPELINE}.isdisjoint(step.allowed),
    )


def stage_names(step: TrainingStep) -> tuple[str, ...]:
    """What the stages that a script names are called."""
    if not step.stages or step.pipeline is None:
        return ()
    return tuple(stage.name or f"stage {number}" for number, stage in enumerate(step.pipeline.stages))
