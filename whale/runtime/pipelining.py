"""The pipeline of one session: asked for by its graph, dealt to the devices, kept true as the graph grows."""

from __future__ import annotations

import dataclasses
from typing import Any

from whale.annotations.pipelines import pipeline_of
from whale.annotations.state import Annotations
from whale.annotations.strategies import Kind
from whale.annotations.variables import tabulate, trainable_names
from whale.errors import PlanError
from whale.ir.patterns import expand
from whale.ir.plan import Plan
from whale.ir.program import Program
from whale.ir.task_graphs import PipelineRequest, Stage, TaskGraphs
from whale.planner.stage_checks import check
from whale.planner.stage_devices import deal
from whale.planner.task_graphs import assign
from whale.rewriter.mesh import Mesh, Pipeline
from whale.runtime.options import Options


def requested(said: Annotations | None, options: Options) -> PipelineRequest | None:
    """The pipeline that a session is to run; None where the strategy asks for plain replicas."""
    if options.strategy == "replica":
        return None
    return pipeline_of(said, options.config)


def under(plan: Plan, request: PipelineRequest | None, program: Program) -> PipelineRequest | None:
    """The pipeline of a session that follows a plan, which completes what the script asks for.

    Args:
        plan: the plan.
        request: what the script asks for.
        program: the captured graph, whose ops the plan's patterns name.

    Raises:
        PlanError: the plan has other stages than the script.
    """
    if not plan.stages:
        if not plan.micro_batches:
            return request
        if request is not None and len(request.stages) > 1:
            raise PlanError(
                f"the plan has no stages, and the script has {len(request.stages)}",
                site=request.site,
                fix="make the plan for this script: whale plan --json PLAN",
            )
        asked = request or PipelineRequest((), 1, "PreferBackward", is_asked=False)
        return dataclasses.replace(asked, micro_batches=plan.micro_batches)
    devices = [tuple((device,) for device in stage.devices) for stage in plan.stages]
    if plan.stages[0].ops:
        stage_of = expand([stage.ops for stage in plan.stages], program.ops)
        stages = tuple(
            Stage(frozenset(), stage.name, row, ops=frozenset(n for n, of in stage_of.items() if of == number))
            for number, (stage, row) in enumerate(zip(plan.stages, devices))
        )
        micro_batches, schedule = max(plan.micro_batches, 1), plan.schedule or "PreferBackward"
        return PipelineRequest(stages, micro_batches, schedule, is_asked=False)
    if request is None or len(request.stages) != len(plan.stages):
        count = len(request.stages) if request is not None else 0
        raise PlanError(
            f"the plan gives devices to {len(plan.stages)} stages of the script, and the script has {count}",
            site=request.site if request is not None else None,
            fix="make the plan for this script: whale plan --json PLAN",
        )
    return PipelineRequest(
        tuple(dataclasses.replace(stage, devices=row) for stage, row in zip(request.stages, devices)),
        plan.micro_batches or request.micro_batches,
        plan.schedule or request.strategy,
        request.site,
    )


class Pipelining:
    """The stages of a session's graph, or the micro-batches of one without stages."""

    def __init__(
        self,
        request: PipelineRequest,
        said: Annotations | None,
        devices: tuple[str, ...],
        shares: tuple[int, ...] = (),
    ) -> None:
        """Deals the devices.

        Args:
            request: what the script asks for.
            said: its annotations.
            devices: of the session; each is a replica where there are no stages.
            shares: of the batch, of each replica of a pipeline; empty for equal ones.

        Raises:
            PlanError, ScheduleError: as ``deal``.
        """
        scopes = said.scopes if said is not None else ()
        replicas = [scope for scope in scopes if scope.kind is Kind.REPLICA]
        chosen = next((scope.strategy.device_count for scope in replicas if scope.strategy.device_count), None)
        self.staged = len(request.stages) > 1
        self._shares = shares
        self.request = request if self.staged else dataclasses.replace(request, stages=(Stage(frozenset()),))
        self.dealt = deal(self.request, devices, bool(replicas) or not self.staged, chosen)
        self.stages = TaskGraphs(self.request.stages, {})
        self._trainable: frozenset[str] = frozenset()

    def extend(self, program: Program, graph: Any) -> Program:
        """Gives the ops that were added to a graph their stages; the program with phases.

        Raises:
            PlanError: the stages do not fit the graph.
        """
        self._trainable = trainable_names(graph)
        completed = tabulate(program, self._trainable)
        self.stages = assign(completed, self.request.stages, self.stages.of)
        if self.staged:
            check(completed, self.stages, self.request.is_asked)
        return completed

    def written_out(self, program: Program) -> tuple[Program, TaskGraphs]:
        """A program whose functions were written out, with phases, and the stages of its ops."""
        completed = tabulate(program, self._trainable & program.ops.keys())
        return completed, assign(completed, self.request.stages, self.stages.of)

    def mesh(self, mesh: Mesh) -> Mesh:
        """The copies of a step: one per replica and micro-batch, or per replica where micro-batches are accumulated."""
        if self.staged:
            return self.unrolled(mesh)
        return dataclasses.replace(mesh, micro_batches=self.request.micro_batches)

    def unrolled(self, mesh: Mesh) -> Mesh:
        """A copy per micro-batch also where there is one stage: what cannot go through a loop one after another."""
        micro_batches = self.request.micro_batches
        devices = self.dealt.of_copies(micro_batches)
        pipeline = Pipeline(self.stages, devices, micro_batches, self.dealt.schedule, self.dealt.idle)
        shares = mesh.pieces
        if self.staged:
            of_replica = self._shares or (1,) * len(self.dealt.devices)
            shares = tuple(share for share in of_replica for _ in range(micro_batches))
        return dataclasses.replace(mesh, devices=devices[0], shares=shares, micro_batches=1, pipeline=pipeline)

    def device(self, op: str) -> str:
        """The device of the user's own op: that of its stage in the first replica."""
        return self.dealt.devices[0][self.stages.of[op]][0]
