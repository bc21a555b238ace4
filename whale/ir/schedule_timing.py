"""When the tasks of a schedule run, worked out without devices."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Union

from whale.errors import ScheduleError
from whale.ir.schedule import Phase, Schedule, Task, validate, walk

Times = Union[float, Sequence[float]]
"""One time for all stages, or one for each of them; any unit."""


@dataclasses.dataclass(frozen=True)
class Timing:
    """When the tasks of a schedule run; times are in the unit of the durations, from the start of the step."""

    start: Mapping[Task, float]
    """When each task begins."""
    end: Mapping[Task, float]
    """When each task ends."""
    makespan: float
    """When the last task ends."""
    bubble: float
    """The part of the devices' time in which they wait, 0 to 1."""


def timing(schedule: Schedule, forward: Times = 1.0, backward: Times = 2.0, *, transfer: float = 0.0) -> Timing:
    """Runs a schedule on paper: every task begins as soon as its device is free and its needs are met.

    Args:
        schedule: what to run.
        forward: time of a forward pass, of all stages or of each.
        backward: time of a backward pass, of all stages or of each.
        transfer: time from the end of a task until another device can read its result; no device is busy with it.

    Raises:
        ScheduleError: the schedule is not valid, a time is negative or not finite, or there is not one for each stage.
    """
    validate(schedule)
    durations = {
        Phase.FORWARD: _durations("forward", forward, schedule.stages),
        Phase.BACKWARD: _durations("backward", backward, schedule.stages),
    }
    _durations("transfer", transfer, 1)
    start: dict[Task, float] = {}
    end: dict[Task, float] = {}
    free = [0.0] * schedule.devices
    waits = {task: schedule.needs(task) for row in schedule.rows for task in row}
    for device, task in walk(schedule.rows, [0] * schedule.devices, waits, set()):
        arrivals = (end[n] + (0.0 if schedule.device(n.stage) == device else transfer) for n in waits[task])
        start[task] = max(free[device], *arrivals, 0.0)
        end[task] = free[device] = start[task] + durations[task.phase][task.stage]
    makespan = max(free)
    busy = math.fsum(durations[task.phase][task.stage] for task in end)
    bubble = 1 - busy / (makespan * schedule.devices) if makespan > 0 else 0.0
    return Timing(start, end, makespan, min(max(bubble, 0.0), 1.0))


def _durations(what: str, times: Times, stages: int) -> tuple[float, ...]:
    """One time for each stage."""
    values = (float(times),) * stages if isinstance(times, (int, float)) else tuple(float(t) for t in times)
    if len(values) != stages:
        raise ScheduleError(f"{len(values)} {what} times for {stages} stages", fix="give one for each stage, or one")
    for value in values:
        if not 0 <= value < math.inf:
            raise ScheduleError(f"a {what} time of {value}", fix="times are >= 0 and finite")
    return values
