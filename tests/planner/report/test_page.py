"""The HTML page: well formed, in need of nothing else, safe with any text."""

from __future__ import annotations

import html.parser
import re

import pytest
from hypothesis import given

from tests.planner.report import plans
from tests.planner.report.strategies import reports
from whale.planner.report import Measured, PlanReport, to_page

VOID = {"meta", "br", "img", "input", "hr"}
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>.py"


class Page(html.parser.HTMLParser):
    """Reads a page, and fails where an element is not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text.append(data)

    @property
    def shown(self) -> str:
        return " ".join(" ".join(self.text).split())


def _check(text: str) -> Page:
    """What every page must be: well formed, in need of nothing else, without script."""
    page = Page(text)
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"link", "script", "iframe", "object", "embed", "base", "form", "img"}
    for _, attributes in page.elements:
        assert not {"src", "href", "srcset", "action"} & set(attributes)
        assert not any(name.startswith("on") for name in attributes)
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert style is not None and "url(" not in style.group(1) and "@import" not in style.group(1)
    return page


@given(reports())
def test_any_page_is_well_formed_and_needs_nothing_else(report: PlanReport) -> None:
    _check(to_page(report))


def test_nothing_on_a_page_points_anywhere() -> None:
    assert not re.search(r"https?:|//", to_page(plans.pipeline_report()))


def test_a_hostile_script_name_is_only_text() -> None:
    page = _check(to_page(plans.pipeline_report(title=HOSTILE)))
    assert HOSTILE in page.shown


def test_every_device_is_on_the_page() -> None:
    for report in (plans.pipeline_report(), plans.data_report()):
        shown = _check(to_page(report)).shown
        for device in report.devices:
            assert device.name in shown


def test_the_answer_and_the_reasons_are_on_the_page() -> None:
    shown = _check(to_page(plans.pipeline_report())).shown
    for words in (
        "2 copies of the model, each cut into 3 stages, on 6 of 8 devices.",
        "2 devices stay idle: slow GPU:2-3.",
        "A faster plan cannot run yet (operators divided over devices)",
        "bottom",
        "exact: equals one device up to rounding",
        "batch size assumed",
        "does not fit: needs",
    ):
        assert words in shown


def test_bars_lie_within_the_chart() -> None:
    page = _check(to_page(plans.pipeline_report()))
    kinds: set[str] = set()
    for tag, attributes in page.elements:
        if tag == "rect":
            kinds.add(str(attributes["class"]).split()[0])
            x, width = (float(str(attributes[name]).rstrip("%")) for name in ("x", "width"))
            assert x >= 0 and x + width <= 100.1
    assert kinds == {"forward", "backward", "send", "reduce", "update"}


def test_a_long_step_is_drawn_with_a_gap() -> None:
    cluster = plans.two_hosts()
    plan = plans.pipeline(cluster, rows=4, micro_batches=64)
    report = plans.report(cluster, plan, most_events=120)
    assert report.timeline.gap is not None
    page = _check(to_page(report))
    assert "goes on in the same way and is not drawn" in page.shown
    assert sum(attributes.get("class") == "gap" for tag, attributes in page.elements if tag == "rect") == 4


def test_what_was_measured_stands_beside_what_was_predicted() -> None:
    measured = Measured(2.5, ((plans.two_hosts().devices[0].name, 3 * 2**30),))
    shown = _check(to_page(plans.data_report(measured=measured))).shown
    assert "measured 2.500 s" in shown
    assert "measured 3.00 GiB" in shown


@pytest.mark.parametrize("hosts", [128])
def test_a_thousand_devices_make_a_page_of_moderate_size(hosts: int) -> None:
    cluster = plans.many_hosts(hosts)
    text = to_page(plans.report(cluster, plans.data(cluster, global_batch=2048)))
    assert "host0-127 GPU:0-7" in _check(text).shown
    assert len(text) < 500_000


def test_equal_reports_make_equal_pages() -> None:
    assert to_page(plans.pipeline_report()) == to_page(plans.pipeline_report())
