"""Bars of a page: a step by what takes its time, memory against its limit, other plans against this one."""

from __future__ import annotations

import dataclasses

from whale.planner.report.folds import DeviceFold, fold_devices
from whale.planner.report.ranges import range_words
from whale.planner.report.report import OtherPlan, PlanReport
from whale.planner.report.sentences import verdict
from whale.planner.report.words import bytes_words, counted, part_words, seconds_words

MEMORY_KINDS = (
    ("parameters", "parameters"),
    ("gradients", "gradients"),
    ("slots", "optimizer slots"),
    ("activations", "activations"),
    ("workspace", "workspace"),
    ("runtime", "TensorFlow"),
)
"""(field, name) in the order in which they are stacked."""

MOST_METERS = 24
"""Bars; of more sets of equal devices, those that fill their limits least are left out."""

_LONGEST = 3.0
"""A plan whose step takes more than so many times this plan's has a bar that is cut off."""


@dataclasses.dataclass(frozen=True)
class Piece:
    """Part of a bar, in percent of the longest."""

    kind: str
    width: float
    title: str


@dataclasses.dataclass(frozen=True)
class Meter:
    """Memory of equal devices."""

    names: str
    detail: str
    value: str
    track: float
    """Its limit, in percent of the largest."""
    pieces: tuple[Piece, ...]
    """In percent of the largest limit."""
    measured: float | None
    """Place of the measured peak, in percent of the largest limit."""
    measured_words: str


@dataclasses.dataclass(frozen=True)
class Contender:
    """A plan beside this one."""

    name: str
    layout: str
    step: str
    width: float
    """In percent; 0 for one that does not fit."""
    cut: bool
    """Whether the bar would be longer."""
    state: str
    """``best``, ``slower``, ``refused`` or ``misfit``."""
    verdict: str


def make_step_parts(report: PlanReport) -> tuple[Piece, ...]:
    """What a step's time goes to."""
    predicted = report.prediction
    parts = (
        ("compute", predicted.compute_seconds, "computing on the busiest device"),
        ("reduce", predicted.reduce_seconds, "summing gradients, not hidden by computing"),
        ("other", predicted.other_seconds, "waiting, updating, starting"),
    )
    total = sum(seconds for _, seconds, _ in parts)
    return tuple(
        Piece(kind, _percent(seconds, total), f"{seconds_words(seconds)} {what} ({part_words(seconds / total)})")
        for kind, seconds, what in parts
        if seconds and total
    )


def make_meters(report: PlanReport) -> tuple[Meter, ...]:
    """One bar for each set of equal devices; of many sets those with most in use."""
    folds = fold_devices(report)
    sizes = [f.first.limit_bytes or (f.first.memory.total if f.first.memory else 0.0) for f in folds]
    largest = max([*sizes, *(f.first.memory.total for f in folds if f.first.memory)])
    fullest = sorted(range(len(folds)), key=lambda n: (-_fullness(folds[n]), n))[:MOST_METERS]
    return tuple(_meter(report, folds[number], largest) for number in sorted(fullest))


def _fullness(fold: DeviceFold) -> float:
    """How much of its limit is used, or bytes in terabytes where no limit is known."""
    first = fold.first
    return first.memory.total / (first.limit_bytes or 2**40) if first.memory is not None else 0.0


def _meter(report: PlanReport, fold: DeviceFold, largest: float) -> Meter:
    first, use = fold.first, fold.first.memory
    names = range_words(fold.devices, len({device.host for device in report.devices}))
    many = len(fold.devices) > 1
    held = "idle" if first.idle else ", ".join(report.stages[number].name for number in first.stages)
    detail = f"{first.model}, {held}" + (f", {counted(len(fold.devices), 'device')}" if many else "")
    limit = f" of {bytes_words(first.limit_bytes)}" if first.limit_bytes is not None else ", limit not known"
    pieces: list[Piece] = []
    value = f"0 B{limit}"
    if use is not None:
        value = f"{bytes_words(use.total)}{limit}"
        for field, name in MEMORY_KINDS:
            size = float(getattr(use, field))
            if size:
                pieces.append(Piece(field, _percent(size, largest), f"{name}: {bytes_words(size)}"))
    peak = fold.measured_bytes
    return Meter(
        names=names,
        detail=detail,
        value=value,
        track=_percent(first.limit_bytes or 0, largest),
        pieces=tuple(pieces),
        measured=min(_percent(peak, largest), 100.0) if peak is not None else None,
        measured_words=f"measured {bytes_words(peak)}" if peak is not None else "",
    )


def make_contenders(report: PlanReport) -> tuple[Contender, ...]:
    """This plan and the others, in the order of the report."""
    best = report.prediction.step_seconds
    times = [best, *(o.step_seconds for o in report.runners_up if o.step_seconds is not None)]
    longest = min(max(times), _LONGEST * best)
    words = seconds_words(best)
    first = Contender(report.family, report.layout, words, _percent(best, longest), False, "best", "this plan")
    return (first, *(_contender(report, other, longest) for other in report.runners_up))


def _contender(report: PlanReport, other: OtherPlan, longest: float) -> Contender:
    seconds = other.step_seconds
    if seconds is None or not other.fits:
        return Contender(other.name, other.layout, "", 0.0, False, "misfit", verdict(other, report))
    state = "refused" if other.refused else "slower"
    width = min(_percent(seconds, longest), 100.0)
    words = seconds_words(seconds)
    return Contender(other.name, other.layout, words, width, seconds > longest, state, verdict(other, report))


def _percent(part: float, whole: float) -> float:
    return round(100 * part / whole, 3) if whole else 0.0
