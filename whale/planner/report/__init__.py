"""The report of a plan: as data, text, a page, a trace; and offers of devices compared. No TensorFlow."""

from __future__ import annotations

from whale.planner.report.build import make_report
from whale.planner.report.encode import from_data, to_data
from whale.planner.report.offers import Offer, Ranked, offers_data, offers_text, rank_offers
from whale.planner.report.page import to_page
from whale.planner.report.report import (
    DeviceFacts,
    GraphFacts,
    Measured,
    OtherPlan,
    PlanReport,
    Prediction,
    ReplicaFacts,
    SearchFacts,
    StageFacts,
    Timeline,
    TimelineEvent,
)
from whale.planner.report.table import to_tables, to_text
from whale.planner.report.trace import to_trace

__all__ = [
    "DeviceFacts",
    "GraphFacts",
    "Measured",
    "Offer",
    "OtherPlan",
    "PlanReport",
    "Prediction",
    "Ranked",
    "ReplicaFacts",
    "SearchFacts",
    "StageFacts",
    "Timeline",
    "TimelineEvent",
    "from_data",
    "make_report",
    "offers_data",
    "offers_text",
    "rank_offers",
    "to_data",
    "to_page",
    "to_tables",
    "to_text",
    "to_trace",
]
