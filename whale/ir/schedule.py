"""A pipeline schedule as data: in which order each device runs the micro-batches of its stages.

A task is written ``F2@1``: the forward pass of micro-batch 2 on stage 1; ``B2@1`` is its backward pass. For stage s
of S and micro-batch m of M, all counted from 0:

* F(m)@s needs F(m)@(s-1);
* B(m)@s needs F(m)@s and B(m)@(s+1).

A device runs the tasks of its row one after another. A task whose needs are not met waits, and those behind it wait
with it, so a row in the wrong order can stop the pipeline for ever: ``validate`` finds that without devices.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
from collections.abc import Iterator, Mapping, Sequence

from whale.errors import ScheduleError

FORWARD_ONLY = "forward"
"""Name of the schedules that have no backward pass."""

TASKS_SHOWN = 32
"""Tasks of a row that an error message shows."""


class Phase(enum.Enum):
    """Which pass of a stage a task runs."""

    FORWARD = "F"
    BACKWARD = "B"


@dataclasses.dataclass(frozen=True)
class Task:
    """One micro-batch's forward or backward pass on one stage."""

    phase: Phase
    """The pass."""
    stage: int
    """Stage, from 0."""
    micro_batch: int
    """Micro-batch, from 0."""

    def __str__(self) -> str:
        return f"{self.phase.value}{self.micro_batch}@{self.stage}"


@dataclasses.dataclass(frozen=True)
class Schedule:
    """The order of all tasks of one step, for the devices of one replica."""

    name: str
    """``gpipe``, ``one_f_one_b``, ``prefer_backward_optimizer``, ``interleaved`` or ``forward``."""
    stages: int
    """Number of stages, S."""
    micro_batches: int
    """Number of micro-batches of a step, M."""
    rows: tuple[tuple[Task, ...], ...]
    """One row per device, its tasks in the order the device runs them."""

    @property
    def devices(self) -> int:
        """Number of devices of one replica."""
        return len(self.rows)

    @property
    def backward(self) -> bool:
        """Whether micro-batches have a backward pass: false for evaluation."""
        return self.name != FORWARD_ONLY

    def device(self, stage: int) -> int:
        """The device that runs a stage: stages are dealt to the devices in turn.

        Raises:
            ScheduleError: there is no such stage.
        """
        if not 0 <= stage < self.stages or not self.rows:
            raise ScheduleError(f"the schedule {self.name!r} of {self.stages} stages has no stage {stage}")
        return stage % self.devices

    def needs(self, task: Task) -> tuple[Task, ...]:
        """The tasks whose results a task reads, whichever device they run on."""
        stage, micro_batch = task.stage, task.micro_batch
        if task.phase is Phase.FORWARD:
            return (Task(Phase.FORWARD, stage - 1, micro_batch),) if stage > 0 else ()
        forward = Task(Phase.FORWARD, stage, micro_batch)
        return (forward, Task(Phase.BACKWARD, stage + 1, micro_batch)) if stage < self.stages - 1 else (forward,)


def live(schedule: Schedule) -> tuple[int, ...]:
    """The largest number of live micro-batches of each stage, whatever the times.

    A micro-batch is live from the begin of its forward pass to the end of its backward pass, as its activations are
    kept so long. Without a backward pass nothing is kept, and it is live while its forward pass runs.
    """
    now = [0] * schedule.stages
    peak = [0] * schedule.stages
    for row in schedule.rows:
        for task in row:
            if task.phase is Phase.FORWARD:
                now[task.stage] += 1
                peak[task.stage] = max(peak[task.stage], now[task.stage])
            if task.phase is Phase.BACKWARD or not schedule.backward:
                now[task.stage] -= 1
    return tuple(peak)


def walk(
    rows: Sequence[Sequence[Task]],
    position: list[int],
    waits: Mapping[Task, Sequence[Task]],
    done: set[Task],
) -> Iterator[tuple[int, Task]]:
    """Runs rows as far as they go: yields (device, task), each after what it waits for.

    Args:
        rows: the tasks of each device, in order.
        position: the next task of each row; moved on.
        waits: the tasks that each task waits for.
        done: the tasks that have run; those that run now are added.
    """
    moved = True
    while moved:
        moved = False
        for device, row in enumerate(rows):
            while position[device] < len(row):
                task = row[position[device]]
                if any(need not in done for need in waits[task]):
                    break
                done.add(task)
                position[device] += 1
                moved = True
                yield device, task


