"""Of plans that are as good as equal, the simplest."""

from __future__ import annotations

import dataclasses

from tests.planner.search.models import block, cluster, known
from whale.cost_model import Chain, Recompute
from whale.planner.prefer import simplest
from whale.planner.search.families import family_of
from whale.planner.search.options import SearchOptions
from whale.planner.search.search import Found, search

CHAIN = Chain((block(1e10, 10**6, 1e4, 1e3),) * 4)


def found() -> Found:
    options = SearchOptions(8, executable_only=True, tensor_parallel=1, recompute=(Recompute.NONE,))
    return search(CHAIN, cluster((("P100", 2, 16.0), ("T4", 2, 16.0))), options, coefficients=known())


def test_a_clear_winner_stays() -> None:
    best = found()
    assert simplest(best, alike=0.0) is best


def test_within_reach_the_simplest_is_taken_and_the_first_is_told() -> None:
    best = found()
    chosen = simplest(best, alike=100.0)
    family = family_of(chosen.plan)
    assert not family.pipeline and not family.unequal
    # One device is the fewest, and everything is within reach.
    assert len(chosen.plan.devices) == 1
    assert chosen.runners_up[0].judged.plan == best.plan
    assert "faster, and less simple" in chosen.runners_up[0].reason
    assert len(chosen.runners_up) == len(best.runners_up)
    assert all("times the best" in loser.reason for loser in chosen.runners_up[1:] if loser.judged.fits)


def test_what_cannot_run_or_does_not_fit_is_never_taken() -> None:
    best = found()
    worse = [dataclasses.replace(loser, judged=dataclasses.replace(loser.judged)) for loser in best.runners_up]
    for loser in worse:
        object.__setattr__(loser.judged, "fits", False)
    assert simplest(dataclasses.replace(best, runners_up=tuple(worse)), alike=100.0).plan == best.plan
