"""Events side by side: lanes in which none overlaps with another."""

from __future__ import annotations

from collections.abc import Iterable

from whale.planner.report.report import TimelineEvent


def without_overlap(events: Iterable[TimelineEvent]) -> tuple[tuple[TimelineEvent, ...], ...]:
    """Hands each event to the first lane that is free at its start; as few lanes as there can be."""
    lanes: list[list[TimelineEvent]] = []
    for event in sorted(events, key=lambda e: (e.start, e.end)):
        free = next((lane for lane in lanes if lane[-1].end <= event.start), None)
        if free is None:
            lanes.append([event])
        else:
            free.append(event)
    return tuple(tuple(lane) for lane in lanes)
