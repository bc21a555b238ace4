"""What a plan costs does not depend on devices that it leaves alone, nor long steps on being simulated whole."""

from __future__ import annotations

import pytest

from tests.planner.search.models import block, cluster, known
from whale.cost_model import Chain, ParallelPlan, StagePlan, World
from whale.planner.search.tables import Setting, Tables
from whale.planner.search.world import Judge

CHAIN = Chain((block(1e12, 10**8, 1e6, 1e6), block(3e12, 10**6, 1e6, 1e6), block(2e12, 10**8, 1e6, 0.0)))


def judge(*machines: int) -> Judge:
    devices = cluster(*((("V100", count, 16.0),) for count in machines), network=1e9)
    return Judge(CHAIN, World(devices, coefficients=known()))


def names(judge: Judge, host: int, count: int) -> list[str]:
    return [d.name for d in judge.world.cluster.devices if d.host == f"host{host}"][:count]


def test_an_idle_device_takes_nothing_of_the_network() -> None:
    few, many = judge(1, 1), judge(4, 4)
    plans = [
        ParallelPlan((StagePlan(0, 3, tuple((names(j, host, 1)[0],) for host in (0, 1))),), 4) for j in (few, many)
    ]
    assert few.estimate(plans[0]).step_seconds == many.estimate(plans[1]).step_seconds


@pytest.mark.parametrize("schedule", ["one_f_one_b", "prefer_backward_optimizer"])
def test_a_long_step_is_the_same_as_two_short_ones_extended(schedule: str) -> None:
    made = judge(3)
    devices = names(made, 0, 3)
    stages = tuple(StagePlan(i, i + 1, ((device,),)) for i, device in enumerate(devices))
    plan = ParallelPlan(stages, 5000, 5000, schedule=schedule)  # type: ignore[arg-type]
    assert made.estimate(plan).step_seconds == pytest.approx(made.whole_step(plan).step_seconds, rel=1e-9)
    assert made.estimate(plan).bubble == pytest.approx(made.whole_step(plan).bubble, abs=1e-3)


@pytest.mark.parametrize("cuts", [(0, 3), (0, 1, 3), (0, 1, 2, 3)])
def test_tables_say_what_the_simulation_says(cuts: tuple[int, ...]) -> None:
    made = judge(3)
    devices = names(made, 0, 3)
    samples, pieces = 4, 2
    stages = tuple(StagePlan(a, b, ((d,),)) for a, b, d in zip(cuts, cuts[1:], devices))
    estimate = made.estimate(ParallelPlan(stages, samples * pieces, pieces))
    tables = Tables(CHAIN, range(4), made.world, "fp32")
    group = made.world.cluster.devices[:1]
    table = tables.table("V100", Setting(samples), group, made.world.topology)
    count = len(stages)
    live = [min(pieces, count - s) for s in range(count)]
    need = tables.need(Setting(samples), cuts, live, doubled=False)
    for number, (i, j) in enumerate(zip(cuts, cuts[1:])):
        use = estimate.memory[devices[number]].total
        assert need[number] == pytest.approx(use)
        assert table.need(live[number], pieces, separate=False)[i, j] == pytest.approx(use)
    busiest = max(float(table.work[i, j]) for i, j in zip(cuts, cuts[1:]))
    assert estimate.compute_seconds == pytest.approx(pieces * busiest)
