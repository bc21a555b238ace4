"""Local mode: a step of M micro-batches on R replicas equals one device that is fed its M x R draws at once."""

from __future__ import annotations

import pytest

from tests.numerics.pipelines import models
from tests.numerics.pipelines.compare import compare, on_one_device
from tests.numerics.pipelines.scopes import Cut
from whale.errors import PlanError

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

ENDINGS = {"whole steps": 0, "a last step of fewer draws": 3, "a last draw of fewer rows": 4}
"""How the data end, and the rows beyond whole steps."""

BATCH = 3
"""Rows of a draw."""

RUNS = [
    *((models.mlp, Cut(2, 2, 2), ending) for ending in ENDINGS),
    (models.mlp, Cut(4, 5, 1, "PreferForward"), "a last step of fewer draws"),
    (models.language_model, Cut(3, 4, 1, "PreferBackwardOptimizer"), "a last draw of fewer rows"),
    (models.lstm, Cut(2, 2, 1), "a last step of fewer draws"),
    (models.bert, Cut(4, 2, 1, "Interleaved"), "a last draw of fewer rows"),
]


@pytest.mark.parametrize(("model", "cut", "ending"), RUNS, ids=[f"{m.__name__}, {c}, {e}" for m, c, e in RUNS])
def test_draws_equal_one_device_fed_all_of_them(model: models.Model, cut: Cut, ending: str) -> None:
    rows = 2 * BATCH * cut.copies + ENDINGS[ending]
    text = compare(models.drawn(model, BATCH, rows, copies=cut.copies), cut, mode="local")
    assert f"a step draws {cut.copies} batches of the script" in text


@pytest.mark.parametrize("more", [0, 3, 7])
def test_with_drop_remainder_only_whole_steps_are_made(more: int) -> None:
    """One device drops what fills no batch of its own, which is a step."""
    cut = Cut(2, 4, 1)
    compare(models.drawn(models.mlp, BATCH, 24 + more, drop_remainder=True, copies=4), cut, mode="local")


def test_the_default_mode_of_an_annotated_script_is_local() -> None:
    cut = Cut(2, 2)
    script = models.drawn(models.mlp, 3, 12, copies=2)
    assert "local" in compare(script, cut, on_one_device(script), mode="")


def test_what_is_fed_is_cut_in_local_mode_too() -> None:
    """There is one feed, whatever the mode."""
    compare(models.fed(models.mlp), Cut(3, 4), mode="local")


def test_draws_that_the_script_writes_as_one_row_are_refused_with_the_way_out() -> None:
    """Dims of one cannot be told from such a batch: a sum over it looks like one over a dim that was broadcast."""
    with pytest.raises(PlanError, match=r"always has one row.*no drop_remainder"):
        compare(models.drawn(models.mlp, 1, 8, drop_remainder=True, copies=4), Cut(2, 2, 2), mode="local")
