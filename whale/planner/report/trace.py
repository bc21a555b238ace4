"""A report's timeline as Chrome trace events, which Perfetto and chrome://tracing open.

One process a host and one thread a device; transfers and reductions have rows of their own in a last process, since
they overlap with what their devices do. Format: "Trace Event Format", Google, 2016, complete events and metadata.
"""

from __future__ import annotations

import dataclasses

from whale.planner.report.lanes import without_overlap
from whale.planner.report.report import DeviceFacts, PlanReport, TimelineEvent

MOST_EVENTS = 200_000
"""A trace of more is of one replica for each set of equal ones."""

_COLOURS = {
    "forward": "thread_state_running",
    "backward": "thread_state_runnable",
    "send": "thread_state_iowait",
    "reduce": "good",
    "update": "startup",
}
"""Names of the format's fixed palette."""

_COMPUTE = ("forward", "backward", "update")


@dataclasses.dataclass(frozen=True)
class _Row:
    """A thread and its events."""

    process: int
    name: str
    events: tuple[TimelineEvent, ...]


def to_trace(report: PlanReport, most_events: int = MOST_EVENTS) -> dict[str, object]:
    """The trace as what ``json.dumps`` takes; times in microseconds from the start of the step.

    Equal replicas get the events of the one that was simulated, unless that makes more than ``most_events``.
    """
    hosts = list(dict.fromkeys(device.host for device in report.devices))
    processes = {host: number for number, host in enumerate(hosts, 1)}
    links = len(hosts) + 1
    rows = _device_rows(report, processes, most_events) + _link_rows(report, links)
    made: list[dict[str, object]] = []
    for name, process in (*processes.items(), ("links (transfers, reductions)", links)):
        made.append(_metadata("process_name", process, 0, name=name))
        made.append(_metadata("process_sort_index", process, 0, sort_index=process))
    complete: list[tuple[int, int, int, dict[str, object]]] = []
    threads: dict[int, int] = {}
    for row in rows:
        thread = threads[row.process] = threads.get(row.process, 0) + 1
        made.append(_metadata("thread_name", row.process, thread, name=row.name))
        made.append(_metadata("thread_sort_index", row.process, thread, sort_index=thread))
        for event in row.events:
            begin = _nanoseconds(event.start)
            complete.append((begin, row.process, thread, _complete(event, report, row.process, thread)))
    complete.sort(key=lambda found: found[:3])
    made.extend(event for _, _, _, event in complete)
    facts: dict[str, object] = {
        "script": report.title,
        "plan": report.layout,
        "step_seconds": report.prediction.step_seconds,
        "predicted": True,
    }
    if report.timeline.gap is not None:
        facts["not_shown_seconds"] = list(report.timeline.gap)
    return {"traceEvents": made, "displayTimeUnit": "ms", "otherData": facts}


def _device_rows(report: PlanReport, processes: dict[str, int], most_events: int) -> list[_Row]:
    by_place: dict[tuple[int, int], list[TimelineEvent]] = {}
    for event in report.timeline.events:
        if event.kind in _COMPUTE:
            by_place.setdefault((event.replica, event.stage % report.rows), []).append(event)
    copies = sum(len(by_place.get(place, ())) for place in _places(report, every=True).values())
    places = _places(report, every=copies <= most_events)
    return [
        _Row(processes[device.host], _thread_name(device), tuple(by_place.get(places.get(device.name, (-1, -1)), ())))
        for device in report.devices
    ]


def _places(report: PlanReport, every: bool) -> dict[str, tuple[int, int]]:
    """For each device the replica and row whose events it has: its own or, for ``every``, those of an equal one."""
    return {
        device: (replica.like, row)
        for row, stage in enumerate(report.stages[: report.rows])
        for replica in report.replicas
        if every or replica.number == replica.like
        for device in stage.devices[replica.number]
    }


def _link_rows(report: PlanReport, process: int) -> list[_Row]:
    of_name = {device.name: device for device in report.devices}
    found: dict[str, list[TimelineEvent]] = {}
    for event in report.timeline.events:
        if event.kind == "send":
            ends = (report.stages[stage].devices[event.replica][0] for stage in (event.stage, event.target))
            found.setdefault(" to ".join(_device_name(of_name[name]) for name in ends), []).append(event)
        elif event.kind == "reduce" and event.replica == report.timeline.replicas[0]:
            # All replicas take part in it, so it is told once.
            found.setdefault(f"reduce gradients of {report.stages[event.stage].name}", []).append(event)
    rows: list[_Row] = []
    for name, events in found.items():
        for number, lane in enumerate(without_overlap(events)):
            rows.append(_Row(process, name if not number else f"{name} ({number + 1})", lane))
    return sorted(rows, key=lambda row: row.events[0].kind == "reduce")


def _complete(event: TimelineEvent, report: PlanReport, process: int, thread: int) -> dict[str, object]:
    # Both ends are rounded to nanoseconds, so that what follows without a pause still does.
    begin, end = _nanoseconds(event.start), _nanoseconds(event.end)
    return {
        "ph": "X",
        "name": event_name(event),
        "cat": event.kind,
        "pid": process,
        "tid": thread,
        "ts": begin / 1000,
        "dur": (end - begin) / 1000,
        "cname": _COLOURS[event.kind],
        "args": {"stage": report.stages[event.stage].name, "replica": event.replica, "micro_batch": event.micro_batch},
    }


def event_name(event: TimelineEvent) -> str:
    """What an event is called: ``F3`` is the forward pass of micro-batch 3, ``B3`` the backward pass."""
    if event.kind in ("forward", "backward"):
        return f"{event.kind[0].upper()}{event.micro_batch}"
    return f"send {event.micro_batch}" if event.kind == "send" else event.kind


def _metadata(kind: str, process: int, thread: int, **args: object) -> dict[str, object]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": args}


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


def _device_name(device: DeviceFacts) -> str:
    return f"{device.host} {device.kind}:{device.index}"


def _thread_name(device: DeviceFacts) -> str:
    stages = ", ".join(str(stage) for stage in device.stages)
    held = f"stage {stages}" if len(device.stages) == 1 else f"stages {stages}"
    return f"{device.kind}:{device.index} {device.model}, {'idle' if device.idle else held}"
