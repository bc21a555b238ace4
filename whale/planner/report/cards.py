"""The stages of a page as boxes with what crosses between them, and the figures at its top."""

from __future__ import annotations

import dataclasses

from whale.planner.report.folds import replica_devices
from whale.planner.report.ranges import range_words
from whale.planner.report.report import PlanReport, StageFacts
from whale.planner.report.sentences import tightest
from whale.planner.report.table import blocks_words
from whale.planner.report.words import (
    bytes_words,
    counted,
    difference_words,
    number_words,
    part_words,
    rate_words,
    seconds_words,
)

MOST_CARDS = 12
"""Boxes; of more stages, those in the middle are left out."""


@dataclasses.dataclass(frozen=True)
class Tile:
    """A figure at the top of the page."""

    name: str
    value: str
    detail: str
    unit: str = ""


@dataclasses.dataclass(frozen=True)
class Card:
    """The box of one stage."""

    name: str
    blocks: str
    work: float
    """In percent."""
    facts: tuple[tuple[str, str], ...]
    """(name, value) lines."""
    crossing: str
    """Bytes that go on to the next stage; empty behind the last."""
    left_out: int = 0
    """Stages that are not shown between this box and the next."""


def make_tiles(report: PlanReport) -> tuple[Tile, ...]:
    """The figures that matter most."""
    predicted, measured = report.prediction, report.measured
    detail = "predicted"
    if measured is not None and measured.step_seconds is not None:
        difference = difference_words(measured.step_seconds, predicted.step_seconds)
        detail = f"predicted; measured {seconds_words(measured.step_seconds)} ({difference})"
    used, every = len(report.used), len(report.devices)
    rate, _, _ = rate_words(predicted.samples_per_second).partition(" ")
    tiles = [
        Tile("One step", seconds_words(predicted.step_seconds), detail),
        Tile("Speed", rate, f"{number_words(report.batch)} samples a step", "samples/s"),
        Tile("Devices", f"{used:,} of {every:,}", "all in use" if used == every else f"{every - used:,} idle"),
    ]
    fullest = tightest(report)
    if fullest is not None and fullest.memory is not None and fullest.limit_bytes is not None:
        sizes = f"{bytes_words(fullest.memory.total)} of {bytes_words(fullest.limit_bytes)}"
        name = range_words([fullest], len({device.host for device in report.devices}))
        tiles.append(Tile("Fullest memory", part_words(fullest.memory.total / fullest.limit_bytes), f"{sizes}, {name}"))
    if report.rows > 1:
        tiles.append(Tile("Pipeline waits", part_words(predicted.bubble), "of its time (bubble)"))
    return tuple(tiles)


def make_cards(report: PlanReport) -> tuple[Card, ...]:
    """The stages in order."""
    stages = report.stages
    if len(stages) <= MOST_CARDS:
        return tuple(_card(report, stage) for stage in stages)
    half = MOST_CARDS // 2
    first = [_card(report, stage) for stage in stages[:half]]
    first[-1] = dataclasses.replace(first[-1], left_out=len(stages) - 2 * half)
    return (*first, *(_card(report, stage) for stage in stages[-half:]))


def _card(report: PlanReport, stage: StageFacts) -> Card:
    everyone = tuple(range(len(report.replicas)))
    devices = replica_devices(report, everyone, stage.number)
    models = " and ".join(dict.fromkeys(device.model for device in devices))
    hosts = len({device.host for device in report.devices})
    facts = [
        ("Devices", f"{range_words(devices, hosts)} ({models})"),
        ("Parameters", bytes_words(stage.parameter_bytes)),
    ]
    if len(stage.devices[0]) > 1:
        facts.append(("Operators", f"divided over {stage.divided}"))
    if len(report.replicas) > 1:
        copies = counted(len(report.replicas), "replica")
        facts.append(("Gradients", f"{bytes_words(stage.reduced_bytes)} summed over {copies}"))
    crossing = bytes_words(stage.output_bytes) if stage.number + 1 < len(report.stages) else ""
    return Card(stage.name, blocks_words(stage), 100 * stage.work, tuple(facts), crossing)
