"""Times of tasks, from the order of rows, the needs and the durations."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whale.errors import ScheduleError
from whale.ir.schedule import Phase, Schedule, Task
from whale.ir.schedule_timing import Times, timing
from whale.ir.schedules import forward_only, gpipe, interleaved, one_f_one_b


def test_times_by_hand() -> None:
    found = timing(one_f_one_b(2, 2), (1, 3), (2, 4))
    spans = {str(task): (found.start[task], found.end[task]) for task in found.start}
    assert spans == {
        "F0@0": (0, 1),
        "F1@0": (1, 2),
        "F0@1": (1, 4),
        "B0@1": (4, 8),
        "B0@0": (8, 10),
        "F1@1": (8, 11),
        "B1@1": (11, 15),
        "B1@0": (15, 17),
    }
    assert found.makespan == 17
    assert found.bubble == pytest.approx(1 - (6 + 14) / 34)


def test_a_transfer_delays_other_devices_only() -> None:
    apart = timing(gpipe(2, 1), 1, 1, transfer=10)
    together = timing(interleaved(1, 2, 1), 1, 1, transfer=10)
    assert (apart.makespan, together.makespan) == (4 + 2 * 10, 4)


def test_the_bubble_of_equal_stages() -> None:
    assert timing(one_f_one_b(4, 8)).bubble == pytest.approx(3 / 11)
    assert timing(one_f_one_b(1, 8), 0.1, 0.3).bubble == pytest.approx(0, abs=1e-12)
    assert timing(gpipe(3, 2), 0, 0).bubble == 0


durations = st.lists(st.floats(0, 10), min_size=6, max_size=6)


@given(st.integers(1, 3), st.sampled_from([1, 2]), st.integers(1, 5), durations, durations, st.floats(0, 3))
def test_every_task_begins_when_it_can_and_no_later(
    devices: int, chunks: int, micro_batches: int, forward: list[float], backward: list[float], transfer: float
) -> None:
    made = interleaved(devices, devices * chunks, micro_batches)
    found = timing(made, forward[: made.stages], backward[: made.stages], transfer=transfer)
    assert 0 <= found.bubble <= 1
    assert found.makespan == max(found.end.values())
    for device, row in enumerate(made.rows):
        free = 0.0
        for task in row:
            ready = [
                found.end[need] + (transfer if made.device(need.stage) != device else 0) for need in made.needs(task)
            ]
            assert found.start[task] == max([free, *ready])
            times = forward if task.phase is Phase.FORWARD else backward
            free = found.end[task]
            assert free == found.start[task] + times[task.stage]


def test_times_without_backward() -> None:
    found = timing(forward_only(4, 2, 2), 1, 100)
    assert found.makespan == 5
    assert {task.phase for task in found.start} == {Phase.FORWARD}


@pytest.mark.parametrize(
    ("forward", "backward", "transfer", "told"),
    [
        ((1.0, 2.0), 1.0, 0.0, "2 forward times for 3 stages"),
        (1.0, (1.0,) * 4, 0.0, "4 backward times for 3 stages"),
        (-1.0, 1.0, 0.0, "a forward time of -1.0"),
        (1.0, (1.0, math.nan, 1.0), 0.0, "a backward time of nan"),
        (1.0, 1.0, math.inf, "a transfer time of inf"),
    ],
)
def test_times_that_cannot_be(forward: Times, backward: Times, transfer: float, told: str) -> None:
    with pytest.raises(ScheduleError, match=told):
        timing(gpipe(3, 2), forward, backward, transfer=transfer)


def test_a_schedule_that_never_ends_has_no_times() -> None:
    forward, backward = Task(Phase.FORWARD, 0, 0), Task(Phase.BACKWARD, 0, 0)
    with pytest.raises(ScheduleError, match="runs B0@0 before F0@0"):
        timing(Schedule("by_hand", 1, 1, ((backward, forward),)))
