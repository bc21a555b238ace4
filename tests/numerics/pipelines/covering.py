"""Few combinations of many axes in which every pair of values of two axes occurs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

Combination = dict[str, Any]
"""A value for each axis."""


def product(axes: Mapping[str, Sequence[Any]]) -> list[Combination]:
    """All combinations, the last axis changing fastest."""
    return [dict(zip(axes, values)) for values in itertools.product(*axes.values())]


def pairwise(axes: Mapping[str, Sequence[Any]]) -> list[Combination]:
    """Combinations in which every pair of values of two axes occurs at least once.

    Greedy: the combination with most pairs that have not occurred yet comes next, the first of equals; the result is
    the same in every run. Values of an axis must differ from one another.
    """
    left = {pair for combination in product(axes) for pair in pairs(combination)}
    chosen: list[Combination] = []
    while left:
        best = max(product(axes), key=lambda combination: len(pairs(combination) & left))
        left -= pairs(best)
        chosen.append(best)
    return chosen


def pairs(combination: Combination) -> set[tuple[tuple[str, Any], tuple[str, Any]]]:
    """The pairs of values of a combination."""
    return set(itertools.combinations(combination.items(), 2))
