"""The plan of a script that leaves nothing open: as the runtime deals it, seen by the cost model."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from whale.annotations.state import annotations_of
from whale.cost_model import Chain, ParallelPlan, StagePlan
from whale.cost_model.plan import ScheduleName
from whale.ir.program import Program
from whale.planner.search.options import SCHEDULES
from whale.rewriter.mesh import Mesh
from whale.runtime.options import Options
from whale.runtime.pipelining import Pipelining, requested


def dealt_mesh(graph: tf.Graph, program: Program, options: Options) -> Mesh:
    """The copies of a step as a session of the graph has them, by what the script says alone.

    Raises:
        PlanError, ScheduleError: the stages do not fit the devices or the graph.
    """
    said = annotations_of(graph)
    plan, _ = options.plan_for(said)
    mesh = Mesh(plan.devices, plan.shares, local=options.draws_locally(said))
    request = requested(said, options)
    if request is None or (len(request.stages) < 2 and request.micro_batches == 1):
        return mesh
    pipelining = Pipelining(request, said, plan.devices)
    pipelining.extend(program, graph)
    return pipelining.mesh(mesh)


def as_costed(mesh: Mesh, chain: Chain, batch: int, local: bool) -> ParallelPlan:
    """Copies of a step as the cost model has plans.

    A stage that takes its micro-batches in turn on several devices counts as if the first did them all.

    Args:
        mesh: the copies.
        chain: the blocks of the step; none is part of two stages.
        batch: samples of a batch of the script.
        local: whether every copy draws one of its own.
    """
    count = len(chain.blocks)
    if mesh.pipeline is None:
        copies, micro_batches = len(mesh.devices), mesh.micro_batches
        stages = (StagePlan(0, count, tuple((device,) for device in mesh.devices)),)
        shares, schedule = mesh.shares, SCHEDULES[0]
    else:
        copies, micro_batches = mesh.pipeline.replicas, mesh.pipeline.micro_batches
        firsts = range(0, copies * micro_batches, micro_batches)
        starts = _starts(chain, mesh)
        rows = [tuple((row[first],) for first in firsts) for row in mesh.pipeline.devices]
        bounds = zip(starts, [*starts[1:], count], rows)
        stages = tuple(StagePlan(start, stop, row) for start, stop, row in bounds if start < stop)
        shares = tuple(mesh.shares[first] for first in firsts)
        schedule = _schedule(mesh.pipeline.schedule.name)
    whole = batch * (copies * micro_batches if local else 1)
    return ParallelPlan(stages, whole, micro_batches, shares, schedule)


def _schedule(name: str) -> ScheduleName:
    for known in SCHEDULES:
        if known == name:
            return known
    return SCHEDULES[0]


def _starts(chain: Chain, mesh: Mesh) -> list[int]:
    """The first block of each stage; the number of blocks for stages behind the last."""
    assert mesh.pipeline is not None
    of = mesh.pipeline.stages.of
    starts: list[int] = []
    for block, ops in enumerate(chain.ops):
        stage = max((of[name] for name in ops if name in of), default=0)
        starts.extend([block] * (stage + 1 - len(starts)))
    return starts + [len(chain.blocks)] * (len(mesh.pipeline.stages.stages) - len(starts))
