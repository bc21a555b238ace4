"""Layouts of blocks against every choice, and against the bound of the relaxation."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whale.errors import PlanError
from whale.planner.search.sharding import Costs, shard, total_seconds


@st.composite
def costs(draw: st.DrawFn) -> Costs:
    blocks = draw(st.integers(1, 4))
    number = st.integers(1, 20)

    def table(rows: int) -> list[list[float]]:
        return [[float(draw(number)) for _ in range(3)] for _ in range(rows)]

    return Costs(table(blocks), table(blocks), [table(3) for _ in range(blocks - 1)])


@settings(max_examples=60, deadline=None)
@given(costs(), st.integers(1, 80))
def test_no_choice_is_faster(given_costs: Costs, memory: int) -> None:
    fitting = [
        total_seconds(given_costs, layouts)
        for layouts in itertools.product(range(3), repeat=len(given_costs.seconds))
        if sum(row[layout] for row, layout in zip(given_costs.bytes, layouts)) <= memory
    ]
    if not fitting:
        with pytest.raises(PlanError, match="smallest layouts"):
            shard(given_costs, memory)
        return
    found = shard(given_costs, memory)
    assert found.seconds == pytest.approx(min(fitting))
    assert found.bound <= found.seconds + 1e-6
    assert sum(row[layout] for row, layout in zip(given_costs.bytes, found.layouts)) <= memory


@settings(max_examples=30, deadline=None)
@given(costs())
def test_with_enough_memory_the_relaxation_proves_the_choice(given_costs: Costs) -> None:
    assert shard(given_costs, 1e9).gap == pytest.approx(0.0, abs=1e-6)
