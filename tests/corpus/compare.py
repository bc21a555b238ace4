"""Traces of a script's ``Session.run`` calls, and the comparison of two of them."""

from __future__ import annotations

import bisect
import collections
import dataclasses
import itertools
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
ROUNDING_FACTOR = 3.0
"""Where rounding grows, a difference may be this many times the largest that plain TensorFlow, rounding in another
way, has shown up to that call."""


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
    drift: float = math.nan
    """Largest relative difference between plain runs that round in different ways; NaN when that was not asked."""

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
    findings = list(layout_differences(expected, actual))
    fetched = [(where, left, right) for _, where, left, right in _fetched_pairs(expected, actual)]
    norms = list(_norm_pairs(expected, actual))
    for kind, pairs in (("fetched floats", fetched), ("norms of variables", norms)):
        outside = [pair for pair in pairs if relative_difference(pair[1], pair[2]) > tolerance]
        if outside:
            where, left, right = outside[0]
            findings.append(
                f"{len(outside)} of {len(pairs)} {kind} differ, first {where}: {right:.7g}, expected {left:.7g}"
            )
    differences = [relative_difference(left, right) for _, left, right in (*fetched, *norms)]
    return Comparison(len(differences), max(differences, default=math.nan), tuple(findings))


def compare_rounding(expected: Trace, actual: Trace, drift: Envelope, tolerance: float = TOLERANCE) -> Comparison:
    """Compare every number, allowing what plain TensorFlow differs by when it rounds in another way.

    For scripts whose training amplifies rounding. ``drift`` is that of plain runs of the same script with other kernels
    or nudged feeds. What a number may differ by is `ROUNDING_FACTOR` times the largest difference that one of them has
    shown up to that call (or, for variables, among all norms), and ``tolerance`` at least: so calls before the first
    divergence of plain TensorFlow itself are held to ``tolerance``, and no later one may diverge faster.
    """
    findings = list(layout_differences(expected, actual))
    differences = [
        (relative_difference(left, right), drift.at(number), where)
        for number, where, left, right in _fetched_pairs(expected, actual)
    ]
    differences += [
        (relative_difference(left, right), drift.norms, where) for where, left, right in _norm_pairs(expected, actual)
    ]
    for found, allowed, where in differences:
        if found > max(tolerance, ROUNDING_FACTOR * allowed):
            findings.append(f"{where} differs by {found:.1e}, plain TensorFlow that rounds otherwise by {allowed:.1e}")
            break
    largest = max((found for found, _, _ in differences), default=math.nan)
    return Comparison(len(differences), largest, tuple(findings), drift.end)


@dataclasses.dataclass(frozen=True)
class Envelope:
    """How far plain runs of one script that round in different ways drift apart."""

    calls: tuple[tuple[int, float], ...]
    """Number of a call and the largest relative difference up to it, for calls that fetch floats."""
    norms: float
    """Largest relative difference among the norms of variables in the end."""

    @staticmethod
    def of(expected: Trace, rounded: Sequence[Trace]) -> Envelope:
        """The envelope of ``rounded`` runs around the ``expected`` one; runs of another layout add nothing."""
        alike = [trace for trace in rounded if not list(layout_differences(expected, trace))]
        largest: dict[int, float] = {}
        for trace in alike:
            for number, _, left, right in _fetched_pairs(expected, trace):
                largest[number] = max(largest.get(number, 0.0), relative_difference(left, right))
        highest = itertools.accumulate(largest.values(), max)
        norms = [relative_difference(left, right) for trace in alike for _, left, right in _norm_pairs(expected, trace)]
        return Envelope(tuple(zip(largest, highest)), max(norms, default=0.0))

    def at(self, call: int) -> float:
        """The largest difference up to a call."""
        place = bisect.bisect_right(self.calls, (call, math.inf))
        return self.calls[place - 1][1] if place else 0.0

    @property
    def end(self) -> float:
        """The largest difference of all."""
        return max(self.norms, self.calls[-1][1] if self.calls else 0.0)


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


def layout_differences(expected: Trace, actual: Trace) -> Iterator[str]:
    """How two traces differ in anything but numbers."""
    yield from _structure(expected, actual)
    if (expected.runs, expected.ending.split()[:1]) != (actual.runs, actual.ending.split()[:1]):
        yield f"{actual.runs} runs, then {actual.ending!r}; expected {expected.runs}, then {expected.ending!r}"
    if _layout(expected) != _layout(actual):
        yield f"fetched floats: {_first_unequal(_layout(expected), _layout(actual))}"


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


def _fetched_pairs(expected: Trace, actual: Trace) -> Iterator[tuple[int, str, float, float]]:
    """Call, place, expected and actual value of the floats that both traces fetched in the same call."""
    found = dict(actual.rows)
    for number, values in expected.rows:
        for position, (left, right) in enumerate(zip(values, found.get(number, ()))):
            yield number, f"run {number} value {position}", left, right


def _norm_pairs(expected: Trace, actual: Trace) -> Iterator[tuple[str, float, float]]:
    for name, left in expected.variables.items():
        right = actual.variables.get(name)
        if not isinstance(left, str) and right is not None and not isinstance(right, str):
            yield name, left[1], right[1]
