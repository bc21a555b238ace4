"""What a report says of a plan, against figures worked out by hand."""

from __future__ import annotations

import dataclasses

import pytest

from tests.planner.report import plans
from whale.cost_model import World, simulate
from whale.errors import PlanError
from whale.planner.report import TimelineEvent
from whale.planner.search.world import Judge

REPORT = plans.pipeline_report()


def test_parts_of_the_work_are_flops_and_make_the_whole() -> None:
    # 0.01 + 6 x 0.05 + 0.03 TFLOP a sample; the cuts are before the blocks 2 and 5.
    assert [stage.work for stage in REPORT.stages] == pytest.approx([0.06 / 0.34, 0.15 / 0.34, 0.13 / 0.34])


def test_blocks_that_repeat_are_counted() -> None:
    assert [(s.start, s.stop, s.first, s.last, s.folded) for s in REPORT.stages] == [
        (0, 2, "embeddings", "layer_1", 0),
        (2, 5, "layer_1", "layer_1", 2),
        (5, 8, "layer_1", "logits", 1),
    ]


def test_bytes_of_a_stage() -> None:
    bottom, middle, top = REPORT.stages
    assert [stage.parameter_bytes for stage in REPORT.stages] == [4 * 72_000_000, 4 * 36_000_000, 4 * 84_000_000]
    # Gradients have 4 bytes; each of 64 samples hands on 400,000 elements of 4 bytes.
    assert bottom.reduced_bytes == 4 * 72_000_000
    assert (bottom.output_bytes, middle.output_bytes, top.output_bytes) == (64 * 4e5 * 4, 64 * 4e5 * 4, 0)


def test_a_single_replica_reduces_nothing() -> None:
    cluster = plans.two_hosts()
    report = plans.report(cluster, plans.pipeline(cluster, rows=2))
    assert [stage.reduced_bytes for stage in report.stages] == [0, 0]


def test_what_is_divided_is_told() -> None:
    cluster = plans.two_hosts()
    report = plans.report(cluster, plans.pipeline(cluster, rows=2, parts=4))
    assert [stage.divided for stage in report.stages] == ["4 devices", "4 devices"]
    assert [stage.name for stage in report.stages] == ["stage 0", "stage 1"]
    sequence = plans.report(cluster, plans.pipeline(cluster, rows=2, parts=4, sequence_parallel=True))
    assert sequence.stages[0].divided == "4 devices, sequence too"


def test_devices_left_out_are_idle() -> None:
    assert [device.name[-5:] for device in REPORT.idle] == ["GPU:2", "GPU:3"]
    assert all(device.memory is None for device in REPORT.idle)
    assert all(device.memory is not None for device in REPORT.used)


def test_figures_are_those_of_the_estimate() -> None:
    cluster = plans.two_hosts()
    plan = plans.pipeline(cluster, rows=3, replicas=2, micro_batches=8)
    estimate = plans.found(cluster, plan).estimate
    assert REPORT.prediction.step_seconds == estimate.step_seconds
    assert REPORT.prediction.samples_per_second == 64 / estimate.step_seconds
    for device in REPORT.used:
        assert device.memory is not None
        assert dataclasses.astuple(device.memory) == dataclasses.astuple(estimate.memory[device.name])


def test_replicas_have_their_samples_and_the_one_they_are_like() -> None:
    report = plans.data_report()
    assert [replica.samples for replica in report.replicas] == [12] * 4 + [4] * 4
    assert sum(replica.part for replica in report.replicas) == pytest.approx(1)
    assert [replica.like for replica in report.replicas] == [0] * 4 + [4] * 4
    assert report.timeline.replicas == (0, 4)


def test_the_timeline_is_the_simulation() -> None:
    cluster = plans.two_hosts()
    plan = plans.pipeline(cluster, rows=3, replicas=2, micro_batches=8)
    world = Judge(plans.CHAIN, World(cluster, coefficients=plans.KNOWN)).seen_by(plan.devices)
    events = simulate(plans.CHAIN, plan, world).timeline
    told = REPORT.timeline.events
    assert sorted((e.kind, e.stage, e.micro_batch, e.start, e.end) for e in events) == sorted(
        (e.kind, e.stage, e.micro_batch, e.start, e.end) for e in told
    )
    assert [event.start for event in told] == sorted(event.start for event in told)


def _sends(events: tuple[TimelineEvent, ...]) -> list[tuple[int, int, int]]:
    return sorted((e.micro_batch, e.stage, e.target) for e in events if e.kind == "send")


def test_activations_go_up_and_gradients_down_where_both_go_to_the_same_device() -> None:
    cluster = plans.two_hosts()
    plan = plans.pipeline(cluster, rows=2, chunks=2, micro_batches=4, schedule="interleaved")
    ways = [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)]
    assert _sends(plans.report(cluster, plan).timeline.events) == [(m, *way) for m in range(4) for way in ways]


def test_all_replicas_reduce_and_update() -> None:
    events = plans.data_report().timeline.events
    for kind in ("reduce", "update"):
        spans = {(e.replica, e.start, e.end) for e in events if e.kind == kind}
        assert {replica for replica, _, _ in spans} == {0, 4}
        assert len({span[1:] for span in spans}) == 1


def test_a_long_step_keeps_its_beginning_and_its_end() -> None:
    cluster = plans.two_hosts()
    plan = plans.pipeline(cluster, rows=4, micro_batches=64)
    every = plans.report(cluster, plan).timeline
    short = plans.report(cluster, plan, most_events=120).timeline
    assert every.gap is None and short.gap is not None
    assert 100 <= len(short.events) <= 120
    begin, end = short.gap
    assert all(event.end <= begin or event.start >= end for event in short.events)
    # Nothing is missing beside the gap but what reaches into it.
    for event in set(every.events) - set(short.events):
        assert event.end >= begin and event.start <= end
    assert (short.events[0], short.events[-1]) == (every.events[0], every.events[-1])


def test_of_many_kinds_of_replicas_those_that_take_longest_are_shown() -> None:
    cluster = plans.many_hosts(2)
    report = plans.report(cluster, plans.data(cluster, tuple(range(1, 17)), global_batch=136))
    assert report.timeline.kinds == 16
    assert report.timeline.replicas == tuple(range(8, 16))


def test_losers_say_why() -> None:
    data, operators, one, small = REPORT.runners_up
    assert (data.name, data.refused) == ("data (unequal shares)", "")
    assert operators.refused == "operators divided over devices"
    assert not one.fits and one.step_seconds is None and one.reason.startswith("needs ")
    assert (small.name, small.refused) == ("one device, recomputation", "recomputation")
    assert REPORT.left_out == operators


def test_names_must_be_as_many_as_the_stages() -> None:
    cluster = plans.two_hosts()
    with pytest.raises(PlanError, match="2 names for the 3 stages"):
        plans.report(cluster, plans.pipeline(cluster, rows=3), names=("a", "b"))
