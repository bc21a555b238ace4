"""The state of a search: what was simulated, the best of each family, what is still worth a look."""

from __future__ import annotations

import math
from collections.abc import Sequence

from whale.cost_model import ParallelPlan
from whale.errors import ClusterError
from whale.planner.search.families import Family, Judged, family_of, why_not_executable
from whale.planner.search.options import SearchOptions
from whale.planner.search.world import Judge

_ATTEMPTS = 4
"""So many plans of each family are simulated whatever the others reach, to say why it lost."""


class Standings:
    """Keeps the fastest plan that fits, overall, of what can run today, and of each family."""

    def __init__(self, judge: Judge, options: SearchOptions) -> None:
        self.judge = judge
        self.options = options
        self.best: Judged | None = None
        """The fastest plan that fits."""
        self.executable: Judged | None = None
        """The fastest plan that fits and that the rewriter can emit."""
        self.smallest: Judged | None = None
        """The plan that is short of the fewest bytes, while none fits."""
        self.families: dict[Family, Judged] = {}
        self.broken_link: ClusterError | None = None
        """Why a plan could not be simulated."""
        self._attempts: dict[Family, int] = {}

    def consider(self, plan: ParallelPlan) -> Judged | None:
        """Simulates a plan; None where a link that it needs is down."""
        try:
            judged = Judged(plan, self.judge.estimate(plan))
        except ClusterError as error:
            self.broken_link = error
            return None
        family = family_of(plan)
        self._attempts[family] = self._attempts.get(family, 0) + 1
        if better(judged, self.families.get(family)):
            self.families[family] = judged
        if better(judged, self.smallest):
            self.smallest = judged
        if judged.fits:
            if better(judged, self.best):
                self.best = judged
            if self.can_run(plan) and better(judged, self.executable):
                self.executable = judged
        return judged

    def can_run(self, plan: ParallelPlan) -> bool:
        """Whether the rewriter can emit a plan."""
        return not why_not_executable(plan)

    def limit(self, family: Family, executable: bool) -> float:
        """Plans of a family whose bound is not below this many seconds need no look."""
        known = self.families.get(family)
        if known is None:
            return math.inf
        if self._attempts[family] < _ATTEMPTS:
            return known.seconds if known.fits else math.inf
        return self.to_beat(executable)

    def to_beat(self, executable: bool) -> float:
        """The best step so far, of the plans that can run today or of all."""
        rival = self.executable if executable else self.best
        return rival.seconds if rival else math.inf

    def leaders(self, count: int) -> Sequence[Judged]:
        """The best plans of the best families, those that can run today among them."""
        fitting = [judged for judged in self.families.values() if judged.fits]
        ranked = sorted(fitting, key=lambda judged: judged.seconds)[:count]
        if self.executable is not None and self.executable not in ranked:
            ranked.append(self.executable)
        return ranked


def better(new: Judged, old: Judged | None) -> bool:
    """Whether a plan comes before another: it fits and is faster, or neither fits and it is short of less."""
    if old is None:
        return True
    if new.fits != old.fits:
        return new.fits
    if not new.fits:
        return new.shortage < old.shortage
    return new.seconds < old.seconds
