"""What a running session's plan is predicted to cost, beside what its steps take."""

from __future__ import annotations

import dataclasses
import shutil
import sys
from pathlib import Path
from typing import Any

import tensorflow.compat.v1 as tf

from whale import _tf
from whale.annotations.capture import capture
from whale.annotations.variables import complete
from whale.cluster import CATALOGUE, Cluster
from whale.config.setting import script_site
from whale.cost_model import ParallelPlan, packaged_coefficients
from whale.errors import SessionError
from whale.ir.program import Program
from whale.planner.report import Measured, PlanReport, to_page, to_text
from whale.rewriter.mesh import Mesh
from whale.runtime.binding import Binding
from whale.runtime.planning.decide import as_dealt
from whale.runtime.planning.reporting import report_of
from whale.runtime.planning.training_step import Given, training_step


@dataclasses.dataclass(frozen=True)
class Explanation:
    """A plan that is in force. ``print`` shows it as ``whale plan`` does."""

    report: PlanReport
    """All of it as data."""

    def __str__(self) -> str:
        return to_text(self.report, min(shutil.get_terminal_size((100, 24)).columns, 120))

    def html(self) -> str:
        """The page that ``whale plan --html`` writes."""
        return to_page(self.report)


def explain(session: Any) -> Explanation:
    """Explains a session that trains.

    Raises:
        SessionError: it was not made while Whale was active, or has not trained yet.
        ClusterError: a device is unknown to the catalogue.
    """
    raw = _tf.raw_session(session)
    binding = getattr(raw, "whale_binding", None)
    if not isinstance(binding, Binding):
        raise SessionError(
            "the session is not run by Whale",
            site=script_site(),
            fix="pass a session made after whale.init(), or under `whale run`, on two devices or more",
        )
    run, prepared = binding.steps.run, binding.steps.prepared
    if run is None or prepared is None:
        raise SessionError(
            "the session has not trained yet",
            site=script_site(),
            fix="call whale.explain after its first training step",
        )
    graph = binding.session.graph
    program = complete(capture(graph, Program({})), graph)
    step = training_step(graph, program, run, binding.options, Given(assumed_batch=1, assumed_size=1))
    mesh = (prepared.mesh if prepared.cut else None) or Mesh(binding.mesh.devices[:1], (1,))
    cluster, decided = binding.options.cluster, binding.planned.decided
    told = as_dealt(step, mesh, cluster)
    if decided is not None:
        searched = dataclasses.replace(decided.found, plan=told.found.plan, estimate=told.found.estimate)
        told = dataclasses.replace(told, found=searched, options=decided.options)
    report = report_of(told, cluster, Path(sys.argv[0]).name or "session", CATALOGUE, packaged_coefficients())
    measured = Measured(binding.steps.seconds, _peaks(cluster, told.found.plan))
    return Explanation(dataclasses.replace(report, measured=measured))


def _peaks(cluster: Cluster, plan: ParallelPlan) -> tuple[tuple[str, int], ...]:
    """The most memory that was in use on each GPU of a plan; TensorFlow counts none on CPUs."""
    found: list[tuple[str, int]] = []
    for device in cluster.compute_devices:
        if device.kind == "GPU" and device.name in plan.devices:
            info = tf.config.experimental.get_memory_info(f"GPU:{device.index}")
            found.append((device.name, int(info["peak"])))
    return tuple(found)
