"""The schedules: who runs which micro-batch next.

All have one form: a device runs some forward passes ahead, then one forward and one backward pass in turn, then the
backward passes that are left. They differ in how many forward passes run ahead. Backward passes keep the order of the
micro-batches, so every schedule adds the gradients of micro-batches in the same order.

Legend: stage s of S, micro-batch m of M, device d of D, all from 0.

Sources: GPipe, Huang et al., NeurIPS 2019. 1F1B, Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training",
ICML 2021 (there PipeDream-Flush), and DAPPLE, Fan et al., PPoPP 2021. Interleaved, Narayanan et al., "Efficient
Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", SC 2021, section 2.2.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

from whale.config.schedule_names import canonical
from whale.errors import ScheduleError
from whale.ir.schedule import FORWARD_ONLY, Phase, Schedule, Task


def gpipe(stages: int, micro_batches: int) -> Schedule:
    """All forward passes, then all backward passes. Every stage keeps M micro-batches.

    Raises:
        ScheduleError: a number is below 1.
    """
    return _one_stage_a_device("gpipe", stages, micro_batches, lambda stage: micro_batches)


def one_f_one_b(stages: int, micro_batches: int) -> Schedule:
    """A backward pass as soon as there is one. Stage s keeps at most min(M, S - s) micro-batches.

    Raises:
        ScheduleError: a number is below 1.
    """
    return _one_stage_a_device("one_f_one_b", stages, micro_batches, lambda stage: stages - stage - 1)


def prefer_backward_optimizer(stages: int, micro_batches: int) -> Schedule:
    """1F1B with one more forward pass ahead on every stage but the last.

    While a result is on its way to the next stage and back, the stage has another forward pass to run. It keeps at
    most min(M, S - s + 1) micro-batches. The last stage sends no activations and runs as under 1F1B. The name and the
    meaning are those of EPL.

    Raises:
        ScheduleError: a number is below 1.
    """
    return _one_stage_a_device(
        "prefer_backward_optimizer",
        stages,
        micro_batches,
        lambda stage: stages - stage if stage < stages - 1 else 0,
    )


def interleaved(devices: int, stages: int, micro_batches: int) -> Schedule:
    """1F1B with S / D stages on every device, stage s on device s % D, so that the pipeline fills in smaller steps.

    Micro-batches go round in groups of D: a device runs a group on its first stage, then on its next one. When M is
    no multiple of D, the schedule is that of the next multiple without the micro-batches that do not exist; leaving
    out whole micro-batches breaks no need and no order.

    Raises:
        ScheduleError: a number is below 1, or the stages are no multiple of the devices.
    """
    chunks = _chunks(devices, stages, micro_batches)
    if chunks == 1:
        return Schedule("interleaved", stages, micro_batches, one_f_one_b(stages, micro_batches).rows)
    rounded = -(-micro_batches // devices) * devices
    rows: list[tuple[Task, ...]] = []
    for device in range(devices):
        own = range(device, stages, devices)
        row = _one_after_one(
            _rounds(Phase.FORWARD, own, rounded, devices),
            _rounds(Phase.BACKWARD, own[::-1], rounded, devices),
            # The first chunks - 1 rounds of a group, and the way of a result to the last device and back.
            (chunks - 1) * devices + 2 * (devices - device - 1),
        )
        rows.append(tuple(task for task in row if task.micro_batch < micro_batches))
    return Schedule("interleaved", stages, micro_batches, tuple(rows))


def forward_only(stages: int, micro_batches: int, devices: int | None = None) -> Schedule:
    """Forward passes alone, for evaluation; stage s on device s % D, one device per stage unless given.

    Raises:
        ScheduleError: a number is below 1, or the stages are no multiple of the devices.
    """
    devices = stages if devices is None else devices
    _chunks(devices, stages, micro_batches)
    rows = [_rounds(Phase.FORWARD, range(device, stages, devices), micro_batches, devices) for device in range(devices)]
    return Schedule(FORWARD_ONLY, stages, micro_batches, tuple(map(tuple, rows)))


BUILDERS: Mapping[str, Callable[[int, int], Schedule]] = {
    "gpipe": gpipe,
    "one_f_one_b": one_f_one_b,
    "prefer_backward_optimizer": prefer_backward_optimizer,
}
"""Schedules that run one stage on every device, by their own names."""

INTERLEAVED = "interleaved"
"""The schedule that runs several stages on a device."""


def make(strategy: str, stages: int, devices: int, micro_batches: int, backward: bool = True) -> Schedule:
    """The schedule that a script's strategy asks for, on the devices of one replica.

    Args:
        strategy: any name that ``schedule_names.canonical`` takes.
        stages: number of stages, S.
        devices: number of devices of one replica, D.
        micro_batches: number of micro-batches of a step, M.
        backward: whether there is a backward pass; without one the strategy only says how many stages a device has.

    Raises:
        ScheduleError: the strategy is unknown, a number is below 1, or the stages do not fit the devices.
    """
    name = canonical(strategy)
    _check_positive(devices=devices, stages=stages, micro_batches=micro_batches)
    if name != INTERLEAVED and stages != devices:
        several = ", or 'Interleaved' to run several stages on a device" if stages % devices == 0 else ""
        raise ScheduleError(
            f"the pipeline strategy {strategy!r} runs one stage on every device, and there are {stages} stages and "
            f"{devices} devices",
            fix=f"use {stages} devices{several}",
        )
    if not backward:
        return forward_only(stages, micro_batches, devices)
    return interleaved(devices, stages, micro_batches) if name == INTERLEAVED else BUILDERS[name](stages, micro_batches)


def _one_stage_a_device(name: str, stages: int, micro_batches: int, ahead: Callable[[int], int]) -> Schedule:
    """The schedule whose stage s runs ``ahead(s)`` forward passes before it runs one after one."""
    _check_positive(stages=stages, micro_batches=micro_batches)
    rows = [
        _one_after_one(
            [Task(Phase.FORWARD, stage, micro_batch) for micro_batch in range(micro_batches)],
            [Task(Phase.BACKWARD, stage, micro_batch) for micro_batch in range(micro_batches)],
            ahead(stage),
        )
        for stage in range(stages)
    ]
    return Schedule(name, stages, micro_batches, tuple(rows))


def _one_after_one(forward: Sequence[Task], backward: Sequence[Task], ahead: int) -> tuple[Task, ...]:
    """``ahead`` forward tasks, then a forward and a backward task in turn, then the backward tasks that are left."""
    ahead = min(ahead, len(forward))
    pairs = zip(forward[ahead:], backward)
    return (*forward[:ahead], *itertools.chain.from_iterable(pairs), *backward[len(forward) - ahead :])


def _rounds(phase: Phase, stages: Sequence[int], micro_batches: int, size: int) -> list[Task]:
    """The tasks of a device's stages: groups of up to ``size`` micro-batches, each through all stages."""
    return [
        Task(phase, stage, micro_batch)
        for group in range(0, micro_batches, size)
        for stage in stages
        for micro_batch in range(group, min(group + size, micro_batches))
    ]


def _chunks(devices: int, stages: int, micro_batches: int) -> int:
    """How many stages every device has."""
    _check_positive(devices=devices, stages=stages, micro_batches=micro_batches)
    if stages % devices:
        lower, upper = stages - stages % devices, stages - stages % devices + devices
        near = f"{lower} or {upper}" if lower else str(upper)
        raise ScheduleError(
            f"{stages} stages cannot be dealt to {devices} devices, the same number to each",
            fix=f"use {near} stages, or a number of devices that divides {stages}",
        )
    return stages // devices


def _check_positive(**numbers: int) -> None:
    for name, number in numbers.items():
        if number < 1:
            raise ScheduleError(f"a pipeline of {number} {name.replace('_', '-')}", fix="give at least 1")
