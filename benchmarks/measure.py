"""Paired measurements that mean something on a noisy machine, and the table of their results.

A machine whose speed drifts cannot be measured by one time after another. Here the things to compare take turns, round
after round; each round gives one ratio of neighbours in time, and the median of these ratios is reported with its
quartiles.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import resource
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Union

import rich.console
import rich.markup
import rich.table


@dataclasses.dataclass(frozen=True)
class Spread:
    """The middle half of some samples."""

    median: float
    lower_quartile: float
    upper_quartile: float
    count: int
    """Number of samples."""

    def __str__(self) -> str:
        """Median, then the quartiles in brackets."""
        return f"{number(self.median)} [{number(self.lower_quartile)}, {number(self.upper_quartile)}]"


Value = Union[Spread, float, int]


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the report."""

    benchmark: str
    case: str
    """What was measured."""
    figure: str
    """Which figure of it, with its unit."""
    value: Value
    goal: float | None = None
    """The largest value that is good enough, or None for a figure without a goal."""
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without a goal."""
        if self.goal is None:
            return None
        return (self.value.median if isinstance(self.value, Spread) else self.value) <= self.goal


def number(value: float) -> str:
    """``value`` with three significant digits, or all of an integer's, grouped by thousands."""
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def spread(samples: Sequence[float]) -> Spread:
    """Median and quartiles of ``samples``; one sample is its own quartiles."""
    if len(samples) == 1:
        return Spread(samples[0], samples[0], samples[0], 1)
    lower, median, upper = statistics.quantiles(samples, n=4, method="inclusive")
    return Spread(median, lower, upper, len(samples))


def alternate(blocks: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Run every block once a round and collect what each returns, normally the seconds it took.

    Every other round goes backwards, so that no block always profits from following another. One round before the
    first is run and thrown away.
    """
    samples: dict[str, list[float]] = {name: [] for name in blocks}
    for index in range(-1, rounds):
        names = list(blocks) if index % 2 == 0 else list(reversed(blocks))
        for name in names:
            value = blocks[name]()
            if index >= 0:
                samples[name].append(value)
    return samples


def ratios(numerator: Sequence[float], denominator: Sequence[float]) -> Spread:
    """Spread of the ratios of samples taken in the same round."""
    return spread([a / b for a, b in zip(numerator, denominator)])


def differences(minuend: Sequence[float], subtrahend: Sequence[float]) -> Spread:
    """Spread of the differences of samples taken in the same round."""
    return spread([a - b for a, b in zip(minuend, subtrahend)])


def peak_rss_bytes() -> int:
    """The largest resident set this process has had."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def print_table(rows: Sequence[Row]) -> None:
    """Print ``rows`` as a table on standard output: spreads as ``median [lower quartile, upper quartile]``."""
    table = rich.table.Table(title=rich.markup.escape("median of paired rounds [quartiles]"))
    for heading in ("benchmark", "case", "figure"):
        table.add_column(heading, overflow="fold")
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("goal", justify="right")
    table.add_column("note", overflow="fold")
    last = ""
    for row in rows:
        if last and row.benchmark != last:
            table.add_section()
        last = row.benchmark
        goal = "" if row.goal is None else f"<= {number(row.goal)} {'met' if row.met else 'MISSED'}"
        value = str(row.value) if isinstance(row.value, Spread) else number(row.value)
        cells = (row.benchmark, row.case, row.figure, value, goal, row.note)
        table.add_row(*map(rich.markup.escape, cells))
    rich.console.Console(width=None if sys.stdout.isatty() else 150).print(table)


def write_json(rows: Sequence[Row], machine: Mapping[str, str | int], path: pathlib.Path) -> None:
    """Write ``rows`` and the facts about the machine to ``path``."""
    records = [{**dataclasses.asdict(row), "met": row.met} for row in rows]
    path.write_text(json.dumps({"machine": dict(machine), "rows": records}, indent=1) + "\n", encoding="utf-8")
