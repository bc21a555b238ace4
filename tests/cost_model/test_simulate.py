"""Steps run on paper, against times worked out by hand."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cost_model.models import chain, cluster, coefficients, plan
from whale.cluster import Cluster
from whale.cost_model import Coefficients, ParallelPlan, Recompute, World, simulate
from whale.errors import ClusterError, PlanError
from whale.ir.schedule_timing import timing
from whale.ir.schedules import one_f_one_b

FLOPS = 15.7e12
"""Of a V100, with all coefficients one."""
FORWARD = 4 * 8 * 1e12 / FLOPS
"""Seconds of the forward pass over four blocks of 1e12 FLOPs a sample, for eight samples."""
UPDATE = 4 * 1000 * 4 / 900e9


def world(devices: Cluster, found: Coefficients | None = None) -> World:
    return World(devices, coefficients=found or coefficients())


def test_one_device_takes_forward_backward_and_update() -> None:
    one = cluster(devices=1)
    estimate = simulate(chain(), plan(one), world(one))
    assert estimate.step_seconds == pytest.approx(3 * FORWARD + UPDATE)
    assert estimate.bubble == pytest.approx(0.0)


def test_recomputation_runs_the_forward_pass_again() -> None:
    one = cluster(devices=1)
    estimate = simulate(chain(), plan(one, recompute=Recompute.FULL), world(one))
    assert estimate.step_seconds == pytest.approx(4 * FORWARD + UPDATE)


def test_a_pipeline_has_the_times_of_its_schedule() -> None:
    two = cluster(devices=2)
    estimate = simulate(chain(output=0.0), plan(two, stages=2, micro_batches=4), world(two))
    half = FORWARD / 2 / 4
    expected = timing(one_f_one_b(2, 4), half, 2 * half)
    assert estimate.step_seconds == pytest.approx(expected.makespan + UPDATE / 2)
    assert estimate.bubble == pytest.approx(expected.bubble)


def test_replicas_reduce_their_gradients() -> None:
    two = cluster(devices=2)
    parameters = 10**9
    estimate = simulate(chain(1, parameters=parameters), plan(two, replicas=2, blocks=1), world(two))
    # Two GPUs of a cube mesh share one of six links: 25 GB/s.
    reduction = parameters * 4 / 25e9
    assert estimate.reduce_seconds == pytest.approx(reduction)
    assert estimate.step_seconds == pytest.approx(3 * FORWARD / 4 / 2 + reduction + parameters * 4 / 900e9)


def test_a_reduction_hides_behind_the_last_backward_pass() -> None:
    two = cluster(devices=2)
    hidden = coefficients(communication__horovod__overlap=1.0)
    estimate = simulate(chain(1, parameters=10**9), plan(two, replicas=2, blocks=1), world(two, hidden))
    assert estimate.reduce_seconds == pytest.approx(0.0)


def test_tensor_parallel_devices_divide_the_work_and_exchange() -> None:
    two = cluster(devices=2)
    output = 10**8
    estimate = simulate(chain(output=float(output)), plan(two, parts=2), world(two))
    exchange = 4 * 2 * (8 * output * 4 / 25e9)
    assert estimate.step_seconds == pytest.approx(3 * FORWARD / 2 + exchange + UPDATE / 2)


def test_the_runtime_bounds_a_pass_of_many_small_kernels() -> None:
    one = cluster(devices=1)
    slow = coefficients(runtime__tensorflow__dispatch=1.0)
    estimate = simulate(chain(flops=1.0), plan(one), world(one, slow))
    assert estimate.step_seconds == pytest.approx(12.0)


def test_unequal_shares_take_as_long_as_the_larger() -> None:
    two = cluster(devices=2)
    equal = simulate(chain(parameters=0), plan(two, replicas=2), world(two))
    skewed = simulate(chain(parameters=0), plan(two, replicas=2, shares=(3, 1)), world(two))
    assert skewed.step_seconds == pytest.approx(1.5 * equal.step_seconds)


def test_the_timeline_holds_every_task_in_order() -> None:
    two = cluster(devices=2)
    estimate = simulate(chain(), plan(two, stages=2, micro_batches=3), world(two))
    kinds = [event.kind for event in estimate.timeline]
    assert (kinds.count("forward"), kinds.count("backward"), kinds.count("update")) == (6, 6, 2)
    starts = [event.start for event in estimate.timeline]
    assert starts == sorted(starts)
    assert all(event.start <= event.end <= estimate.step_seconds + 1e-9 for event in estimate.timeline)


def test_no_device_runs_two_tasks_at_once() -> None:
    three = cluster(devices=3)
    estimate = simulate(chain(6), plan(three, stages=3, blocks=6, micro_batches=4), world(three))
    for device in {d for e in estimate.timeline for d in e.devices}:
        spans = [
            (e.start, e.end) for e in estimate.timeline if device in e.devices and e.kind in ("forward", "backward")
        ]
        assert all(before[1] <= after[0] + 1e-12 for before, after in zip(spans, spans[1:]))


def test_a_dead_link_is_an_error_that_names_the_hosts() -> None:
    two = cluster(hosts=2, devices=1, down=True)
    with pytest.raises(ClusterError, match=r"'host0' and 'host1' is down"):
        simulate(chain(), plan(two, replicas=2), world(two))


def test_a_plan_for_another_model_is_an_error() -> None:
    one = cluster(devices=1)
    with pytest.raises(PlanError, match="a plan for 4 blocks, and the model has 5"):
        simulate(chain(5), plan(one), world(one))


def test_memory_limits_are_those_of_the_devices() -> None:
    small = cluster(devices=1, memory=1)
    estimate = simulate(chain(parameters=10**8), plan(small), world(small))
    assert not estimate.fits
    device = small.devices[0].name
    assert estimate.short[device] == pytest.approx(estimate.memory[device].total - 2**30)


@settings(max_examples=40, deadline=None)
@given(
    stages=st.integers(1, 4),
    replicas=st.integers(1, 2),
    micro_batches=st.integers(1, 5),
    network=st.floats(1e8, 1e11),
)
def test_a_faster_network_is_never_slower(stages: int, replicas: int, micro_batches: int, network: float) -> None:
    def step(speed: float) -> float:
        devices = cluster(hosts=4, devices=2, network=speed)
        chosen = plan(devices, stages=stages, replicas=replicas, micro_batches=micro_batches)
        return simulate(chain(parameters=10**7), chosen, world(devices), timeline=False).step_seconds

    assert step(2 * network) <= step(network) * (1 + 1e-12)


def _with_timeline(chosen: ParallelPlan, devices: Cluster) -> tuple[float, float]:
    model = chain(parameters=10**6)
    shown = simulate(model, chosen, world(devices))
    return shown.step_seconds, simulate(model, chosen, world(devices), timeline=False).step_seconds


def test_the_timeline_changes_nothing() -> None:
    devices = cluster(devices=4)
    for stages, replicas in ((1, 4), (2, 2), (4, 1)):
        shown, hidden = _with_timeline(plan(devices, stages, replicas, micro_batches=2), devices)
        assert shown == pytest.approx(hidden)


def test_a_plan_must_use_each_device_once() -> None:
    devices = cluster(devices=2)
    good = plan(devices, stages=2)
    twice = dataclasses.replace(good.stages[1], replicas=good.stages[0].replicas)
    with pytest.raises(PlanError, match="stages share devices"):
        dataclasses.replace(good, stages=(good.stages[0], twice))
