"""What is expected of a run, read from the files that finished runs leave; no process is started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.corpus import report
from tests.corpus.judge import ORDERED, judge
from tests.corpus.kit import Repeats, Script
from tests.corpus.launch import Launcher, Outcome, Places

SCRIPT = Script("s", "owner/name", "", Repeats.NOT, ("s.py",), 60, "", "$W", "", ())
PLAIN = Launcher("plain", (), whale=False, own_tracer=False)
PRODUCT = Launcher("whale2", (), whale=True, own_tracer=False, devices=2)
DONE = Outcome(0, 1.0, "")


@pytest.fixture
def places(tmp_path: Path) -> Places:
    (tmp_path / "out").mkdir()
    return Places(tmp_path, tmp_path, tmp_path, "python")


def leave(places: Places, mode: str, *losses: float) -> None:
    """The files of a finished run."""
    rows = [[number, [loss]] for number, loss in enumerate(losses, start=1)]
    trace = {"why": "end", "runs": len(rows), "rows": rows, "vars": {"w": [[2], 1.0]}}
    for ending, data in (("trace", trace), ("outcome", {"code": 0, "seconds": 1.0, "error": ""})):
        (places.home / "out" / f"s.{mode}.{ending}.json").write_text(json.dumps(data), encoding="utf-8")


def verdict_of(places: Places) -> tuple[str, str]:
    found = judge(places, SCRIPT, [PLAIN], PRODUCT, PRODUCT, DONE, 1.0)
    return found.result, found.note


def test_a_trend_of_the_plain_run_needs_no_other(places: Places) -> None:
    leave(places, "plain", 3.0, 2.0, 1.0)
    leave(places, "whale2", 3.1, 2.0, 1.1)
    assert verdict_of(places) == (report.TREND, "")


def test_where_plain_runs_race_one_op_at_a_time_decides_and_is_told(places: Places) -> None:
    leave(places, "plain", 3.0, float("nan"), float("nan"))
    leave(places, "whale2", 3.0, 2.0, 1.0)
    leave(places, "plain_in_order", 3.0, 2.0, 1.0)
    assert verdict_of(places) == (report.TREND, ORDERED)


def test_what_no_plain_run_gives_differs(places: Places) -> None:
    leave(places, "plain", 3.0, float("nan"), float("nan"))
    leave(places, "whale2", 3.0, 2.0, 1.0)
    leave(places, "plain_in_order", 1.0, 2.0, 3.0)
    assert verdict_of(places) == (report.DIFFERS, "")