def validate(schedule: Schedule) -> None:
    """Checks that a schedule runs every task once, on its device, and comes to an end.

    Raises:
        ScheduleError: it does not; the message lists all violations and the rows.
    """
    faults = list(_size_faults(schedule))
    if not faults:
        faults = [*_place_faults(schedule), *_count_faults(schedule), *_order_faults(schedule)]
    if not faults:
        return
    lines = [
        f"{len(faults)} violation{'s' if len(faults) > 1 else ''} in the schedule {schedule.name!r} of "
        f"{schedule.stages} stages and {schedule.micro_batches} micro-batches "
        "(F2@1 is the forward pass of micro-batch 2 on stage 1):"
    ]
    lines += [f"  {fault}" for fault in faults]
    if schedule.rows:
        lines.append("the rows:")
    for device, row in enumerate(schedule.rows):
        more = " ..." if len(row) > TASKS_SHOWN else ""
        lines.append(f"  device {device}: {' '.join(map(str, row[:TASKS_SHOWN]))}{more}".rstrip())
    raise ScheduleError("\n".join(lines))


def _size_faults(schedule: Schedule) -> Iterator[str]:
    """Numbers with which nothing else can be said."""
    if schedule.stages < 1:
        yield f"it has {schedule.stages} stages; at least 1 is needed"
    if schedule.micro_batches < 1:
        yield f"it has {schedule.micro_batches} micro-batches; at least 1 is needed"
    if not schedule.rows:
        yield "it has no rows; one for each device is needed"
    elif schedule.devices > schedule.stages >= 1:
        yield f"it has {schedule.devices} rows for {schedule.stages} stages; a device without a stage has no row"


def _known(schedule: Schedule, task: Task) -> bool:
    """Whether the schedule has such a stage, micro-batch and phase at all."""
    return (
        0 <= task.stage < schedule.stages
        and 0 <= task.micro_batch < schedule.micro_batches
        and (task.phase is Phase.FORWARD or schedule.backward)
    )


def _place_faults(schedule: Schedule) -> Iterator[str]:
    """Tasks that do not exist, or are not of their device."""
    for device, row in enumerate(schedule.rows):
        for task in row:
            if not 0 <= task.stage < schedule.stages:
                yield f"device {device} runs {task}: there is no stage {task.stage}"
            elif not 0 <= task.micro_batch < schedule.micro_batches:
                yield f"device {device} runs {task}: there is no micro-batch {task.micro_batch}"
            elif not _known(schedule, task):
                yield f"device {device} runs {task}: a schedule named {FORWARD_ONLY!r} has no backward passes"
            elif schedule.device(task.stage) != device:
                yield f"device {device} runs {task}: stage {task.stage} is on device {schedule.device(task.stage)}"


def _count_faults(schedule: Schedule) -> Iterator[str]:
    """Tasks that are missing, or there several times."""
    counts = collections.Counter(task for row in schedule.rows for task in row)
    for stage in range(schedule.stages):
        for phase in Phase if schedule.backward else (Phase.FORWARD,):
            tasks = [Task(phase, stage, micro_batch) for micro_batch in range(schedule.micro_batches)]
            missing = [str(task) for task in tasks if counts[task] == 0]
            if missing:
                yield f"stage {stage} never runs {', '.join(missing)}"
            for task in tasks:
                if counts[task] > 1:
                    yield f"stage {stage} runs {task} {counts[task]} times"


def _order_faults(schedule: Schedule) -> Iterator[str]:
    """Rows in the wrong order, found by running them on paper.

    What is reported already is taken as met, so that one fault does not hide another: needs that are missing, needs
    that the same row holds later, and one wait of each circle that was found.
    """
    rows = [list(dict.fromkeys(task for task in row if _known(schedule, task))) for row in schedule.rows]
    place: dict[Task, tuple[int, int]] = {}
    for device, row in enumerate(rows):
        for index, task in enumerate(row):
            place.setdefault(task, (device, index))
    waits: dict[Task, tuple[Task, ...]] = {}
    for task, (device, index) in place.items():
        needs = [need for need in schedule.needs(task) if need in place]
        broken = [need for need in needs if place[need][0] == device and place[need][1] > index]
        for need in broken:
            yield f"device {device} runs {task} before {need}, which it needs"
        waits[task] = tuple(need for need in needs if need not in broken)
    position = [0] * len(rows)
    done: set[Task] = set()
    while True:
        for _ in walk(rows, position, waits, done):
            pass
        stuck = {device: row[position[device]] for device, row in enumerate(rows) if position[device] < len(row)}
        if not stuck:
            return
        circle = _circle(stuck, waits, place, done)
        told = ", ".join(f"device {device} at {stuck[device]} for {need}" for device, need in circle)
        yield f"deadlock, devices wait for one another: {told}"
        device, need = circle[0]
        waits[stuck[device]] = tuple(other for other in waits[stuck[device]] if other != need)


def _circle(
    stuck: Mapping[int, Task],
    waits: Mapping[Task, Sequence[Task]],
    place: Mapping[Task, tuple[int, int]],
    done: set[Task],
) -> list[tuple[int, Task]]:
    """Devices that wait for one another in turn, each with what it waits for."""
    path: dict[int, Task] = {}
    device = min(stuck)
    while device not in path:
        path[device] = next(need for need in waits[stuck[device]] if need not in done)
        device = place[path[device]][0]
    return list(path.items())[list(path).index(device) :]
