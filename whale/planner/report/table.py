"""A report as text for a terminal: readable from 80 columns, short for a thousand devices."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TypeVar

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from whale.planner.report.folds import DeviceFold, fold_devices, fold_replicas, replica_devices
from whale.planner.report.ranges import number_ranges, range_words
from whale.planner.report.report import OtherPlan, PlanReport, StageFacts
from whale.planner.report.sentences import answer, reasons, verdict
from whale.planner.report.words import (
    RECOMPUTATIONS,
    SCHEDULES,
    bytes_words,
    counted,
    difference_words,
    gibibytes_words,
    number_words,
    part_words,
    seconds_words,
)

MOST_ROWS = 24
"""A table with more rows leaves out those in its middle."""

MOST_RUNNERS_UP = 8

_Item = TypeVar("_Item")


def to_text(report: PlanReport, width: int = 100) -> str:
    """A report as plain text of so many columns, without colours."""
    return plain_text(to_tables(report), width)


def plain_text(shown: RenderableType, width: int) -> str:
    """What ``rich`` would print, without colours and without blanks at line ends."""
    file = io.StringIO()
    Console(file=file, width=width, color_system=None, legacy_windows=False).print(shown)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def to_tables(report: PlanReport) -> Group:
    """A report for ``rich`` to print; plain where its console is not a terminal."""
    parts: list[RenderableType] = [Text(f"Plan of {report.title}", style="bold"), Text(answer(report)), Text()]
    parts.append(Padding(_bullets(reasons(report)), (0, 0, 0, 2)))
    for heading, content in (
        ("Model", _model(report)),
        ("One step, predicted", _prediction(report)),
        ("TaskGraphs", _stages(report)),
        ("Replicas", _replicas(report)),
        ("Memory of a device, in GiB", _memory(report)),
        ("Other ways, each at its best", _runners_up(report)),
        ("Search", _search(report)),
    ):
        if content is not None:
            parts += [Text(), Text(heading, style="bold"), Padding(content, (0, 0, 0, 2))]
    return Group(*parts)


def simple_table(*headings: str) -> Table:
    """An empty table in the report's look."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def _facts(rows: Sequence[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(Text(name), Text(value))
    return table


def _bullets(lines: Sequence[str]) -> Table:
    table = Table.grid(padding=(0, 1))
    for line in lines:
        table.add_row("-", Text(line))
    return table


def _model(report: PlanReport) -> Table:
    graph = report.graph
    size = f"{counted(graph.variables, 'variable')} of {bytes_words(graph.parameter_bytes)}"
    rows = [
        ("graph", f"{counted(graph.operations, 'op')}, {size}"),
        ("batch", f"{report.batch:,} samples a step, {graph.batch_mode}"),
    ]
    rows += [("note", note) for note in graph.notes]
    rows += [("results", line) for line in report.numerics]
    return _facts(rows)


def _prediction(report: PlanReport) -> Table:
    predicted = report.prediction
    step = seconds_words(predicted.step_seconds)
    if report.measured is not None and report.measured.step_seconds is not None:
        seconds = report.measured.step_seconds
        difference = difference_words(seconds, predicted.step_seconds)
        step += f"; measured {seconds_words(seconds)}, {difference} than predicted" if difference != "as fast" else ""
    rows = [
        ("step", step),
        ("computing", f"{seconds_words(predicted.compute_seconds)} on the busiest device"),
        ("reducing", f"{seconds_words(predicted.reduce_seconds)} that no computation hides"),
        ("other", f"{seconds_words(predicted.other_seconds)} waiting, updating, starting"),
    ]
    if report.rows > 1:
        rows.append(("bubble", f"{part_words(predicted.bubble)} of the pipeline's time is spent waiting"))
        rows.append(("schedule", SCHEDULES.get(report.schedule, report.schedule)))
    rows += [
        ("micro-batches", f"{report.micro_batches:,}"),
        ("recomputation", RECOMPUTATIONS.get(report.recomputation, report.recomputation)),
        ("precision", report.precision),
    ]
    return _facts(rows)


