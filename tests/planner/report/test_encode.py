"""Reports as JSON and back."""

from __future__ import annotations

import copy
import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given

from tests.planner.report import plans
from tests.planner.report.strategies import reports
from whale.errors import PlanError
from whale.planner.report import PlanReport, from_data, to_data

GOOD = to_data(plans.pipeline_report())


@given(reports())
def test_a_report_comes_back_from_json_as_it_was(report: PlanReport) -> None:
    assert from_data(json.loads(json.dumps(to_data(report), allow_nan=False))) == report


def test_reports_of_plans_come_back() -> None:
    for report in (plans.pipeline_report(), plans.data_report()):
        assert from_data(json.loads(json.dumps(to_data(report)))) == report


def test_every_field_is_written() -> None:
    assert set(GOOD) == {"version"} | {field.name for field in dataclasses.fields(PlanReport)}


def _changed(place: str, value: object) -> dict[str, Any]:
    """The good data with another value at ``stages/0/name``."""
    data: Any = json.loads(json.dumps(GOOD))
    *way, last = (int(part) if part.isdigit() else part for part in place.split("/"))
    at = data
    for part in way:
        at = at[part]
    at[last] = value
    return data


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        ("version", 2, "field 'version' is 2, this Whale reads 1"),
        ("version", True, "field 'version' is True"),
        ("title", 3, "field 'title' of a report must be text, got 3"),
        ("batch", 1.5, "field 'batch' of a report must be a whole number"),
        ("batch", True, "field 'batch' of a report must be a whole number"),
        ("stages", {}, "field 'stages' of a report must be a list"),
        ("stages/1/work", "much", "field 'stages[1].work' of a report must be a number"),
        ("prediction/bubble", float("nan"), "field 'prediction.bubble' of a report must be a finite number"),
        ("prediction/bubble", 10**400, "field 'prediction.bubble' of a report must be a finite number"),
        ("prediction/speed", 1.0, "unknown field 'prediction.speed' of a report"),
        ("search/exact", 1, "field 'search.exact' of a report must be true or false"),
        ("search/phases", [["a"]], "field 'search.phases[0]' of a report must be a list of two"),
        ("graph", None, "field 'graph' of a report must be an object"),
        ("devices/0/memory", 5, "field 'devices[0].memory' of a report must be an object"),
        ("stages/0/devices/0/0", "/device:GPU:9", "stage 0 is on '/device:GPU:9', which is not listed"),
        ("stages/2/number", 7, "stage 2 has the number 7"),
        ("stages/0/stop", 0, "stage 0 has the blocks 0 to 0"),
        ("stages/1/devices", [], "stage 1 has devices for 0 of 2 replicas"),
        ("replicas/1/like", 3, "replica 1 has the number 1 and is like 3"),
        ("devices/0/stages", [3], "holds the stages [3] of 3"),
        ("rows", 4, "4 of 3 stages have devices of their own"),
        ("stages", [], "it has 0 stages and 2 replicas"),
        ("timeline/replicas", [5], "the timeline shows replica 5 of 2"),
        ("timeline/gap", [0.5, 1e6], "the timeline leaves out 0.5 to 1000000.0 seconds, which is not within it"),
        ("timeline/events/0/kind", "nap", "an event 'nap' of replica 0"),
        ("timeline/events/0/end", -1.0, "to -1.0 seconds"),
    ],
)
def test_bad_data_is_refused_with_its_place(place: str, value: object, told: str) -> None:
    with pytest.raises(PlanError) as caught:
        from_data(_changed(place, value))
    assert told in str(caught.value)


@pytest.mark.parametrize("data", [None, 3, "text", [GOOD]])
def test_what_is_no_object_is_refused(data: object) -> None:
    with pytest.raises(PlanError, match="a report is a JSON object"):
        from_data(data)


@pytest.mark.parametrize("place", ["title", "graph/variables", "stages/0/name", "timeline/events/0/start"])
def test_a_missing_field_is_named(place: str) -> None:
    data: Any = copy.deepcopy(GOOD)
    *way, last = (int(part) if part.isdigit() else part for part in place.split("/"))
    at = data
    for part in way:
        at = at[part]
    del at[last]
    with pytest.raises(PlanError, match=f"a report without the field '.*{last}'"):
        from_data(data)
