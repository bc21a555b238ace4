"""The grid of a schedule, as people read it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whale.errors import ScheduleError
from whale.ir.schedule import Schedule
from whale.ir.schedule_text import WIDTH, grid
from whale.ir.schedules import forward_only, gpipe, interleaved, one_f_one_b, prefer_backward_optimizer


@pytest.mark.parametrize(
    "made",
    [
        gpipe(4, 6),
        one_f_one_b(4, 6),
        one_f_one_b(1, 1),
        one_f_one_b(8, 16),
        prefer_backward_optimizer(4, 6),
        interleaved(4, 8, 8),
        interleaved(3, 6, 4),
        forward_only(4, 5),
        forward_only(4, 5, 2),
    ],
    ids=lambda made: f"{made.name}-{made.stages}-{made.devices}-{made.micro_batches}",
)
def test_grid(made: Schedule, golden: Callable[..., None]) -> None:
    golden(grid(made))


def test_a_longer_backward_pass_goes_on_as_dashes(golden: Callable[..., None]) -> None:
    golden(grid(one_f_one_b(3, 4), backward=2))


def test_the_middle_of_a_large_schedule_is_left_out(golden: Callable[..., None]) -> None:
    golden(grid(one_f_one_b(20, 64), width=100))


@given(st.integers(1, 20), st.integers(1, 3), st.integers(1, 30), st.integers(50, 300))
def test_lines_keep_to_the_width(devices: int, chunks: int, micro_batches: int, width: int) -> None:
    text = grid(interleaved(devices, devices * chunks, micro_batches), width=width)
    assert all(len(line) <= width for line in text.splitlines()[1:])


@given(st.integers(1, 16), st.integers(1, 3), st.integers(1, 12))
def test_without_a_width_every_task_shows_once(devices: int, chunks: int, micro_batches: int) -> None:
    made = interleaved(devices, devices * chunks, micro_batches)
    lines = grid(made, width=None).splitlines()[2:]
    assert len(lines) == devices
    for line, row in zip(lines, made.rows):
        cells = [cell for cell in line.split()[2:] if cell != "."]
        names = [f"{task.phase.value}{task.micro_batch}" for task in row]
        chunk = [f".{task.stage // devices}" if chunks > 1 else "" for task in row]
        assert cells == [name + mark for name, mark in zip(names, chunk)]


def test_eight_stages_of_sixteen_micro_batches_show_whole() -> None:
    for build in (gpipe, one_f_one_b, prefer_backward_optimizer):
        text = grid(build(8, 16))
        assert "~" not in text
        assert max(map(len, text.splitlines())) <= WIDTH


def test_what_has_no_grid() -> None:
    with pytest.raises(ScheduleError, match="never runs"):
        grid(Schedule("gpipe", 1, 1, ((),)))
    with pytest.raises(ValueError, match="at least one slot"):
        grid(gpipe(1, 1), backward=0)
