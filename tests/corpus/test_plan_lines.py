"""What is read of the plan that Whale prints."""

from __future__ import annotations

from tests.corpus.plan_lines import parse_plan

PRINTED = """\
 40%|####      |whale: cut signature 2:
whale:   batch: global, the script's batch is cut
whale:   100.0% of the batch's work on pieces
a line of the script's
whale: cut signature 2:
whale:   checked: 4 tensors that updates read agree whole and cut (to 4.1e-07)
whale: cut signature 5:
whale:   batch: global, the script's batch is cut
whale: cut signature 5:
whale:   not checked: every replica draws its own batch
"""


def test_a_signature_that_was_checked_counts_once() -> None:
    plan = parse_plan(PRINTED.splitlines())
    assert plan.cut == (
        "signature 2: batch: global, the script's batch is cut; 100.0% of the batch's work on pieces",
        "signature 5: batch: global, the script's batch is cut",
    )
    assert plan.verdict == "cut"


def test_a_cut_that_was_refused_is_a_reason() -> None:
    refused = "the check before the first update failed: 'g:0', read by 'u', differs by 1.0e+00 of its size"
    plan = parse_plan(["whale: cut signature 2:", "whale:   batch: global", f"whale: one replica: {refused}"])
    assert plan.cut and plan.kept == (refused,)


def test_reasons_are_told_once() -> None:
    plan = parse_plan(["whale: one replica: Unique has no sharding rule"] * 2)
    assert plan.verdict == "one replica" and plan.kept == ("Unique has no sharding rule",)
    assert parse_plan(["nothing of ours"]).verdict == "no plan"
