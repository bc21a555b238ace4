"""The pipeline of one session: asked for by its graph, dealt to the devices, kept true as the graph grows."""

from __future__ import annotations

import dataclasses
from typing import Any

from whale.annotations.pipelines import pipeline_of
from whale.annotations.state import Annotations
from whale.annotations.strategies import Kind
from whale.annotations.variables import tabulate, trainable_names
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


class Pipelining:
    """The stages of a session's graph, or the micro-batches of one without stages."""

    def __init__(self, request: PipelineRequest, said: Annotations | None, devices: tuple[str, ...]) -> None:
        """Deals the devices.

        Args:
            request: what the script asks for.
            said: its annotations.
            devices: of the session; each is a replica where there are no stages.

        Raises:
            PlanError, ScheduleError: as ``deal``.
        """
        scopes = said.scopes if said is not None else ()
        replicas = [scope for scope in scopes if scope.kind is Kind.REPLICA]
        chosen = next((scope.strategy.device_count for scope in replicas if scope.strategy.device_count), None)
        self.staged = len(request.stages) > 1
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
            check(completed, self.stages)
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
        shares = mesh.pieces if not self.staged else (1,) * len(devices[0])
        return dataclasses.replace(mesh, devices=devices[0], shares=shares, micro_batches=1, pipeline=pipeline)

    def device(self, op: str) -> str:
        """The device of the user's own op: that of its stage in the first replica."""
        return self.dealt.devices[0][self.stages.of[op]][0]
