"""Proposals that wait for their simulation, least bound first."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

from whale.cost_model import ParallelPlan
from whale.planner.search.families import Family
from whale.planner.search.space import Space

Make = Callable[[], Sequence[ParallelPlan]]
"""Puts a proposal's plans together; several where devices can be placed in several ways."""

_ROUND = 32
"""After so many proposals the best ones are simulated, which rules out further ones."""

_FEW = 2
"""How many that are."""


_LOOKS = 4
"""Cases of a family that are solved only to say why it lost."""


class Looks:
    """Decides which cases are solved: all whose bound is below the best, and of each family a few more."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self._counts: dict[Family, int] = {}

    def worth(self, family: Family, bound: float) -> bool:
        """Whether a case of a family is to be solved."""
        if bound >= self.space.limit(family):
            return False
        count = self._counts[family] = self._counts.get(family, 0) + 1
        return count <= _LOOKS or bound < self.space.to_beat(family)


class Waiting:
    """A queue of proposals. Bounds leave out shared links and bubbles, so the best few are simulated, not the best."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self._heap: list[tuple[float, int, Family, Make]] = []
        self._pushed = 0

    def push(self, bound: float, family: Family, make: Make) -> None:
        """Adds a proposal, unless its bound says that it is not worth it."""
        if family not in self.space.standings.families:
            self._consider(make)  # without one of its plans nothing is known of a family
        elif bound < self.space.limit(family):
            heapq.heappush(self._heap, (bound, self._pushed, family, make))
            self._pushed += 1
            if self._pushed % _ROUND == 0:
                self.simulate(_FEW)

    def simulate(self, most: int) -> None:
        """Simulates so many proposals."""
        while self._heap and most:
            bound, _, family, make = heapq.heappop(self._heap)
            if bound < self.space.limit(family):
                most -= 1
                self._consider(make)

    def finish(self, part: int = 1) -> None:
        """Simulates as many as the options allow, or a part of them."""
        self.simulate(-(-self.space.options.simulations // part))

    def _consider(self, make: Make) -> None:
        for plan in make():
            self.space.standings.consider(plan)
