"""Orders of node groups against every permutation."""

from __future__ import annotations

import itertools
import math

from hypothesis import given, settings
from hypothesis import strategies as st

from whale.planner.search.order import best_path, joined_sets, path_cost


@st.composite
def costs(draw: st.DrawFn, most: int = 6) -> list[list[float]]:
    count = draw(st.integers(1, most))
    found = [[0.0] * count for _ in range(count)]
    for a, b in itertools.combinations(range(count), 2):
        found[a][b] = found[b][a] = float(draw(st.integers(1, 20)))
    return found


@given(costs())
def test_no_permutation_is_shorter(given_costs: list[list[float]]) -> None:
    path = best_path(given_costs)
    assert sorted(path) == list(range(len(given_costs)))
    shortest = min(path_cost(given_costs, p) for p in itertools.permutations(range(len(given_costs))))
    assert path_cost(given_costs, path) == shortest


def test_many_groups_in_a_ring_of_fast_links_are_walked_along_it() -> None:
    count = 16
    place = [(5 * i) % count for i in range(count)]  # a group's position on the ring
    ring = [[float(min((a - b) % count, (b - a) % count)) for b in place] for a in place]
    path = best_path(ring)
    assert sorted(path) == list(range(count))
    assert path_cost(ring, path) == count - 1
    assert best_path(ring) == path


@settings(max_examples=50)
@given(st.integers(1, 6), st.data())
def test_joined_sets_are_the_largest_without_a_dead_link(count: int, data: st.DataObject) -> None:
    matrix = [[0.0] * count for _ in range(count)]
    for a, b in itertools.combinations(range(count), 2):
        matrix[a][b] = matrix[b][a] = math.inf if data.draw(st.booleans()) else 1.0
    names = [str(i) for i in range(count)]

    def joined(members: tuple[int, ...]) -> bool:
        return all(matrix[a][b] < math.inf for a, b in itertools.combinations(members, 2))

    every = [m for n in range(1, count + 1) for m in itertools.combinations(range(count), n) if joined(m)]
    largest = [m for m in every if not any(set(m) < set(other) for other in every)]
    assert joined_sets(names, matrix) == [tuple(names[i] for i in m) for m in sorted(largest)]
