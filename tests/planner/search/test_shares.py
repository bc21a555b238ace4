"""Batch shares against every allocation."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whale.planner.search.shares import Taker, share


def brute_force(takers: list[Taker], total: int) -> float | None:
    """The least time of the slowest replica, over every allocation."""
    replicas = [t for t in takers for _ in range(t.count)]
    ranges = [range(t.floor, min(t.cap, total) + 1) for t in replicas]
    times = [
        max(t.seconds(n) if n else 0.0 for t, n in zip(replicas, samples))
        for samples in itertools.product(*ranges)
        if sum(samples) == total
    ]
    return min(times, default=None)


@st.composite
def taker(draw: st.DrawFn) -> Taker:
    steps = draw(st.lists(st.integers(0, 5), min_size=10, max_size=10))
    times = [float(draw(st.integers(0, 3)))]
    for step in steps:
        times.append(times[-1] + step)
    floor = draw(st.integers(0, 2))
    return Taker(lambda n: times[n], draw(st.integers(1, 2)), draw(st.integers(floor, 8)), floor)


@given(st.lists(taker(), min_size=1, max_size=3), st.integers(1, 8))
def test_no_allocation_is_faster(takers: list[Taker], total: int) -> None:
    found = share(takers, total)
    expected = brute_force(takers, total)
    if found is None:
        assert expected is None
        return
    assert found.seconds == expected
    assert sum(sum(samples) for samples in found.samples) == total
    for t, samples in zip(takers, found.samples):
        assert len(samples) == t.count
        assert all(t.floor <= n <= t.cap for n in samples)


def test_a_device_twice_as_fast_takes_twice_the_samples() -> None:
    found = share([Taker(lambda n: n * 1.0), Taker(lambda n: n * 2.0)], 300)
    assert found is not None
    assert found.samples == ((200,), (100,))


def test_memory_moves_samples_to_others() -> None:
    found = share([Taker(lambda n: n * 1.0, cap=50), Taker(lambda n: n * 2.0)], 300)
    assert found is not None
    assert found.samples == ((50,), (250,))


def test_what_has_no_room_has_no_allocation() -> None:
    assert share([Taker(lambda n: float(n), count=2, cap=3)], 7) is None


def test_a_slow_device_takes_nothing() -> None:
    found = share([Taker(lambda n: float(n)), Taker(lambda n: 1000.0 * n)], 10)
    assert found is not None
    assert found.samples == ((10,), (0,))


@pytest.mark.parametrize("total", [1, 97, 4096])
def test_large_batches_are_dealt_evenly_to_equal_devices(total: int) -> None:
    found = share([Taker(lambda n: float(n), count=16)], total)
    assert found is not None
    assert max(found.samples[0]) - min(found.samples[0]) <= 1
