"""Batch shares over unequal replicas.

Problem: replicas r of R take whole numbers of samples n_r with ``sum n_r = B`` and ``floor_r <= n_r <= cap_r``;
minimise ``max_r t_r(n_r)``, where each t_r does not decrease. Memory is the cap: what a replica needs grows with its
samples.

Solved by parametric search: for a time limit, each replica takes the most samples that it finishes in it, and the limit
is right when these make up the batch. First the limit is halved in until few values are left, then it goes down from
one reached time to the next, so that the result is exact: no allocation is faster. Cost: O(log(range) K log B) times,
for K kinds of replicas.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

Seconds = Callable[[int], float]
"""The time of a replica for a number of samples; does not decrease."""

_NARROW = 1e-9
"""Limits that are closer than this are taken for one; the last steps are exact all the same."""


@dataclasses.dataclass(frozen=True)
class Taker:
    """Replicas that are alike."""

    seconds: Seconds
    count: int = 1
    """How many there are."""
    cap: int = 1 << 30
    """The most samples that one has memory for."""
    floor: int = 0
    """The fewest samples that one must take."""


@dataclasses.dataclass(frozen=True)
class Shares:
    """An allocation."""

    samples: tuple[tuple[int, ...], ...]
    """For each taker, the samples of each of its replicas."""
    seconds: float
    """Of the slowest replica."""


def share(takers: Sequence[Taker], total: int) -> Shares | None:
    """The allocation with the least time of the slowest replica; None when the replicas have no room for the total.

    Among equal ones the first takers have the most, which makes the result one for the same input.
    """
    if total < 1 or any(t.cap < t.floor for t in takers):
        return None
    floors = sum(t.count * t.floor for t in takers)
    room = sum(t.count * min(t.cap, total) for t in takers)
    if not floors <= total <= room:
        return None
    times = [functools.cache(t.seconds) for t in takers]
    # What each replica takes within a limit that is too short, and within one that is long enough.
    fewest = [t.floor for t in takers]
    best = [min(t.cap, total) for t in takers]

    def most(limit: float, strict: bool) -> list[int] | None:
        """For each taker the most samples within a limit; None where these do not make up the total."""
        found: list[int] = []
        for seconds, least, greatest in zip(times, fewest, best):
            low, high = least - 1, greatest
            while low < high:
                middle = (low + high + 1) // 2
                value = seconds(middle) if middle > 0 else 0.0
                within = value < limit if strict else value <= limit
                low, high = (middle, high) if within else (low, middle - 1)
            found.append(low)
        short = sum(t.count * n for t, n in zip(takers, found)) < total
        return None if short or any(n < t.floor for n, t in zip(found, takers)) else found

    def slowest(found: list[int]) -> float:
        return max((seconds(n) for seconds, n in zip(times, found) if n > 0), default=0.0)

    low, high = slowest(fewest), slowest(best)
    while sum(b - f for f, b in zip(fewest, best)) > 2 * len(takers) and high - low > _NARROW * high:
        middle = (low + high) / 2
        tried = most(middle, strict=False)
        if tried is not None:
            best, high = tried, min(middle, slowest(tried))
        else:
            low = middle
            fewest = [_within(times[i], middle, fewest[i], best[i]) for i in range(len(takers))]
    while True:  # from one reached time to the next lower one
        tried = most(slowest(best), strict=True)
        if tried is None:
            break
        best = tried
    samples = _trimmed(takers, times, best, total)
    seconds = max(
        (times[i](n) for i, counts in enumerate(samples) for n in counts if n > 0),
        default=0.0,
    )
    return Shares(samples, seconds)


def _within(seconds: Seconds, limit: float, low: int, high: int) -> int:
    """The most samples within a limit, where ``low`` are, or ``low`` if none are."""
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if seconds(middle) <= limit else (low, middle - 1)
    return low


def _trimmed(
    takers: Sequence[Taker], times: Sequence[Seconds], most: Sequence[int], total: int
) -> tuple[tuple[int, ...], ...]:
    """Takes away what is more than the total, one sample at a time from the slowest replica that may give one.

    Replicas of one taker stay within one sample of each other.
    """
    sums = [t.count * n for t, n in zip(takers, most)]
    surplus = sum(sums) - total
    while surplus > 0:
        giving = [i for i, t in enumerate(takers) if sums[i] > t.count * t.floor]
        # The fullest replica of a taker holds its share rounded up.
        fullest = [(times[i](-(-sums[i] // takers[i].count)), i) for i in giving]
        slowest = max(fullest)[1]
        step = max(1, min(surplus, sums[slowest] - takers[slowest].count * takers[slowest].floor) // 64)
        sums[slowest] -= step
        surplus -= step
    return tuple(
        tuple(s // t.count + (1 if i < s % t.count else 0) for i in range(t.count)) for t, s in zip(takers, sums)
    )
