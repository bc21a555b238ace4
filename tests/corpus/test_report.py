"""The page: counts, times and commits of its rows."""

from __future__ import annotations

from tests.corpus import report


def row(name: str, plain: float, whale: float, cut: tuple[str, ...] = ("a",), commit: str = "") -> report.Row:
    return report.Row(
        name, "owner/name", "", "kit", 2, "cut", cut, (), report.EQUAL, (), 3, 0.0, plain, whale, commit=commit
    )


def test_the_median_and_the_worst_time_of_a_process_are_told() -> None:
    page = report.markdown([row("a", 2, 3), row("b", 1, 8), row("c", 4, 8)], 1e-4, 3)
    assert "3 scripts: 3 cut, 3 equal. A process takes 2.0 times the processor time" in page
    assert "(median); b 8.0 times." in page


def test_the_commits_of_the_rows_are_told_once_each() -> None:
    page = report.markdown(
        [row("a", 1, 1, commit="abc"), row("b", 1, 1, commit="def"), row("c", 1, 1, commit="abc")], 1e-4, 3
    )
    assert " Commit abc, def.\n" in page
    assert " Commit" not in report.markdown([row("a", 1, 1)], 1e-4, 3)


def test_the_shares_of_cut_signatures_are_shown_once_each() -> None:
    cut = tuple(f"signature 1: batch; {share} of the batch's work on pieces" for share in ("86.9%", "100%"))
    page = report.markdown([row("a", 1, 1, (*cut, cut[1])), row("b", 1, 1)], 1e-4, 3)
    assert "| cut (3: 86.9%, 100%) |" in page
    assert "| cut (1) |" in page
