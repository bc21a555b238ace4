"""Rows of tasks are settled: every task after what it reads, the wanted order where it fits, circles together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whale.ir.schedule import Schedule
from whale.ir.schedules import make
from whale.rewriter.task_rows import Settled, settle

Rows = Mapping[str, Sequence[int]]


@st.composite
def problems(draw: Any, circles: bool) -> tuple[dict[str, list[int]], dict[int, list[int]]]:
    """Tasks dealt to devices in any order, and what each reads; without ``circles`` some order serves all."""
    count = draw(st.integers(1, 12))
    devices = draw(st.integers(1, 4))
    rows: dict[str, list[int]] = {f"d{i}": [] for i in range(devices)}
    for task in draw(st.permutations(range(count))):
        rows[f"d{draw(st.integers(0, devices - 1))}"].append(task)
    before: dict[int, list[int]] = {}
    for task in range(count):
        others = [other for other in range(count) if other != task and (circles or other < task)]
        before[task] = draw(st.lists(st.sampled_from(others), unique=True, max_size=3)) if others else []
    return rows, before


def reached(before: Mapping[int, Sequence[int]]) -> dict[int, set[int]]:
    """By task: all it comes after."""
    found = {task: set(needs) for task, needs in before.items()}
    for middle in found:
        for task in found:
            if middle in found[task]:
                found[task] |= found[middle]
    return found


def order_of(settled: Settled[int]) -> dict[int, tuple[str, int]]:
    """By task: its device and the number of its step there."""
    return {t: (d, i) for d, steps in settled.rows.items() for i, step in enumerate(steps) for t in step}


def runs_to_its_end(settled: Settled[int], before: Mapping[int, Sequence[int]], after: Mapping[int, set[int]]) -> bool:
    """Runs the rows: a step begins when all that its tasks read has run, or waits for them in turn."""
    left = {device: list(steps) for device, steps in settled.rows.items()}
    done: set[int] = set()
    moved = True
    while moved:
        moved = False
        fronts = {task for steps in left.values() if steps for task in steps[0]}
        for steps in left.values():
            while steps and all(
                need in done or (task in after[need] and (need in fronts or need in steps[0]))
                for task in steps[0]
                for need in before[task]
            ):
                done.update(steps.pop(0))
                moved = True
                fronts |= set(steps[0]) if steps else set()
    return not any(left.values())


@given(problems(circles=False))
def test_every_task_comes_after_what_it_reads(problem: tuple[dict[str, list[int]], dict[int, list[int]]]) -> None:
    rows, before = problem
    settled = settle(rows, before)
    place = order_of(settled)
    assert {d: sorted(t for step in steps for t in step) for d, steps in settled.rows.items()} == {
        d: sorted(row) for d, row in rows.items()
    }
    for task, needs in reached(before).items():
        for need in needs:
            if place[need][0] == place[task][0]:
                assert place[need][1] < place[task][1]
    assert all(len(step) == 1 for steps in settled.rows.values() for step in steps)
    assert runs_to_its_end(settled, before, reached(before))


@given(problems(circles=False))
def test_rows_that_fit_are_kept_and_settling_again_changes_nothing(
    problem: tuple[dict[str, list[int]], dict[int, list[int]]],
) -> None:
    rows, before = problem
    once = {d: [t for (t,) in steps] for d, steps in settle(rows, before).rows.items()}
    again = settle(once, before)
    assert not again.gave_way
    assert {d: [t for (t,) in steps] for d, steps in again.rows.items()} == once


@given(problems(circles=False))
def test_giving_way_is_told_exactly_when_a_row_changed(
    problem: tuple[dict[str, list[int]], dict[int, list[int]]],
) -> None:
    rows, before = problem
    settled = settle(rows, before)
    changed = {d: [t for (t,) in steps] for d, steps in settled.rows.items()} != rows
    assert settled.gave_way or not changed


@given(problems(circles=True))
def test_tasks_that_wait_for_one_another_stand_together(
    problem: tuple[dict[str, list[int]], dict[int, list[int]]],
) -> None:
    rows, before = problem
    settled = settle(rows, before)
    place, after = order_of(settled), reached(before)
    assert place.keys() == before.keys()
    for one in before:
        for other in before:
            together = one == other or (other in after[one] and one in after[other])
            if place[one][0] == place[other][0]:
                assert (place[one] == place[other]) == together
    joined = any(len(step) > 1 for steps in settled.rows.values() for step in steps)
    assert settled.gave_way or not joined
    assert runs_to_its_end(settled, before, after)


def rows_of(schedule: Schedule) -> dict[str, list[Any]]:
    """A schedule's rows, by device."""
    return {f"d{i}": list(row) for i, row in enumerate(schedule.rows)}


@pytest.mark.parametrize("strategy", ["PreferForward", "PreferBackward", "PreferBackwardOptimizer"])
@pytest.mark.parametrize(("stages", "micro_batches"), [(2, 1), (2, 5), (3, 4), (4, 8)])
def test_schedules_are_not_changed(strategy: str, stages: int, micro_batches: int) -> None:
    schedule = make(strategy, stages, stages, micro_batches)
    rows = rows_of(schedule)
    settled = settle(rows, {task: schedule.needs(task) for row in rows.values() for task in row})
    assert not settled.gave_way
    assert {d: [t for (t,) in steps] for d, steps in settled.rows.items()} == rows


def test_interleaved_schedules_are_not_changed() -> None:
    schedule = make("Interleaved", 4, 2, 3)
    rows = rows_of(schedule)
    assert not settle(rows, {task: schedule.needs(task) for row in rows.values() for task in row}).gave_way


def test_a_value_of_all_micro_batches_makes_one_f_one_b_fill_first() -> None:
    """The last stage's backward passes read a sum over its forward passes: it runs them all before."""
    schedule = make("PreferBackward", 2, 2, 3)
    rows = rows_of(schedule)
    last = [task for task in rows["d1"] if task.phase.value == "F"]
    before = {
        task: [*schedule.needs(task), *(last if task.phase.value == "B" and task.stage == 1 else ())]
        for row in rows.values()
        for task in row
    }
    settled = settle(rows, before)
    assert settled.gave_way
    assert [t.phase.value for (t,) in settled.rows["d1"]] == list("FFFBBB")
