"""What a profile found, for a terminal."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from whale.cost_model.calibration import Calibration, Kernel, predicted_seconds
from whale.errors import Site
from whale.planner.report.table import simple_table
from whale.planner.report.words import counted, difference_words, part_words, seconds_words
from whale.runtime.profiling.kernels import StepParts

SLOWEST = 10
"""Ops that are listed each by itself."""


@dataclasses.dataclass(frozen=True)
class Profile:
    """A finished profile."""

    title: str
    """The script."""
    steps: int
    """Steps that were timed, and that were traced."""
    calibration: Calibration
    parts: StepParts
    notes: tuple[str, ...]


def profile_tables(profile: Profile) -> Group:
    """A profile for ``rich`` to print; plain where its console is not a terminal."""
    measured = profile.calibration.measured
    title = f"Profile of {profile.title}"
    what = (
        f"{counted(profile.steps, 'step')} of {counted(measured.samples, 'sample')} timed, as many traced, on "
        f"{measured.model}."
    )
    parts: list[RenderableType] = [Text(title, style="bold"), Text(what)]
    for heading, content in (
        ("One step", _step(profile)),
        ("Ops of a step by class", _classes(profile)),
        ("Slowest ops", _slowest(profile)),
        ("Calibration", _numbers(profile)),
    ):
        parts += [Text(), Text(heading, style="bold"), Padding(content, (0, 0, 0, 2))]
    if profile.notes:
        parts += [Text(), *(Text(f"  - {note}") for note in profile.notes)]
    return Group(*parts)


def _step(profile: Profile) -> Table:
    calibration, measured = profile.calibration, profile.calibration.measured
    ops = sum(_whole(kernel) for kernel in measured.kernels)
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")

    def against(seconds: float) -> str:
        return f"{seconds_words(seconds)}, {difference_words(seconds, measured.step_seconds)}"

    table.add_row("measured", seconds_words(measured.step_seconds))
    table.add_row("shipped tables", against(calibration.shipped_step_seconds))
    table.add_row("calibrated", against(calibration.fitted_step_seconds))
    table.add_row("ops", f"{seconds_words(ops)}, {part_words(ops / measured.step_seconds)} of the measured step")
    rest = max(measured.step_seconds - ops, 0.0)
    table.add_row("the rest", f"{seconds_words(rest)} host: feeding, fetching, waiting for input, ops not counted")
    return table


def _classes(profile: Profile) -> Table:
    calibration = profile.calibration
    kernels = calibration.measured.kernels
    shipped = calibration.predicted(calibration.shipped)
    fitted = calibration.predicted(calibration.merged)
    table = _numbers_table(("class",), ("ops", "measured", "shipped tables", "calibrated"))
    rows: dict[str, list[float]] = {}
    for kernel, before, after in zip(kernels, shipped, fitted):
        row = rows.setdefault(kernel.work_class.value.replace("_", " "), [0, 0.0, 0.0, 0.0])
        for place, value in enumerate((1, _whole(kernel), before * kernel.runs, after * kernel.runs)):
            row[place] += value
    for name, row in sorted(rows.items(), key=lambda item: -item[1][1]):
        table.add_row(name, f"{row[0]:,.0f}", *(seconds_words(seconds) for seconds in row[1:]))
    if profile.parts.removed:
        work = [each for _, each in profile.parts.removed]
        predicted = [
            sum(predicted_seconds(calibration.measured, work, coefficients, calibration.catalogue))
            for coefficients in (calibration.shipped, calibration.merged)
        ]
        table.add_row("did not run", f"{len(work):,}", "-", *(seconds_words(seconds) for seconds in predicted))
    return table


def _slowest(profile: Profile) -> Table:
    calibration = profile.calibration
    fitted = calibration.predicted(calibration.merged)
    table = _numbers_table(("op", "type"), ("measured", "calibrated"), ("line",))
    pairs = sorted(zip(calibration.measured.kernels, fitted), key=lambda pair: -_whole(pair[0]))
    for kernel, seconds in pairs[:SLOWEST]:
        measured, predicted = seconds_words(_whole(kernel)), seconds_words(seconds * kernel.runs)
        table.add_row(kernel.name, kernel.type, measured, predicted, _line(kernel.site))
    return table


def _numbers(profile: Profile) -> Table:
    calibration = profile.calibration
    table = _numbers_table(("coefficient",), ("shipped", "calibrated", "from"))
    for name, coefficient in calibration.fitted.values.items():
        shipped = f"{calibration.shipped.get(name):.4g}" if calibration.shipped.known(name) else "-"
        rows = counted(coefficient.rows, "op") if not name.endswith("/step") else counted(profile.steps, "step")
        table.add_row(name, shipped, f"{coefficient.value:.4g}", rows)
    for name in calibration.untold:
        shipped = f"{calibration.shipped.get(name):.4g}" if calibration.shipped.known(name) else "-"
        table.add_row(name, shipped, "not measured", "0 ops")
    return table


def _numbers_table(first: tuple[str, ...], numbers: tuple[str, ...], last: tuple[str, ...] = ()) -> Table:
    table = simple_table()
    for heading in first:
        table.add_column(heading, overflow="fold")
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in last:
        table.add_column(heading, overflow="fold")
    return table


def _line(site: Site | None) -> str:
    """A place in the user's source, relative to the working folder where it is in it."""
    if site is None:
        return ""
    path = os.path.relpath(site.path) if Path(site.path).is_relative_to(Path.cwd()) else site.path
    return f"{path}:{site.line}"


def _whole(kernel: Kernel) -> float:
    """Seconds of all its runs in a step."""
    return kernel.seconds * kernel.runs
