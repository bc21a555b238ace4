"""Bounds of the copies' samples; sizes as numbers and as nodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whale.rewriter.sizes import bounds

counts = st.integers(0, 10_000)
shares = st.lists(st.integers(0, 9), min_size=1, max_size=8).filter(any)


@given(counts, shares)
def test_bounds_partition_the_batch(count: int, shares: list[int]) -> None:
    found = bounds(count, shares)
    assert len(found) == len(shares) + 1
    assert found[0] == 0 and found[-1] == count
    assert found == sorted(found)


@given(counts, st.integers(1, 16), st.integers(1, 5))
def test_equal_shares_differ_by_at_most_one_sample(count: int, replicas: int, share: int) -> None:
    found = bounds(count, [share] * replicas)
    sizes = [end - begin for begin, end in zip(found, found[1:])]
    assert max(sizes) - min(sizes) <= 1
    assert found == bounds(count, [1] * replicas)


@given(counts, shares)
def test_a_copy_is_within_one_sample_of_its_share(count: int, shares: list[int]) -> None:
    found = bounds(count, shares)
    for share, begin, end in zip(shares, found, found[1:]):
        assert abs((end - begin) - count * share / sum(shares)) < 1


@given(counts, shares)
def test_a_share_of_nothing_gets_nothing(count: int, shares: list[int]) -> None:
    found = bounds(count, shares)
    assert all(begin == end for share, begin, end in zip(shares, found, found[1:]) if share == 0)


@pytest.mark.parametrize(
    ("count", "shares", "sizes"),
    [
        (8, (3, 1), [6, 2]),
        (7, (3, 1), [5, 2]),
        (1, (3, 1), [0, 1]),
        (16, (5, 2, 1), [10, 4, 2]),
        (7, (5, 2, 1), [4, 2, 1]),
        (5, (1, 1), [2, 3]),
        (5, (1, 1, 1), [1, 2, 2]),
        (1, (1, 1, 1), [0, 0, 1]),
        (0, (1, 1), [0, 0]),
    ],
)
def test_shares(count: int, shares: tuple[int, ...], sizes: list[int]) -> None:
    found = bounds(count, shares)
    assert [end - begin for begin, end in zip(found, found[1:])] == sizes