def _stages(report: PlanReport) -> Table:
    table = simple_table("", "TaskGraph", "blocks", "work", "parameters", "operators", "devices")
    for number in (0, 3, 4):
        table.columns[number].justify = "right"
    for stage in _ends(report.stages):
        if stage is None:
            table.add_row("...", f"{len(report.stages) - MOST_ROWS} more")
            continue
        everyone = tuple(range(len(report.replicas)))
        table.add_row(
            str(stage.number),
            Text(stage.name),
            Text(blocks_words(stage)),
            part_words(stage.work),
            bytes_words(stage.parameter_bytes),
            stage.divided,
            Text(range_words(replica_devices(report, everyone, stage.number), host_count(report))),
        )
    return table


def blocks_words(stage: StageFacts) -> str:
    """The blocks of a stage: ``0-7: embeddings to layer_1, 6 repeats``."""
    numbers = str(stage.start) if stage.blocks == 1 else f"{stage.start}-{stage.stop - 1}"
    names = stage.first if stage.first == stage.last else f"{stage.first} to {stage.last}"
    return f"{numbers}: {names}" + (f", {counted(stage.folded, 'repeat')}" if stage.folded else "")


def _replicas(report: PlanReport) -> Table | None:
    if len(report.replicas) == 1:
        return None
    table = simple_table("replicas", "samples a step", "of the batch", "devices")
    table.columns[1].justify = table.columns[2].justify = "right"
    folds = fold_replicas(report)
    for fold in _ends(folds):
        if fold is None:
            table.add_row("...", f"{len(folds) - MOST_ROWS} more")
            continue
        first = report.replicas[fold[0]]
        each = " each" if len(fold) > 1 else ""
        devices = range_words(replica_devices(report, fold), host_count(report))
        table.add_row(
            number_ranges(fold), number_words(first.samples) + each, part_words(first.part) + each, Text(devices)
        )
    return table


def _memory(report: PlanReport) -> Table:
    folds = fold_devices(report)
    measured = any(fold.measured_bytes is not None for fold in folds)
    headings = ["devices", "param", "grad", "slots", "activ", "work", "TF", "all", "limit"]
    table = simple_table(*headings, *(["measured"] if measured else []))
    for column in table.columns[1:]:
        column.justify, column.no_wrap = "right", True
    for fold in _ends(folds):
        if fold is None:
            table.add_row("...", f"{len(folds) - MOST_ROWS} more")
            continue
        table.add_row(*_memory_row(report, fold, measured))
    return table


def _memory_row(report: PlanReport, fold: DeviceFold, measured: bool) -> list[Text | str]:
    first, use = fold.first, fold.first.memory
    names = range_words(fold.devices, host_count(report))
    cells: list[Text | str] = [Text(f"{names}, {first.model}" if use is not None else f"{names}, {first.model}, idle")]
    if use is None:
        cells += ["-"] * 7
    else:
        sizes = (use.parameters, use.gradients, use.slots, use.activations, use.workspace, use.runtime, use.total)
        cells += [gibibytes_words(size) for size in sizes]
    cells.append("?" if first.limit_bytes is None else gibibytes_words(first.limit_bytes))
    if measured:
        cells.append(gibibytes_words(fold.measured_bytes) if fold.measured_bytes is not None else "-")
    return cells


def _runners_up(report: PlanReport) -> Table | None:
    if not report.runners_up:
        return None
    table = simple_table("divided by", "step", "against this plan", "layout")
    table.columns[1].justify = "right"
    shown = report.runners_up[:MOST_RUNNERS_UP]
    for other in shown:
        table.add_row(Text(other.name), _step(other), Text(verdict(other, report)), Text(other.layout))
    if len(report.runners_up) > len(shown):
        table.add_row("...", "", f"{len(report.runners_up) - len(shown)} more")
    return table


def _step(other: OtherPlan) -> str:
    return "-" if other.step_seconds is None else seconds_words(other.step_seconds)


def _search(report: PlanReport) -> Table:
    search = report.search
    phases = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in search.phases)
    kind = "every plan looked at or ruled out" if search.exact else "the best of those looked at"
    return _facts([("answer", kind), ("simulated", f"{search.simulated:,} plans"), ("time", phases or "not told")])


def _ends(items: Sequence[_Item]) -> list[_Item | None]:
    """All items, or those at both ends with None between them."""
    if len(items) <= MOST_ROWS:
        return list(items)
    half = MOST_ROWS // 2
    return [*items[:half], None, *items[-half:]]


def host_count(report: PlanReport) -> int:
    """Hosts of the cluster."""
    return len({device.host for device in report.devices})
