"""The comparison of traces, without TensorFlow and without the kit."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from tests.corpus.compare import (
    ROUNDING_FACTOR,
    Envelope,
    Trace,
    compare_rounding,
    compare_trend,
    compare_values,
    loss_trend,
    read_trace,
    relative_difference,
)
from tests.corpus.kit import Repeats, repeats, table_rows
from tests.corpus.plan_lines import parse_plan


def trace(*losses: float, variables: dict[str, tuple[tuple[int, ...], float] | str] | None = None) -> Trace:
    """A trace of one float per run."""
    rows = tuple((number, (loss,)) for number, loss in enumerate(losses, start=1))
    return Trace("max_runs", len(losses), rows, variables if variables is not None else {"w": ((2, 3), 1.5)})


@pytest.mark.parametrize(
    ("expected", "actual", "difference"),
    [
        (2.0, 2.0, 0.0),
        (2.0, 1.0, 0.5),
        (-1.0, 1.0, 2.0),
        (0.0, 1e-6, 1e-4),  # below the smallest scale
        (math.inf, math.inf, 0.0),
        (math.nan, math.nan, 0.0),
        (math.inf, -math.inf, math.inf),
        (1.0, math.nan, math.inf),
    ],
)
def test_relative_difference(expected: float, actual: float, difference: float) -> None:
    assert relative_difference(expected, actual) == pytest.approx(difference)


def test_equal_traces_agree() -> None:
    result = compare_values(trace(3.0, 2.0), trace(3.0, 2.0))
    assert result.agrees
    assert (result.compared, result.largest) == (3, 0.0)


def test_rounding_is_within_the_tolerance_and_reported() -> None:
    result = compare_values(trace(3.0, 2.0), trace(3.0, 2.0001))
    assert result.agrees
    assert result.largest == pytest.approx(5e-5, rel=1e-3)


def test_first_value_outside_the_tolerance_is_named() -> None:
    result = compare_values(trace(3.0, 2.0, 1.0), trace(3.0, 2.5, 1.5))
    assert result.findings == ("2 of 3 fetched floats differ, first run 2 value 0: 2.5, expected 2",)


def test_a_norm_outside_the_tolerance_is_named() -> None:
    result = compare_values(trace(1.0), trace(1.0, variables={"w": ((2, 3), 1.6)}))
    assert result.findings == ("1 of 1 norms of variables differ, first w: 1.6, expected 1.5",)


def test_number_of_runs_and_their_floats() -> None:
    findings = compare_values(trace(3.0, 2.0), trace(3.0)).findings
    assert findings == (
        "1 runs, then 'max_runs'; expected 2, then 'max_runs'",
        "fetched floats: 1 runs have some, expected 2",
    )


def test_a_float_in_another_run() -> None:
    moved = Trace("max_runs", 2, ((2, (3.0, 1.0)),), {})
    findings = compare_values(Trace("max_runs", 2, ((1, (3.0,)),), {}), moved).findings
    assert findings == ("fetched floats: 2 in run 2, expected 1 in run 1",)


def test_an_error_text_does_not_have_to_repeat() -> None:
    left, right = Trace("error A: at 0x1", 1, (), {}), Trace("error A: at 0x2", 1, (), {})
    assert compare_values(left, right).agrees


@pytest.mark.parametrize(
    ("variables", "finding"),
    [
        ({}, "1 variables are missing, such as w"),
        ({"w": ((2, 3), 1.5), "replica_1/w": ((2, 3), 1.5)}, "1 variables are new, such as replica_1/w"),
        ({"w": ((2, 1), 1.5)}, "variable w is (2, 1), expected (2, 3)"),
        ({"w": "unread"}, "variable w is unread, expected (2, 3)"),
    ],
)
def test_variables_are_compared_in_both_ways(
    variables: dict[str, tuple[tuple[int, ...], float] | str], finding: str
) -> None:
    changed = trace(1.0, variables=variables)
    assert finding in compare_values(trace(1.0), changed).findings
    assert finding in compare_trend([trace(1.0)], changed).findings


def test_a_drift_like_that_of_plain_tensorflow_agrees() -> None:
    plain, rounded = trace(1.0, 1.0, 1.0), trace(1.0, 1.001, 1.0)
    result = compare_rounding(
        plain, trace(1.0, 1.0, 1.0 + 0.001 * 0.9 * ROUNDING_FACTOR), Envelope.of(plain, [rounded])
    )
    assert result.agrees
    assert result.drift == pytest.approx(1e-3, rel=1e-2)


def test_a_drift_before_plain_tensorflow_drifts_does_not_agree() -> None:
    plain, rounded = trace(1.0, 1.0, 1.0), trace(1.0, 1.001, 1.0)
    result = compare_rounding(plain, trace(1.0005, 1.0, 1.0), Envelope.of(plain, [rounded]))
    assert result.findings == ("run 1 value 0 differs by 5.0e-04, plain TensorFlow that rounds otherwise by 0.0e+00",)


def test_a_larger_drift_than_that_of_plain_tensorflow_does_not_agree() -> None:
    plain, rounded = trace(1.0, 1.0), trace(1.0, 1.001)
    assert not compare_rounding(plain, trace(1.0, 1.0 + 0.0011 * ROUNDING_FACTOR), Envelope.of(plain, [rounded])).agrees
    assert not compare_rounding(plain, trace(1.0, 1.001), Envelope.of(plain, [])).agrees


def test_norms_may_drift_as_far_as_the_norm_that_drifts_most() -> None:
    def weights(first: float, second: float) -> Trace:
        return trace(1.0, variables={"v": ((2,), first), "w": ((2,), second)})

    plain, rounded = weights(1.0, 1.0), weights(1.001, 1.0)
    assert compare_rounding(plain, weights(1.0, 1.002), Envelope.of(plain, [rounded])).agrees
    assert not compare_rounding(plain, weights(1.0, 1.004), Envelope.of(plain, [rounded])).agrees


def test_a_rounded_run_of_another_layout_excuses_nothing() -> None:
    plain = trace(1.0, 1.0)
    assert not compare_rounding(plain, trace(1.0, 1.01), Envelope.of(plain, [trace(1.0, 1.01, 1.0)])).agrees


def test_rounding_does_not_excuse_a_missing_run() -> None:
    plain = trace(1.0, 1.0)
    assert not compare_rounding(plain, trace(1.0), Envelope.of(plain, [trace(1.0, 2.0)])).agrees


def test_trend_ignores_the_numbers() -> None:
    result = compare_trend([trace(3.0, 2.5, 2.0)], trace(3.3, 2.0, 1.5, 1.0))
    assert result.agrees
    assert result.compared == 0


def test_trend_in_the_other_direction() -> None:
    assert compare_trend([trace(3.0, 2.0)], trace(2.0, 3.0)).findings == (
        "loss goes up (2 to 3), expected down (3 to 2)",
    )


def test_a_flat_loss_agrees_with_its_neighbourhood_only() -> None:
    assert compare_trend([trace(2.0, 2.01)], trace(2.0, 1.8)).agrees
    assert not compare_trend([trace(2.0, 2.01)], trace(2.0, 1.0)).agrees


def test_the_trend_of_any_plain_run_will_do() -> None:
    plain = [trace(3.0, 2.0), trace(3.0, math.inf)]
    assert compare_trend(plain, trace(3.0, 1.0)).agrees
    assert compare_trend(plain, trace(3.0, math.nan)).agrees
    assert not compare_trend(plain, trace(3.0, 4.0)).agrees


def test_trend_follows_the_most_frequent_kind_of_run() -> None:
    rows = ((1, (9.0, 9.0)), (2, (3.0,)), (3, (2.0,)), (4, (1.0,)))
    assert loss_trend(Trace("end", 4, rows, {})).direction == "down"


def test_trend_of_nothing_and_of_infinity() -> None:
    assert loss_trend(Trace("end", 0, (), {})).direction == "absent"
    assert loss_trend(trace(1.0, math.inf)).direction == "infinite"


def test_read_trace(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"why": "end", "runs": 2, "rows": [[2, [0.5]]], "vars": {"w": [[2], 1.0], "v": "x"}}))
    assert read_trace(path) == Trace("end", 2, ((2, (0.5,)),), {"w": ((2,), 1.0), "v": "x"})


def test_parse_plan() -> None:
    lines = [
        "WARNING: something else",
        "whale: cut signature 0:",
        "whale:   2 replicas",
        "whale:   exact",
        "whale: cut signature 1: in one line",
        "  0%|          | 0/6 [00:00<?, ?it/s]whale: one replica: batch of one",
        "whale: one replica: batch of one",
    ]
    plan = parse_plan(lines)
    assert plan.cut == ("signature 0: 2 replicas; exact", "signature 1: in one line")
    assert plan.kept == ("batch of one",)
    assert plan.verdict == "cut"


@pytest.mark.parametrize(("lines", "verdict"), [([], "no plan"), (["whale: one replica: own towers"], "one replica")])
def test_verdict_without_a_cut(lines: list[str], verdict: str) -> None:
    assert parse_plan(lines).verdict == verdict


def test_table_rows() -> None:
    lines = ["| other | x |", "| id | repo |", "|---|---|", "| a | o/n |", "", "| b | c |"]
    assert table_rows(lines) == {"a": {"id": "a", "repo": "o/n"}}


@pytest.mark.parametrize(
    ("cell", "expected"),
    [("bitwise", Repeats.EXACTLY), ("to 1e-07", Repeats.NEARLY), ("no (fetches 1e-01)", Repeats.NOT)],
)
def test_repeats(cell: str, expected: Repeats) -> None:
    assert repeats(cell) is expected
