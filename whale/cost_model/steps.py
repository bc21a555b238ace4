"""The tasks of a schedule as numbers, each after its needs: made once for many simulations."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

from whale.cost_model.plan import ScheduleName
from whale.ir.schedule import Phase, Task, walk
from whale.ir.schedules import make


@dataclasses.dataclass(frozen=True)
class Step:
    """One task of a schedule, with its needs as positions among the steps."""

    row: int
    stage: int
    micro_batch: int
    forward: bool
    own: int
    """The forward pass of the same stage that a backward pass needs; -1 for none."""
    other: int
    """The task of a neighbouring stage that it needs; -1 for none."""
    target: int
    """The stage that its result goes to; -1 for none."""
    previous: int
    """The task before it on its row; -1 for none."""
    meets: int
    """The task of the receiver's row before the one that its result is for; -1 for none."""


@functools.lru_cache(maxsize=256)
def steps(name: ScheduleName, stages: int, rows: int, micro_batches: int, meeting: bool = False) -> tuple[Step, ...]:
    """The tasks of a schedule, each after its needs.

    Args:
        name: the schedule's.
        stages: all stages.
        rows: stages with devices of their own.
        micro_batches: pieces of a step.
        meeting: whether a task also comes after what its row and the receiver of its row's last result did before they
            meet. A schedule in which they would wait for each other forever has the same order as without.
    """
    schedule = make(name, stages, rows, micro_batches)
    needs = {task: tuple(schedule.needs(task)) for row in schedule.rows for task in row}
    before = {task: row[i - 1] for row in schedule.rows for i, task in enumerate(row) if i}
    meets: dict[Task, Task] = {}
    waits = needs
    if meeting:
        meets = {task: before[target] for task in needs if (target := _target(task, stages)) in before}
        waits = {task: (*need, *_met(task, before, meets)) for task, need in needs.items()}
    order = list(walk(schedule.rows, [0] * schedule.devices, waits, set()))
    if len(order) < len(needs):
        order, meets = list(walk(schedule.rows, [0] * schedule.devices, needs, set())), {}
    places = {task: place for place, (_, task) in enumerate(order)}
    found: list[Step] = []
    for row, task in order:
        own = [places[need] for need in needs[task] if need.stage == task.stage]
        other = [places[need] for need in needs[task] if need.stage != task.stage]
        forward = task.phase is Phase.FORWARD
        target = task.stage + (1 if forward else -1)
        found.append(
            Step(
                row,
                task.stage,
                task.micro_batch,
                forward,
                own[0] if own else -1,
                other[0] if other else -1,
                target if 0 <= target < stages else -1,
                places[before[task]] if task in before else -1,
                places[meets[task]] if task in meets else -1,
            )
        )
    return tuple(found)


def _target(task: Task, stages: int) -> Task | None:
    """The task that reads a task's result on another stage."""
    stage = task.stage + (1 if task.phase is Phase.FORWARD else -1)
    return dataclasses.replace(task, stage=stage) if 0 <= stage < stages else None


def _met(task: Task, before: Mapping[Task, Task], meets: Mapping[Task, Task]) -> tuple[Task, ...]:
    """What a task waits for because the one before it on its row sends."""
    sender = before.get(task)
    return (meets[sender],) if sender is not None and sender in meets else ()
