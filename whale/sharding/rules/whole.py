"""Ops that need the whole batch, by what they compute, and what is said of each."""

from __future__ import annotations

from collections.abc import Callable

from whale.ir.placement import EACH
from whale.sharding.call import Call
from whale.sharding.facts import Decision, Decline

Rule = Callable[[Call], Decision]

_AMONG_ALL = "looks for equal elements among all samples"
_BY_VALUE = "how many rows it makes of each piece depends on their values"
_SEGMENTS = "how many segments each piece has depends on their values"
_SUMMARY = "a summary is made once, of the whole value"

REASONS = {
    "Unique": _AMONG_ALL,
    "UniqueV2": _AMONG_ALL,
    "UniqueWithCounts": _AMONG_ALL,
    "UniqueWithCountsV2": _AMONG_ALL,
    "Where": _BY_VALUE,
    "StringSplit": _BY_VALUE,
    "StringSplitV2": _BY_VALUE,
    "DynamicPartition": _BY_VALUE,
    "SegmentSum": _SEGMENTS,
    "SegmentMean": _SEGMENTS,
    "SegmentMax": _SEGMENTS,
    "SegmentMin": _SEGMENTS,
    "SegmentProd": _SEGMENTS,
    "SparseSegmentSumGradV2": _AMONG_ALL,
    "SparseSegmentMeanGradV2": _AMONG_ALL,
    "SparseSegmentSqrtNGradV2": _AMONG_ALL,
    "DynamicStitch": "puts samples where indices say",
    "HistogramSummary": _SUMMARY,
    "ImageSummary": _SUMMARY,
    "AudioSummaryV2": _SUMMARY,
    "TensorSummary": _SUMMARY,
    "TensorSummaryV2": _SUMMARY,
}
"""By op type."""


def _because(reason: str) -> Rule:
    def rule(call: Call) -> Decision:
        if any(fact.sharded or fact.placement == EACH for fact in call.ins):
            raise Decline(reason)
        return call.whole()

    return rule


RULES: dict[str, Rule] = {name: _because(reason) for name, reason in REASONS.items()}
