"""Devices dealt to stages: replica by replica, several to a stage, several stages to a device."""

from __future__ import annotations

import dataclasses

import pytest

from whale.errors import PlanError, ScheduleError, Site
from whale.ir.task_graphs import PipelineRequest, Stage
from whale.planner.stage_devices import deal

SITE = Site("train.py", 4)


def request(*counts: int, micro_batches: int = 4, strategy: str = "PreferBackward") -> PipelineRequest:
    """A pipeline whose stages ask for so many devices."""
    stages = tuple(
        Stage(frozenset({i}), device_count=count, site=Site("train.py", 5 + i)) for i, count in enumerate(counts)
    )
    return PipelineRequest(stages, micro_batches, strategy, SITE)


def named(*devices: tuple[tuple[str, ...], ...]) -> PipelineRequest:
    """A pipeline whose stages name their devices by replica."""
    asked = request(*(1 for _ in devices))
    stages = tuple(dataclasses.replace(stage, devices=own) for stage, own in zip(asked.stages, devices))
    return dataclasses.replace(asked, stages=stages)


def cpus(count: int) -> list[str]:
    return [f"cpu{i}" for i in range(count)]


def test_one_replica_takes_what_it_needs() -> None:
    dealt = deal(request(1, 1), cpus(3), replicated=False)
    assert dealt.devices == ((("cpu0",), ("cpu1",)),)
    assert dealt.idle == ("cpu2",)
    assert dealt.schedule.name == "one_f_one_b"


def test_stages_of_a_replica_are_neighbours() -> None:
    dealt = deal(request(1, 1), cpus(4), replicated=True)
    assert dealt.devices == ((("cpu0",), ("cpu1",)), (("cpu2",), ("cpu3",)))
    assert not dealt.idle


def test_a_stage_on_several_devices_gives_them_micro_batches_in_turn() -> None:
    dealt = deal(request(2, 1), cpus(3), replicated=True)
    assert dealt.of_copies(4) == (("cpu0", "cpu1", "cpu0", "cpu1"), ("cpu2",) * 4)


def test_copies_are_numbered_replica_by_replica() -> None:
    dealt = deal(request(1, 1, micro_batches=2), cpus(4), replicated=True)
    assert dealt.of_copies(2) == (("cpu0", "cpu0", "cpu2", "cpu2"), ("cpu1", "cpu1", "cpu3", "cpu3"))


def test_an_interleaved_pipeline_has_several_stages_on_a_device() -> None:
    dealt = deal(request(1, 1, 1, 1, strategy="Interleaved"), cpus(2), replicated=False)
    assert dealt.devices == ((("cpu0",), ("cpu1",), ("cpu0",), ("cpu1",)),)
    assert (dealt.schedule.stages, dealt.schedule.devices) == (4, 2)


def test_an_interleaved_pipeline_is_copied_over_chosen_devices() -> None:
    dealt = deal(request(1, 1, 1, 1, strategy="Interleaved"), cpus(4), replicated=True, chosen=2)
    assert [replica[0] for replica in dealt.devices] == [("cpu0",), ("cpu2",)]


def test_named_devices_are_taken_as_they_are() -> None:
    dealt = deal(named((("a",), ("b",)), (("c",), ("d",))), cpus(4), replicated=False)
    assert dealt.devices == ((("a",), ("c",)), (("b",), ("d",)))


@pytest.mark.parametrize(
    ("asked", "available", "replicated", "message"),
    [
        (request(1, 1, 1), 2, False, "a pipeline of 3 stages needs 3 devices, and there are 2"),
        (request(2, 1), 2, False, "2 stages, some of them on several devices needs 3 devices, and there are 2"),
        (request(1, 1), 3, True, "replicas of 2 devices each cannot use up 3 devices"),
        (named((("a",),), ()), 2, False, "stage 1 names no devices, and other stages do"),
        (named((("a",), ("b",)), (("c",),)), 4, False, "stage 1 has devices for 1 replicas, stage 0 for 2"),
        (named((("a",),), (("a",),)), 4, False, "stages 0 and 1 are on one device, a"),
    ],
)
def test_what_does_not_fit_is_told_with_the_line(
    asked: PipelineRequest, available: int, replicated: bool, message: str
) -> None:
    with pytest.raises(PlanError, match=message) as caught:
        deal(asked, cpus(available), replicated)
    assert caught.value.site is not None and caught.value.site.path == "train.py"
    assert caught.value.fix


def test_interleaved_stages_that_devices_cannot_share_are_told() -> None:
    with pytest.raises(ScheduleError, match="3 stages cannot be dealt to 2 devices"):
        deal(request(1, 1, 1, strategy="Interleaved"), cpus(2), replicated=False)


def test_a_schedule_that_does_not_exist_is_told() -> None:
    with pytest.raises(ScheduleError, match="unknown pipeline strategy"):
        deal(request(1, 1, strategy="Backwards"), cpus(2), replicated=False)
