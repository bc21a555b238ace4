"""The trace: what its format asks for, and which rows it has."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given

from tests.planner.report import plans
from tests.planner.report.strategies import reports
from whale.planner.report import PlanReport, to_trace

Event = dict[str, Any]


def _events(trace: dict[str, Any], phase: str) -> list[Event]:
    return [event for event in trace["traceEvents"] if event["ph"] == phase]


def _names(trace: dict[str, Any], kind: str) -> dict[tuple[int, int], str]:
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in _events(trace, "M") if e["name"] == kind}


def _check(trace: dict[str, Any]) -> None:
    """What every trace must be: named rows, events in order, and none over another in its row."""
    assert json.loads(json.dumps(trace, allow_nan=False)) == trace
    complete = _events(trace, "X")
    assert [event["ts"] for event in complete] == sorted(event["ts"] for event in complete)
    threads = _names(trace, "thread_name")
    processes = {process for process, _ in _names(trace, "process_name")}
    rows: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for event in complete:
        assert (event["pid"], event["tid"]) in threads
        assert event["pid"] in processes
        begin, length = round(event["ts"] * 1000), round(event["dur"] * 1000)
        assert length >= 0
        rows[event["pid"], event["tid"]].append((begin, begin + length))
    for spans in rows.values():
        for (_, end), (begin, _) in zip(spans, spans[1:]):
            assert end <= begin


INTERLEAVED = plans.report(
    plans.two_hosts(),
    plans.pipeline(plans.two_hosts(), rows=2, replicas=2, parts=2, chunks=2, micro_batches=4, schedule="interleaved"),
)


@pytest.mark.parametrize("report", [plans.pipeline_report(), plans.data_report(), INTERLEAVED], ids=["1", "2", "3"])
def test_rows_are_named_and_events_do_not_overlap(report: PlanReport) -> None:
    _check(to_trace(report))


@given(reports())
def test_transfers_never_overlap_whatever_the_report(report: PlanReport) -> None:
    trace = to_trace(report)
    rows: dict[tuple[int, int], float] = defaultdict(float)
    for event in _events(trace, "X"):
        if event["cat"] in ("send", "reduce"):
            assert event["ts"] >= rows[event["pid"], event["tid"]] - 1e-6
            rows[event["pid"], event["tid"]] = event["ts"] + event["dur"]


def test_a_process_for_each_host_and_a_thread_for_each_device() -> None:
    report = plans.pipeline_report()
    trace = to_trace(report)
    processes = _names(trace, "process_name")
    assert list(processes.values()) == ["fast", "slow", "links (transfers, reductions)"]
    threads = _names(trace, "thread_name")
    assert [name for (process, _), name in threads.items() if process == 1] == [
        "GPU:0 V100, stage 0",
        "GPU:1 V100, stage 0",
        "GPU:2 V100, stage 1",
        "GPU:3 V100, stage 1",
    ]
    assert [name for (process, _), name in threads.items() if process == 2] == [
        "GPU:0 T4, stage 2",
        "GPU:1 T4, stage 2",
        "GPU:2 T4, idle",
        "GPU:3 T4, idle",
    ]
    links = [name for (process, _), name in threads.items() if process == 3]
    assert "fast GPU:0 to fast GPU:2" in links
    assert "slow GPU:0 to fast GPU:2" in links
    assert "reduce gradients of top" in links


def test_equal_replicas_have_equal_events() -> None:
    trace = to_trace(plans.pipeline_report())
    first, second = (
        [(e["name"], e["ts"], e["dur"]) for e in _events(trace, "X") if (e["pid"], e["tid"]) == (1, thread)]
        for thread in (1, 2)
    )
    assert first == second
    assert len(first) == 2 * 8 + 1


def test_a_large_trace_is_of_one_replica_of_each_kind() -> None:
    trace = to_trace(plans.pipeline_report(), most_events=50)
    busy = {(e["pid"], e["tid"]) for e in _events(trace, "X") if e["cat"] == "forward"}
    assert busy == {(1, 1), (1, 3), (2, 1)}


def test_times_are_microseconds_of_the_timeline() -> None:
    report = plans.data_report()
    trace = to_trace(report)
    longest = max(e["ts"] + e["dur"] for e in _events(trace, "X"))
    assert longest == pytest.approx(1e6 * max(event.end for event in report.timeline.events))


def test_equal_reports_make_equal_traces() -> None:
    assert json.dumps(to_trace(plans.pipeline_report())) == json.dumps(to_trace(plans.pipeline_report()))
