"""Traces of a script's ``Session.run`` calls, and the comparison of two of them."""

from __future__ import annotations

import collections
import dataclasses
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

TOLERANCE = 1e-4
"""Largest relative difference at which two numbers agree."""
SMALLEST_SCALE = 1e-2
"""Numbers below this are compared as if they were this: most fetched numbers are sums of arrays, which cancel."""
FLAT = 0.05
"""A loss that moves by less than this share of its size has no direction."""
TREND_BAND = 0.25
"""Where one of two losses has no direction, their late values may differ by this share."""


@dataclasses.dataclass(frozen=True)
class Trace:
    """What one process fetched, call by call, and what its variables were in the end."""

    ending: str
    """How the script ended: ``max_runs`` when the tracer stopped it, ``end``, ``exit <code>`` or ``error <text>``."""
    runs: int
    """Number of ``Session.run`` calls."""
    rows: tuple[tuple[int, tuple[float, ...]], ...]
    """Number of the call, from 1, and the floats it fetched, arrays as their sum; calls without floats have none."""
    variables: Mapping[str, tuple[tuple[int, ...], float] | str]
    """Shape and L2 norm of each global variable of the session closed last, or why it could not be read."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """How a trace compares to the one expected."""

    compared: int
    """Numbers compared: fetched floats, then norms of variables; 0 when only the trend was."""
    largest: float
    """Largest relative difference among them; NaN when none were compared."""
    findings: tuple[str, ...]
    """Sentences, one for each way in which the traces differ; empty when they agree."""

    @property
    def agrees(self) -> bool:
        """True when nothing differs beyond the tolerance."""
        return not self.findings


def read_trace(path: Path) -> Trace:
    """The trace a tracing launcher wrote as JSON."""
    data = json.loads(path.read_text(encoding="utf-8"))
    return Trace(
        ending=data["why"],
        runs=data["runs"],
        rows=tuple((number, tuple(values)) for number, values in data["rows"]),
        variables={name: _variable(value) for name, value in data["vars"].items()},
    )


def _variable(value: Any) -> tuple[tuple[int, ...], float] | str:
    return value if isinstance(value, str) else (tuple(value[0]), float(value[1]))


def relative_difference(expected: float, actual: float) -> float:
    """Distance by the larger magnitude (`SMALLEST_SCALE` at least); 0 for equal non-finite numbers, else infinite."""
    if not (math.isfinite(expected) and math.isfinite(actual)):
        same = expected == actual or (math.isnan(expected) and math.isnan(actual))
        return 0.0 if same else math.inf
    return abs(expected - actual) / max(abs(expected), abs(actual), SMALLEST_SCALE)


def compare_values(expected: Trace, actual: Trace, tolerance: float = TOLERANCE) -> Comparison:
    """Compare every number: for scripts of which two plain runs agree."""
    findings = list(_structure(expected, actual))
    if (expected.runs, expected.ending.split()[:1]) != (actual.runs, actual.ending.split()[:1]):
        findings.append(
            f"{actual.runs} runs, then {actual.ending!r}; expected {expected.runs}, then {expected.ending!r}"
        )
    if _layout(expected) != _layout(actual):
        findings.append(f"fetched floats: {_first_unequal(_layout(expected), _layout(actual))}")
    fetched = list(_fetched_pairs(expected, actual))
    norms = list(_norm_pairs(expected, actual))
    for kind, pairs in (("fetched floats", fetched), ("norms of variables", norms)):
        outside = [pair for pair in pairs if relative_difference(pair[1], pair[2]) > tolerance]
        if outside:
            where, left, right = outside[0]
            findings.append(
                f"{len(outside)} of {len(pairs)} {kind} differ, first {where}: {right:.7g}, expected {left:.7g}"
            )
    differences = [relative_difference(left, right) for _, left, right in fetched + norms]
    return Comparison(len(differences), max(differences, default=math.nan), tuple(findings))


def compare_trend(expected: Sequence[Trace], actual: Trace) -> Comparison:
    """Compare names and shapes of variables and the trend of the loss: for scripts that do not repeat.

    ``expected`` holds several plain runs: a loss that diverges by chance does so in some of them only, and the trend
    of any of them will do.
    """
    findings = list(_structure(expected[0], actual))
    trends, trend = [loss_trend(trace) for trace in expected], loss_trend(actual)
    if not any(_alike(trend, other) for other in trends):
        findings.append(f"loss goes {trend}, expected {' or '.join(map(str, trends))}")
    return Comparison(0, math.nan, tuple(findings))


@dataclasses.dataclass(frozen=True)
class Trend:
    """Where a loss goes."""

    direction: str
    """``down``, ``up``, ``flat``, ``infinite`` when it leaves the finite numbers, or ``absent`` without floats."""
    early: float
    """Mean of the first third of the values."""
    late: float
    """Mean of the last third."""

    def __str__(self) -> str:
        return f"{self.direction} ({self.early:.4g} to {self.late:.4g})"


def loss_trend(trace: Trace) -> Trend:
    """Trend of the first float of the most frequent kind of call (calls that fetched as many floats are one kind)."""
    widths = collections.Counter(len(values) for _, values in trace.rows)
    if not widths:
        return Trend("absent", math.nan, math.nan)
    width = widths.most_common(1)[0][0]
    series = [values[0] for _, values in trace.rows if len(values) == width]
    third = max(1, len(series) // 3)
    early, late = sum(series[:third]) / third, sum(series[-third:]) / third
    if not (math.isfinite(early) and math.isfinite(late)):
        return Trend("infinite", early, late)
    if abs(late - early) < FLAT * max(abs(early), abs(late), SMALLEST_SCALE):
        return Trend("flat", early, late)
    return Trend("down" if late < early else "up", early, late)


def _alike(left: Trend, right: Trend) -> bool:
    if left.direction == right.direction:
        return True
    return "flat" in (left.direction, right.direction) and relative_difference(left.late, right.late) <= TREND_BAND


def _structure(expected: Trace, actual: Trace) -> Iterator[str]:
    """How the sets of variables and their shapes differ."""
    missing = sorted(set(expected.variables) - set(actual.variables))
    added = sorted(set(actual.variables) - set(expected.variables))
    if missing:
        yield f"{len(missing)} variables are missing, such as {missing[0]}"
    if added:
        yield f"{len(added)} variables are new, such as {added[0]}"
    for name in sorted(set(expected.variables) & set(actual.variables)):
        left, right = expected.variables[name], actual.variables[name]
        left, right = (value if isinstance(value, str) else value[0] for value in (left, right))
        if left != right:
            yield f"variable {name} is {right}, expected {left}"


def _layout(trace: Trace) -> list[tuple[int, int]]:
    return [(number, len(values)) for number, values in trace.rows]


def _first_unequal(expected: Sequence[tuple[int, int]], actual: Sequence[tuple[int, int]]) -> str:
    for (left_run, left_count), (right_run, right_count) in zip(expected, actual):
        if (left_run, left_count) != (right_run, right_count):
            return f"{right_count} in run {right_run}, expected {left_count} in run {left_run}"
    return f"{len(actual)} runs have some, expected {len(expected)}"


def _fetched_pairs(expected: Trace, actual: Trace) -> Iterator[tuple[str, float, float]]:
    """Place, expected and actual value of the floats that both traces fetched in the same call."""
    found = dict(actual.rows)
    for number, values in expected.rows:
        for position, (left, right) in enumerate(zip(values, found.get(number, ()))):
            yield f"run {number} value {position}", left, right


def _norm_pairs(expected: Trace, actual: Trace) -> Iterator[tuple[str, float, float]]:
    for name, left in expected.variables.items():
        right = actual.variables.get(name)
        if not isinstance(left, str) and right is not None and not isinstance(right, str):
            yield name, left[1], right[1]
