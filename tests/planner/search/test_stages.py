"""Cut points against every pipeline."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whale.planner.search.stages import RowKind, count_usages, cut_stages


@st.composite
def row_kinds(draw: st.DrawFn, count: int) -> RowKind:
    """A kind of row with times and memory of units, and a cap that may bind."""
    speed = draw(st.integers(1, 4))
    times = draw(st.lists(st.integers(1, 9), min_size=count, max_size=count))
    held = draw(st.lists(st.integers(0, 5), min_size=count, max_size=count))
    state = draw(st.lists(st.integers(0, 5), min_size=count, max_size=count))
    work = np.full((count, count + 1), np.inf)
    bytes_held, bytes_state = np.zeros((count, count + 1)), np.zeros((count, count + 1))
    for i in range(count):
        for j in range(i + 1, count + 1):
            work[i, j] = sum(times[i:j]) * speed
            bytes_held[i, j] = sum(held[i:j])
            bytes_state[i, j] = sum(state[i:j])
    memory = [bytes_state + live * bytes_held for live in range(1, count + 1)]
    tail = np.array([0.0, *(float(draw(st.integers(0, 9))) for _ in range(count))])
    return RowKind(draw(st.integers(0, 3)), work, memory, float(draw(st.integers(5, 80))), tail)


def bound(
    kinds: list[RowKind], send: list[float], micro_batches: int, cuts: tuple[int, ...], of: tuple[int, ...]
) -> float:
    """The pipeline bound of one pipeline, endless when it does not fit: the sum of the docstring, written out."""
    stages = len(of)
    before, worst = 0.0, 0.0
    for s, (i, j) in enumerate(zip(cuts, cuts[1:])):
        kind = kinds[of[s]]
        if kind.memory[min(stages - 1 - s, len(kind.memory) - 1)][i, j] > kind.cap:
            return math.inf
        worst = max(worst, before + micro_batches * kind.work[i, j])
        before += kind.work[i, j] + 2 * send[j]
    return worst + kinds[of[0]].tail[cuts[1]]


def every(kinds: list[RowKind], send: list[float], micro_batches: int, stages: int) -> float:
    """The least bound over every pipeline of so many stages."""
    count = kinds[0].work.shape[0]
    found = [math.inf]
    for inner in itertools.combinations(range(1, count), stages - 1):
        for of in itertools.product(range(len(kinds)), repeat=stages):
            if all(of.count(k) <= kind.rows for k, kind in enumerate(kinds)):
                found.append(bound(kinds, send, micro_batches, (0, *inner, count), of))
    return min(found)


@settings(max_examples=150)
@given(st.data())
def test_no_pipeline_has_a_lower_bound(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 5))
    kinds = [data.draw(row_kinds(count)) for _ in range(data.draw(st.integers(1, 2)))]
    send = [float(data.draw(st.integers(0, 4))) for _ in range(count + 1)]
    micro_batches = data.draw(st.integers(1, 4))
    found = {len(cut.kinds): cut for cut in cut_stages(kinds, send, micro_batches, count)}
    for stages in range(1, count + 1):
        expected = every(kinds, send, micro_batches, stages)
        if stages in found:
            cut = found[stages]
            assert cut.seconds == pytest.approx(expected)
            assert bound(kinds, send, micro_batches, cut.boundaries, cut.kinds) == pytest.approx(expected)
        else:
            assert expected == math.inf


def test_the_number_of_usages_is_counted_right() -> None:
    rows = (2, 3, 1)
    counted = sum(1 for u in itertools.product(*(range(r + 1) for r in rows)) if 1 <= sum(u) <= 4)
    assert count_usages(rows, 4) == counted
