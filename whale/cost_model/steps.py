"""The tasks of a schedule as numbers, each after its needs: made once for many simulations."""

from __future__ import annotations

import dataclasses
import functools

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


@functools.lru_cache(maxsize=256)
def steps(name: ScheduleName, stages: int, rows: int, micro_batches: int) -> tuple[Step, ...]:
    """The tasks of a schedule, each after its needs."""
    schedule = make(name, stages, rows, micro_batches)
    needs = {task: schedule.needs(task) for row in schedule.rows for task in row}
    places: dict[Task, int] = {}
    found: list[Step] = []
    for row, task in walk(schedule.rows, [0] * schedule.devices, needs, set()):
        own = [places[need] for need in needs[task] if need.stage == task.stage]
        other = [places[need] for need in needs[task] if need.stage != task.stage]
        forward = task.phase is Phase.FORWARD
        target = task.stage + (1 if forward else -1)
        places[task] = len(found)
        found.append(
            Step(
                row,
                task.stage,
                task.micro_batch,
                forward,
                own[0] if own else -1,
                other[0] if other else -1,
                target if 0 <= target < stages else -1,
            )
        )
    return tuple(found)
