"""The timeline as a chart: lanes of bars in percent of its width, so that a page can draw it at any size."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from whale.planner.report.folds import replica_devices
from whale.planner.report.lanes import without_overlap
from whale.planner.report.ranges import range_words
from whale.planner.report.report import PlanReport, TimelineEvent
from whale.planner.report.trace import event_name
from whale.planner.report.words import counted, seconds_words

MOST_LANES = 32
"""Lanes of devices; of more, those in the middle are left out."""

_GAP = 4.0
"""Width of the stretch that is not shown, in percent."""

_LETTER = 0.8
"""Width of a letter in percent, on a wide screen; three times that on a narrow one."""


@dataclasses.dataclass(frozen=True)
class ChartBar:
    """One event; places in percent of the width."""

    kind: str
    x: float
    width: float
    title: str
    label: str
    """Empty where there is no room."""
    wide: bool
    """Whether there is room for the label on a narrow screen, too."""
    row: int = 0
    """Rows of transfers that overlap, from 0."""

    @property
    def middle(self) -> float:
        """Where its label is centred."""
        return self.x + self.width / 2


@dataclasses.dataclass(frozen=True)
class ChartLane:
    """What one device does, and below it what it sends and reduces."""

    name: str
    detail: str
    equal: str
    """How many replicas share it; empty for one."""
    bars: tuple[ChartBar, ...]
    transfers: tuple[ChartBar, ...]
    rows: int
    """Rows of transfers."""


@dataclasses.dataclass(frozen=True)
class Chart:
    """A step over time."""

    lanes: tuple[ChartLane, ...]
    hidden: int
    """Lanes in the middle that are left out; they would stand before ``lanes[len(lanes) // 2]``."""
    ticks: tuple[tuple[float, str], ...]
    """(place, label)."""
    gap: tuple[float, float] | None
    """(place, width) of the stretch that is not shown."""


class _Scale:
    """Seconds to percent of the width."""

    def __init__(self, seconds: float, gap: tuple[float, float] | None) -> None:
        self.gap = gap
        self.shown = seconds - (gap[1] - gap[0] if gap else 0.0)
        self.room = 100.0 - (_GAP if gap else 0.0)

    def place(self, seconds: float) -> float:
        if self.shown <= 0:
            return 0.0
        if self.gap is None or seconds <= self.gap[0]:
            return seconds / self.shown * self.room
        begin, end = self.gap
        after = max(seconds - end, 0.0)
        return (begin + after) / self.shown * self.room + _GAP

    def in_gap(self, seconds: float) -> bool:
        return self.gap is not None and self.gap[0] < seconds < self.gap[1]


def make_chart(report: PlanReport) -> Chart:
    """The chart of a report's timeline."""
    timeline = report.timeline
    last = max((event.end for event in timeline.events), default=0.0)
    seconds = max(report.prediction.step_seconds, last)
    scale = _Scale(seconds, timeline.gap)
    places = [(replica, row) for replica in timeline.replicas for row in range(report.rows)]
    hidden = max(len(places) - MOST_LANES, 0)
    if hidden:
        places = places[: MOST_LANES // 2] + places[-MOST_LANES // 2 :]
    events: dict[tuple[int, int], list[TimelineEvent]] = {place: [] for place in places}
    for event in timeline.events:
        if (event.replica, event.stage % report.rows) in events:
            events[event.replica, event.stage % report.rows].append(event)
    gap = (scale.place(timeline.gap[0]), _GAP) if timeline.gap else None
    lanes = tuple(_lane(report, scale, *place, events[place]) for place in places)
    return Chart(lanes, hidden, tuple(_ticks(seconds, scale)), gap)


def _lane(report: PlanReport, scale: _Scale, replica: int, row: int, events: Sequence[TimelineEvent]) -> ChartLane:
    links = [event for event in events if event.kind in ("send", "reduce")]
    bars = tuple(_bar(report, scale, event) for event in events if event.kind not in ("send", "reduce"))
    rows = without_overlap(links)
    transfers = tuple(_bar(report, scale, event, number) for number, lane in enumerate(rows) for event in lane)
    equal = tuple(other.number for other in report.replicas if other.like == replica)
    devices = replica_devices(report, equal, row)
    numbers = range(row, len(report.stages), report.rows)
    name = " + ".join(report.stages[number].name for number in numbers)
    hosts = len({device.host for device in report.devices})
    detail = range_words(devices, hosts, most=2)
    shared = counted(len(equal), "equal replica") if len(equal) > 1 else ""
    return ChartLane(name, detail, shared, bars, transfers, len(rows))


def _bar(report: PlanReport, scale: _Scale, event: TimelineEvent, row: int = 0) -> ChartBar:
    x = scale.place(event.start)
    width = max(scale.place(event.end) - x, 0.06)
    words = {
        "forward": f"forward pass of micro-batch {event.micro_batch}",
        "backward": f"backward pass of micro-batch {event.micro_batch}",
        "send": f"micro-batch {event.micro_batch} is sent on",
        "reduce": "gradients are summed over the replicas",
        "update": "update of the variables",
    }
    what = words[event.kind]
    if event.target >= 0:
        what = f"micro-batch {event.micro_batch} is sent to {report.stages[event.target].name}"
    span = f"{seconds_words(event.end - event.start)}, from {seconds_words(event.start)} to {seconds_words(event.end)}"
    title = f"{report.stages[event.stage].name}: {what}, {span}"
    label = event_name(event) if event.kind in ("forward", "backward") else ""
    room = (len(label) + 0.5) * _LETTER
    label = label if width >= room else ""
    return ChartBar(event.kind, round(x, 3), round(width, 3), title, label, width >= 3 * room, row)


def _ticks(seconds: float, scale: _Scale) -> list[tuple[float, str]]:
    if scale.shown <= 0:
        return []
    rough = scale.shown / 6
    size = 10 ** math.floor(math.log10(rough))
    pace = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
    ticks: list[tuple[float, str]] = []
    for number in range(int(seconds / pace) + 1):
        at = number * pace
        place = scale.place(at)
        if not scale.in_gap(at) and (not ticks or place - ticks[-1][0] > 5):
            ticks.append((round(place, 3), _tick_words(at)))
    return ticks


def _tick_words(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size * 0.9999:
            return f"{seconds / size:.4g} {unit}"
    return "0"
