"""The report as text."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings

from tests.planner.report import plans
from tests.planner.report.strategies import reports
from whale.planner.report import Measured, PlanReport, to_text


@pytest.mark.parametrize("width", [80, 120])
def test_a_pipeline(width: int, golden: Callable[..., None]) -> None:
    golden(to_text(plans.pipeline_report(), width))


def test_unequal_shares_with_what_a_run_came_to(golden: Callable[..., None]) -> None:
    devices = plans.two_hosts().devices
    peaks = tuple((device.name, 2**30 * (5 + device.index)) for device in devices[2:6])
    golden(to_text(plans.data_report(measured=Measured(2.5, peaks)), 80))


def test_a_thousand_devices_stay_short(golden: Callable[..., None]) -> None:
    cluster = plans.many_hosts(128)
    text = to_text(plans.report(cluster, plans.data(cluster, global_batch=2048)), 80)
    assert "host0-127 GPU:0-7" in text
    assert len(text.splitlines()) < 50
    golden(text)


@given(reports())
@settings(max_examples=50)
def test_any_report_is_plain_text_within_the_width(report: PlanReport) -> None:
    for width in (80, 120):
        text = to_text(report, width)
        assert max(len(line) for line in text.splitlines()) <= width
        assert "\x1b" not in text
