"""Units of long chains."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from whale.planner.search.blocks import merge


@given(st.lists(st.integers(1, 100), min_size=1, max_size=40), st.integers(1, 12))
def test_units_cover_the_chain_and_are_small(work: list[int], limit: int) -> None:
    edges = merge([float(w) for w in work], limit)
    assert edges[0] == 0
    assert edges[-1] == len(work)
    assert list(edges) == sorted(set(edges))
    assert len(edges) - 1 == min(limit, len(work))
    # Each merge took the lightest pair, so that no two units together are lighter than what was merged last.
    units = [sum(work[a:b]) for a, b in zip(edges, edges[1:])]
    if len(units) > 1 and len(work) > limit:
        lightest_pair = min(a + b for a, b in zip(units, units[1:]))
        merged = [unit for unit, a, b in zip(units, edges, edges[1:]) if b - a > 1]
        assert max(merged) <= max(lightest_pair, max(work)) * 2


def test_equal_blocks_make_equal_units() -> None:
    assert merge([1.0] * 8, 4) == (0, 2, 4, 6, 8)
