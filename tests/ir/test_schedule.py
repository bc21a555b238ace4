"""A schedule is refused when it loses, repeats, misplaces or misorders a task, and every fault is told."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from whale.errors import ScheduleError
from whale.ir.schedule import FORWARD_ONLY, Phase, Schedule, Task, live, validate
from whale.ir.schedules import forward_only, gpipe, interleaved, one_f_one_b


def task(text: str) -> Task:
    """A task from how it prints: ``F2@1``."""
    micro_batch, stage = text[1:].split("@")
    return Task(Phase(text[0]), int(stage), int(micro_batch))


def schedule(stages: int, micro_batches: int, *rows: str, name: str = "by_hand") -> Schedule:
    """A schedule whose rows are written as text."""
    return Schedule(name, stages, micro_batches, tuple(tuple(map(task, row.split())) for row in rows))


def faults(made: Schedule) -> list[str]:
    """The violations that ``validate`` tells, without the first line and the rows."""
    with pytest.raises(ScheduleError) as caught:
        validate(made)
    lines = caught.value.what.splitlines()
    end = lines.index("the rows:") if "the rows:" in lines else len(lines)
    told = [line.strip() for line in lines[1:end]]
    assert lines[0].startswith(f"{len(told)} violation")
    return told


def with_row(made: Schedule, device: int, row: Sequence[Task]) -> Schedule:
    rows = list(made.rows)
    rows[device] = tuple(row)
    return dataclasses.replace(made, rows=tuple(rows))


def test_a_task_prints_its_phase_micro_batch_and_stage() -> None:
    assert str(Task(Phase.BACKWARD, stage=1, micro_batch=2)) == "B2@1"
    assert task("B2@1") == Task(Phase.BACKWARD, stage=1, micro_batch=2)


def test_what_a_task_needs() -> None:
    made = one_f_one_b(3, 2)
    needs = {name: [str(need) for need in made.needs(task(name))] for name in ("F1@0", "F1@2", "B1@1", "B1@2")}
    assert needs == {"F1@0": [], "F1@2": ["F1@1"], "B1@1": ["F1@1", "B1@2"], "B1@2": ["F1@2"]}


def test_stages_are_dealt_to_devices_in_turn() -> None:
    made = interleaved(2, 6, 2)
    assert [made.device(stage) for stage in range(6)] == [0, 1, 0, 1, 0, 1]
    assert made.devices == 2
    for stage in (-1, 6):
        with pytest.raises(ScheduleError, match=f"no stage {stage}"):
            made.device(stage)


def test_a_schedule_by_hand_is_valid() -> None:
    validate(schedule(2, 2, "F0@0 F1@0 B0@0 B1@0", "F0@1 B0@1 F1@1 B1@1"))
    validate(schedule(2, 1, "F0@0 F0@1 B0@1 B0@0"))


def test_live_micro_batches_are_counted_from_the_order() -> None:
    assert live(schedule(2, 3, "F0@0 F1@0 B0@0 F2@0 B1@0 B2@0", "F0@1 B0@1 F1@1 B1@1 F2@1 B2@1")) == (2, 1)
    assert live(forward_only(3, 5)) == (1, 1, 1)


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (schedule(0, 2, "", name="gpipe"), ["it has 0 stages; at least 1 is needed"]),
        (
            Schedule("gpipe", 0, -1, ()),
            [
                "it has 0 stages; at least 1 is needed",
                "it has -1 micro-batches; at least 1 is needed",
                "it has no rows; one for each device is needed",
            ],
        ),
        (
            schedule(1, 1, "F0@0 B0@0", ""),
            ["it has 2 rows for 1 stages; a device without a stage has no row"],
        ),
        (schedule(2, 2, "F0@0 F1@0 B0@0 B1@0", "F0@1 F1@1 B1@1"), ["stage 1 never runs B0@1"]),
        (schedule(2, 1, "F0@0", "F0@1"), ["stage 0 never runs B0@0", "stage 1 never runs B0@1"]),
        (schedule(1, 2, "F0@0 F0@0 B0@0 F1@0 B1@0 F0@0"), ["stage 0 runs F0@0 3 times"]),
        (schedule(1, 1, "F0@0 F0@1 B0@0"), ["device 0 runs F0@1: there is no stage 1"]),
        (schedule(1, 1, "F0@0 B0@0 B1@0"), ["device 0 runs B1@0: there is no micro-batch 1"]),
        (
            schedule(2, 1, "F0@0 F0@1 B0@0", "B0@1"),
            ["device 0 runs F0@1: stage 1 is on device 1"],
        ),
        (
            schedule(1, 1, "F0@0 B0@0", name=FORWARD_ONLY),
            ["device 0 runs B0@0: a schedule named 'forward' has no backward passes"],
        ),
        (schedule(1, 1, "B0@0 F0@0"), ["device 0 runs B0@0 before F0@0, which it needs"]),
        (
            schedule(2, 1, "F0@1 F0@0 B0@0 B0@1"),
            ["device 0 runs F0@1 before F0@0, which it needs", "device 0 runs B0@0 before B0@1, which it needs"],
        ),
        (
            # Device 1 asks for the second micro-batch first, which device 0 sends only after the gradient of the first.
            schedule(2, 2, "F0@0 B0@0 F1@0 B1@0", "F1@1 B1@1 F0@1 B0@1"),
            ["deadlock, devices wait for one another: device 0 at B0@0 for B0@1, device 1 at F1@1 for F1@0"],
        ),
        (
            # Device 0 waits for the circle of devices 1 and 2 and is no part of it.
            schedule(3, 2, "F0@0 F1@0 B0@0 B1@0", "F0@1 B0@1 F1@1 B1@1", "F1@2 B1@2 F0@2 B0@2"),
            ["deadlock, devices wait for one another: device 1 at B0@1 for B0@2, device 2 at F1@2 for F1@1"],
        ),
        (
            # The same circle twice, for micro-batches 0 and 1, then for 2 and 3.
            schedule(
                2,
                4,
                "F0@0 B0@0 F1@0 B1@0 F2@0 B2@0 F3@0 B3@0",
                "F1@1 B1@1 F0@1 B0@1 F3@1 B3@1 F2@1 B2@1",
            ),
            [
                "deadlock, devices wait for one another: device 0 at B0@0 for B0@1, device 1 at F1@1 for F1@0",
                "deadlock, devices wait for one another: device 0 at B2@0 for B2@1, device 1 at F3@1 for F3@0",
            ],
        ),
    ],
)
def test_a_fault_is_named(made: Schedule, told: list[str]) -> None:
    assert faults(made) == told


def test_all_faults_are_told_at_once(golden: Callable[..., None]) -> None:
    broken = schedule(
        2, 3, "F0@0 B0@0 F1@0 B1@0 F2@0 F2@0 F7@0", "F1@1 B1@1 F0@1 B0@1 B2@1 F2@1 F0@5", name="one_f_one_b"
    )
    with pytest.raises(ScheduleError) as caught:
        validate(broken)
    golden(str(caught.value))


def test_long_rows_are_cut_in_the_message() -> None:
    made = gpipe(1, 40)
    with pytest.raises(ScheduleError) as caught:
        validate(with_row(made, 0, made.rows[0][:-1]))
    last = caught.value.what.splitlines()[-1]
    assert last.startswith("  device 0: F0@0 F1@0 ")
    assert last.endswith("F30@0 F31@0 ...")


def builders() -> st.SearchStrategy[Schedule]:
    """Valid schedules with at least two tasks in a row."""
    number = st.integers(1, 4)
    return st.one_of(
        st.builds(gpipe, number, number),
        st.builds(one_f_one_b, number, number),
        st.builds(lambda d, v, m: interleaved(d, d * v, m), number, st.integers(1, 3), number),
    )


@given(builders(), st.data())
def test_a_lost_task_is_missed(made: Schedule, data: st.DataObject) -> None:
    device = data.draw(st.integers(0, made.devices - 1))
    index = data.draw(st.integers(0, len(made.rows[device]) - 1))
    lost = made.rows[device][index]
    row = made.rows[device][:index] + made.rows[device][index + 1 :]
    assert faults(with_row(made, device, row)) == [f"stage {lost.stage} never runs {lost}"]


@given(builders(), st.data())
def test_a_repeated_task_is_noticed(made: Schedule, data: st.DataObject) -> None:
    device = data.draw(st.integers(0, made.devices - 1))
    row = list(made.rows[device])
    again = data.draw(st.sampled_from(row))
    row.insert(data.draw(st.integers(row.index(again), len(row))), again)
    assert faults(with_row(made, device, row)) == [f"stage {again.stage} runs {again} 2 times"]


@given(builders(), st.data())
def test_a_task_on_the_wrong_device_is_noticed(made: Schedule, data: st.DataObject) -> None:
    assume(made.devices > 1)
    source = data.draw(st.integers(0, made.devices - 1))
    target = data.draw(st.integers(0, made.devices - 1).filter(lambda device: device != source))
    moved = data.draw(st.sampled_from(made.rows[source]))
    there = [*made.rows[target], moved]
    made = with_row(made, source, [task for task in made.rows[source] if task != moved])
    found = faults(with_row(made, target, there))
    assert f"device {target} runs {moved}: stage {moved.stage} is on device {source}" in found


@given(builders(), st.randoms(use_true_random=False))
def test_any_order_of_rows_is_refused_exactly_when_it_stops(made: Schedule, source: random.Random) -> None:
    rows = [source.sample(row, len(row)) for row in made.rows]
    shuffled = dataclasses.replace(made, rows=tuple(map(tuple, rows)))
    if _comes_to_an_end(shuffled):
        validate(shuffled)
    else:
        found = faults(shuffled)
        assert all("before" in fault or fault.startswith("deadlock") for fault in found)


def _comes_to_an_end(made: Schedule) -> bool:
    """Whether the order of rows and needs together has no circle, by taking away tasks that wait for nothing."""
    waits = {task: set(made.needs(task)) for row in made.rows for task in row}
    for row in made.rows:
        for before, after in zip(row, row[1:]):
            waits[after].add(before)
    while waits:
        ready = {task for task, needs in waits.items() if not needs}
        if not ready:
            return False
        waits = {task: needs - ready for task, needs in waits.items() if task not in ready}
    return True
