"""Steps run on paper, against times worked out by hand."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cost_model.models import block, chain, cluster, coefficients, plan
from whale.cluster import Cluster
from whale.cost_model import Chain, Coefficients, ParallelPlan, Recompute, StagePlan, World, runtime, simulate
from whale.cost_model.plan import ScheduleName
from whale.cost_model.runtimes import Sending
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


def test_the_gradients_made_last_are_reduced_last() -> None:
    two = cluster(devices=2)
    hidden = coefficients(communication__horovod__overlap=1.0)
    # The table at the begin has all parameters, and no work: its gradient is there when the backward pass has ended.
    table, layer = block(flops=0.0, parameters=10**9), block(parameters=0)
    first = simulate(Chain((table, layer)), plan(two, replicas=2, blocks=2), world(two, hidden))
    last = simulate(Chain((layer, table)), plan(two, replicas=2, blocks=2), world(two, hidden))
    assert first.reduce_seconds == pytest.approx(10**9 * 4 / 25e9)
    assert last.reduce_seconds == pytest.approx(0.0)


def test_gradients_that_are_not_packed_start_a_collective_each() -> None:
    two = cluster(devices=2)
    model = dataclasses.replace(block(parameters=1), parameters=block(parameters=1).parameters * 3)
    values = {
        "collective/NVLink-2/start": 1e-3,
        "communication/distribute/overlap": 0.0,
        "communication/distribute/network": 1.0,
        "communication/distribute/tensor_seconds": 1.0,
        "runtime/distribute/context_bytes": 0.0,
    }
    known = coefficients(**values)
    chosen = plan(two, replicas=2, blocks=1)
    apart = simulate(Chain((model,)), chosen, World(two, runtime("distribute"), coefficients=known))
    packed = simulate(Chain((model,)), chosen, World(two, coefficients=known))
    # Three tensors, for each of which the runtime needs a second more.
    assert apart.reduce_seconds == pytest.approx(3 * 1e-3 + 3, abs=1e-6)
    assert packed.reduce_seconds == pytest.approx(1e-3, abs=1e-6)


@pytest.mark.parametrize(("sending", "each_way"), [("beside", 1), ("together", 1), ("in turn", 2)])
def test_stages_meet_to_send_or_send_beside_their_work(sending: Sending, each_way: int) -> None:
    two = cluster(devices=2)
    micro_batches, samples = 64, 8 / 64
    sent = 2.5e9 * samples * 4 / 25e9
    forward = 2 * samples * 1e12 / FLOPS
    backends = dataclasses.replace(runtime("tensorflow"), sending=sending)
    model, chosen = chain(output=2.5e9), plan(two, stages=2, micro_batches=micro_batches)
    step = simulate(model, chosen, World(two, backends, coefficients=coefficients())).step_seconds
    # Both stages do a forward and a backward pass for each micro-batch, and wait for what crosses: the activations of
    # one and the gradients of another micro-batch cross at once, or one after the other.
    round_seconds = 3 * forward + each_way * sent
    assert step == pytest.approx(micro_batches * round_seconds, rel=0.06)


@pytest.mark.parametrize("name", ["gpipe", "one_f_one_b", "prefer_backward_optimizer"])
@pytest.mark.parametrize("sending", ["together", "in turn"])
def test_meeting_never_ends_before_sending_beside(name: ScheduleName, sending: Sending) -> None:
    four = cluster(devices=4)
    chosen = plan(four, stages=4, micro_batches=6, schedule=name)
    ways = (runtime("tensorflow"), dataclasses.replace(runtime("tensorflow"), sending=sending))
    beside, meeting = (simulate(chain(output=1e9), chosen, World(four, w, coefficients=coefficients())) for w in ways)
    assert meeting.step_seconds >= beside.step_seconds
    assert meeting.compute_seconds == pytest.approx(beside.compute_seconds)


def test_idle_devices_leave_the_network_alone() -> None:
    few, many = cluster(hosts=2, devices=1), cluster(hosts=2, devices=4)
    chosen = plan(few, replicas=2, blocks=4)
    ends = [many.compute_devices[0].name, many.compute_devices[4].name]
    same = dataclasses.replace(chosen, stages=(StagePlan(0, 4, tuple((name,) for name in ends)),))
    model = chain(parameters=10**8)
    alone = simulate(model, chosen, world(few)).step_seconds
    assert simulate(model, same, world(many)).step_seconds == pytest.approx(alone)


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
