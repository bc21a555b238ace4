"""A report as one HTML page that needs nothing else: no network, no script, no file beside it."""

from __future__ import annotations

import functools

import jinja2

from whale.planner.report import sentences, words
from whale.planner.report.cards import make_cards, make_tiles
from whale.planner.report.chart import make_chart
from whale.planner.report.folds import fold_devices, fold_replicas, replica_devices
from whale.planner.report.meters import make_contenders, make_meters, make_step_parts
from whale.planner.report.ranges import number_ranges, range_words
from whale.planner.report.report import PlanReport
from whale.planner.report.table import blocks_words


def to_page(report: PlanReport) -> str:
    """The page's HTML. Equal reports give equal pages; all text of the report is escaped."""
    hosts = len({device.host for device in report.devices})
    replicas = [
        {
            "numbers": number_ranges(fold),
            "samples": sentences.samples_words(report, fold),
            "devices": range_words(replica_devices(report, fold), hosts),
        }
        for fold in fold_replicas(report)
    ]
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            report=report,
            answer=sentences.answer(report),
            reasons=sentences.reasons(report),
            certainty=sentences.certainty(report),
            glossary=sentences.GLOSSARY,
            tiles=make_tiles(report),
            step_parts=make_step_parts(report),
            cards=make_cards(report),
            chart=make_chart(report),
            meters=make_meters(report),
            device_kinds=len(fold_devices(report)),
            contenders=make_contenders(report),
            replicas=replicas,
            schedule=words.SCHEDULES.get(report.schedule, report.schedule),
            recomputation=words.RECOMPUTATIONS.get(report.recomputation, report.recomputation),
            bytes_words=words.bytes_words,
            seconds_words=words.seconds_words,
            part_words=words.part_words,
            blocks_words=blocks_words,
            peaks=dict(report.measured.peak_bytes) if report.measured is not None else {},
        )
    )


@functools.lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("whale.planner.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
