"""Whether the parts of a report that was read belong together: numbers count up, names and places exist."""

from __future__ import annotations

from collections.abc import Iterator

from whale.errors import PlanError
from whale.planner.report.report import PlanReport

KINDS = ("forward", "backward", "send", "reduce", "update")
"""Of events."""


def check_references(report: PlanReport) -> None:
    """Raises PlanError where a part of a report names another that it does not have; all faults are told."""
    faults = list(_faults(report))
    if faults:
        more = f"\n  and {len(faults) - 10} more" if len(faults) > 10 else ""
        raise PlanError("a report whose parts do not fit:\n  " + "\n  ".join(faults[:10]) + more)


def _faults(report: PlanReport) -> Iterator[str]:
    stages, replicas = len(report.stages), len(report.replicas)
    names = {device.name for device in report.devices}
    if len(names) != len(report.devices):
        yield "two devices have one name"
    if not stages or not replicas:
        yield f"it has {stages} stages and {replicas} replicas"
    if not 1 <= report.rows <= max(stages, 1):
        yield f"{report.rows} of {stages} stages have devices of their own"
    for number, stage in enumerate(report.stages):
        if stage.number != number:
            yield f"stage {number} has the number {stage.number}"
        if len(stage.devices) != replicas or not all(stage.devices):
            yield f"stage {number} has devices for {sum(map(bool, stage.devices))} of {replicas} replicas"
        if not 0 <= stage.start < stage.stop:
            yield f"stage {number} has the blocks {stage.start} to {stage.stop}"
        for device in (d for group in stage.devices for d in group if d not in names):
            yield f"stage {number} is on {device!r}, which is not listed"
    for number, replica in enumerate(report.replicas):
        if replica.number != number or not 0 <= replica.like <= number:
            yield f"replica {number} has the number {replica.number} and is like {replica.like}"
    for device in report.devices:
        if any(not 0 <= stage < stages for stage in device.stages):
            yield f"device {device.name!r} holds the stages {list(device.stages)} of {stages}"
    timeline = report.timeline
    yield from (f"the timeline shows replica {r} of {replicas}" for r in timeline.replicas if not 0 <= r < replicas)
    if timeline.gap is not None:
        begin, end = timeline.gap
        if not 0 <= begin <= end <= max((event.end for event in timeline.events), default=0.0):
            yield f"the timeline leaves out {begin} to {end} seconds, which is not within it"
    for event in timeline.events:
        where = (event.stage, event.target if event.kind == "send" else 0)
        if event.kind not in KINDS or event.replica not in timeline.replicas or any(not 0 <= s < stages for s in where):
            yield f"an event {event.kind!r} of replica {event.replica}, stage {event.stage}, to {event.target}"
        elif not 0 <= event.start <= event.end:
            yield f"an event from {event.start} to {event.end} seconds"
