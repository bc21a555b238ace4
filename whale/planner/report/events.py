"""The timeline of a report: events of the simulation, told by replica, and no more of them than can be looked at."""

from __future__ import annotations

from collections.abc import Sequence

from whale.cost_model import Event, ParallelPlan
from whale.planner.report.report import Timeline, TimelineEvent

MOST_KINDS = 8
"""Sets of equal replicas whose timelines are kept."""


def make_timeline(events: Sequence[Event], plan: ParallelPlan, like: Sequence[int], most: int) -> Timeline:
    """The timeline of a simulated step.

    Args:
        events: of one replica of each set of equal ones; what is done once a step is told of the first alone.
        plan: the plan that was simulated.
        like: for each replica the first one that is equal to it.
        most: events to keep.
    """
    kinds = sorted(set(like))
    told = _told_of_each(events, plan, kinds)
    ends = dict.fromkeys(kinds, 0.0)
    for event in told:
        if event.micro_batch >= 0:
            ends[event.replica] = max(ends[event.replica], event.end)
    shown = tuple(sorted(sorted(kinds, key=lambda kind: (-ends[kind], kind))[:MOST_KINDS]))
    kept = sorted((e for e in told if e.replica in shown), key=_order)
    kept, gap = _without_middle(kept, most)
    return Timeline(tuple(kept), gap, shown, len(kinds))


def _told_of_each(events: Sequence[Event], plan: ParallelPlan, kinds: Sequence[int]) -> list[TimelineEvent]:
    """The events by replica. All replicas reduce and update together, so each gets those events."""
    replica_of = {device: r for stage in plan.stages for r, group in enumerate(stage.replicas) for device in group}
    turned = {
        (replica_of[event.devices[0]], event.stage, event.micro_batch): event.end
        for event in events
        if event.kind == "backward"
    }
    told: list[TimelineEvent] = []
    for event in events:
        replica = replica_of[event.devices[0]]
        target = -1
        if event.kind == "send":
            # Activations have arrived before the same stage ends its backward pass: what leaves it then are gradients.
            back = event.start >= turned.get((replica, event.stage, event.micro_batch), float("inf"))
            target = event.stage - 1 if back else event.stage + 1
        for each in kinds if event.micro_batch < 0 else [replica]:
            told.append(TimelineEvent(event.kind, each, event.stage, target, event.micro_batch, event.start, event.end))
    return told


def _order(event: TimelineEvent) -> tuple[float, float, str, int, int, int]:
    return (event.start, event.end, event.kind, event.replica, event.stage, event.micro_batch)


def _without_middle(events: list[TimelineEvent], most: int) -> tuple[list[TimelineEvent], tuple[float, float] | None]:
    """The beginning and the end of a long step, and the stretch between them of which nothing is kept."""
    half = most // 2
    if len(events) <= most or half < 1:
        return events, None
    first_end = sorted(event.end for event in events)[half]
    last_start = sorted(event.start for event in events)[-half - 1]
    begin = [event for event in events if event.end < first_end]
    finish = [event for event in events if event.start > last_start]
    if not begin or not finish or first_end >= last_start:
        return events, None
    gap = (max(event.end for event in begin), min(event.start for event in finish))
    return begin + finish, gap
