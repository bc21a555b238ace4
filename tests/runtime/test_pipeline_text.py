"""What the plan says of a pipeline's devices."""

from __future__ import annotations

import pytest

from whale.ir.schedules import one_f_one_b
from whale.ir.task_graphs import Stage, TaskGraphs
from whale.rewriter.mesh import Pipeline
from whale.runtime.pipeline_text import pipeline_lines


@pytest.mark.parametrize("idle", [(), ("cpu2",)])
def test_devices_without_a_stage_are_named(idle: tuple[str, ...]) -> None:
    stages = TaskGraphs((Stage(frozenset({0})), Stage(frozenset({1}))), {})
    pipeline = Pipeline(stages, (("cpu0", "cpu0"), ("cpu1", "cpu1")), 2, one_f_one_b(2, 2), idle)
    lines = pipeline_lines(pipeline, local=False)
    assert [line for line in lines if line.startswith("idle")] == [
        f"idle: {device} (more devices than stages, and one replica)" for device in idle
    ]
