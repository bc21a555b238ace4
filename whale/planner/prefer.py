"""The simplest of the plans that are as good as equal."""

from __future__ import annotations

import dataclasses

from whale.planner.search.families import Family, Judged, Loser, family_of, why_it_lost, why_not_executable
from whale.planner.search.search import Found

ALIKE = 0.02
"""Steps that differ by less than this part are told apart by no cost model."""


def simplest(found: Found, alike: float = ALIKE) -> Found:
    """What was found, or a simpler plan that can run and is as good as equal, with the first among the losers.

    A plan is simpler that has no pipeline; then one without unequal shares; then one on fewer devices.

    Args:
        found: what a search found.
        alike: part by which steps may differ.
    """
    limit = found.estimate.step_seconds * (1 + alike)
    best = Judged(found.plan, found.estimate)
    others = [loser.judged for loser in found.runners_up]
    equal = [j for j in others if j.fits and not why_not_executable(j.plan) and j.seconds <= limit]
    chosen = min([best, *equal], key=_effort)
    if chosen is best:
        return found
    family = family_of(best.plan)
    words = f"{(chosen.seconds / best.seconds - 1) * 100:.2g} % faster, and less simple"
    losers = [Loser(family, best, words)]
    for loser in found.runners_up:
        if loser.judged is not chosen:
            refused = why_not_executable(loser.judged.plan)
            losers.append(dataclasses.replace(loser, reason=why_it_lost(loser.judged, chosen.seconds, refused)))
    # It is no longer that no plan is faster.
    return dataclasses.replace(found, plan=chosen.plan, estimate=chosen.estimate, runners_up=tuple(losers), exact=False)


def _effort(judged: Judged) -> tuple[bool, bool, int, float]:
    family: Family = family_of(judged.plan)
    return (family.pipeline, family.unequal, len(judged.plan.devices), judged.seconds)
