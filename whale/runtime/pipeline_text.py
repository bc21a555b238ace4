"""A pipeline in words: its stages, its micro-batches, its schedule as a grid."""

from __future__ import annotations

from whale.ir.program import described
from whale.ir.schedule_text import grid
from whale.rewriter.mesh import Ordered, Pipeline


def pipeline_lines(pipeline: Pipeline, local: bool) -> list[str]:
    """Stages and devices, and what one step is."""
    micro, replicas, stages = pipeline.micro_batches, pipeline.replicas, pipeline.stages
    copies = _counted(micro, "micro-batch", "micro-batches") + (f" x {replicas} replicas" if replicas > 1 else "")
    if local:
        drawn = _counted(micro * replicas, "batch", "batches")
        needed = f" (EPL needs {micro})" if micro > 1 else ""
        lines = [f"batch: local, a step draws {drawn} of the script ({copies}); one run is one update{needed}"]
    else:
        pieces = _counted(micro * replicas, "piece", "pieces")
        lines = [f"batch: global, the script's batch is cut into {pieces} ({copies}); one run is one update"]
    for number, row in enumerate(pipeline.devices):
        joined = stages.joined.get(number, ())
        more = f", {len(joined)} ops without a scope joined it by data flow: {described(joined)}" if joined else ""
        lines.append(f"{stages.title(number)} on {', '.join(dict.fromkeys(row))}{more}")
    if pipeline.idle:
        lines.append(f"idle: {', '.join(pipeline.idle)} (more devices than stages, and one replica)")
    return lines


def order_lines(order: Ordered) -> list[str]:
    """The schedule as a grid, and where it gives way to the values."""
    lines = grid(order.schedule).splitlines()
    for place in order.waits:
        lines.append(f"the schedule gives way: micro-batches wait for one another at {place}")
    return lines


def _counted(count: int, one: str, more: str) -> str:
    return f"{count} {one if count == 1 else more}"
