"""Which devices the stages of a pipeline run on, and in which order they work.

Devices are dealt to the stages replica by replica, in the cluster's order, so that the stages of one replica are
neighbours. A stage on several devices gives them its micro-batches in turn. Under an interleaved schedule a device has
several stages: stage s is on device s modulo their number.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from whale.config.schedule_names import canonical
from whale.errors import PlanError
from whale.ir.schedule import Schedule
from whale.ir.schedules import INTERLEAVED, make
from whale.ir.task_graphs import PipelineRequest


@dataclasses.dataclass(frozen=True)
class Dealt:
    """Devices and order of a pipeline."""

    devices: tuple[tuple[tuple[str, ...], ...], ...]
    """By replica and stage: the devices of the stage, which take its micro-batches in turn."""
    schedule: Schedule
    """The order of tasks of one replica."""
    idle: tuple[str, ...] = ()
    """Devices that no stage is on."""

    def of_copies(self, micro_batches: int) -> tuple[tuple[str, ...], ...]:
        """By stage and copy: the device. Copies are numbered replica by replica."""
        stages = range(len(self.devices[0]))
        return tuple(
            tuple(replica[stage][m % len(replica[stage])] for replica in self.devices for m in range(micro_batches))
            for stage in stages
        )


def deal(request: PipelineRequest, available: Sequence[str], replicated: bool, chosen: int | None = None) -> Dealt:
    """Deals devices to stages.

    Args:
        request: stages, micro-batches and the name of the schedule.
        available: devices, in the cluster's order.
        replicated: whether the model is copied as often as the devices allow; else there is one copy.
        chosen: devices of one replica, where the script says how many; only an interleaved schedule can do with
            fewer than stages.

    Raises:
        PlanError: more stages than devices, or devices that replicas cannot share evenly.
        ScheduleError: the schedule does not exist, or does not fit.
    """
    stages = request.stages
    if any(stage.devices for stage in stages):
        return _named(request)
    interleaved = canonical(request.strategy) == INTERLEAVED
    needed = sum(stage.device_count for stage in stages)
    if interleaved:
        needed = min(chosen or len(available), len(available), len(stages))
    if needed > len(available):
        several = ", some of them on several devices" if needed > len(stages) else ""
        raise PlanError(
            f"a pipeline of {len(stages)} stages{several} needs {needed} devices, and there are {len(available)}",
            site=request.site,
            fix=f"run it on as many (whale run --devices {needed}), join stages, or let devices have several stages "
            '(pipeline strategy "Interleaved")',
        )
    if replicated and len(available) % needed:
        raise PlanError(
            f"replicas of {needed} devices each cannot use up {len(available)} devices",
            site=request.site,
            fix=f"run on a multiple of {needed} devices, or take the pipeline out of wh.replica() for one replica",
        )
    replicas = len(available) // needed if replicated else 1
    schedule = make(request.strategy, len(stages), needed if interleaved else len(stages), request.micro_batches)
    dealt: list[tuple[tuple[str, ...], ...]] = []
    for replica in range(replicas):
        own = available[replica * needed : (replica + 1) * needed]
        if interleaved:
            dealt.append(tuple((own[stage % needed],) for stage in range(len(stages))))
            continue
        rows: list[tuple[str, ...]] = []
        for stage in stages:
            start = sum(len(row) for row in rows)
            rows.append(tuple(own[start : start + stage.device_count]))
        dealt.append(tuple(rows))
    return Dealt(tuple(dealt), schedule, tuple(available[replicas * needed :]))


def _named(request: PipelineRequest) -> Dealt:
    """The devices that the stages name."""
    stages = request.stages
    for number, stage in enumerate(stages):
        if not stage.devices:
            raise PlanError(
                f"stage {number} names no devices, and other stages do",
                site=stage.site,
                fix="give every stage devices, such as an entry of the slices of wh.cluster(), or none",
            )
        if len(stage.devices) != len(stages[0].devices):
            raise PlanError(
                f"stage {number} has devices for {len(stage.devices)} replicas, stage 0 for {len(stages[0].devices)}",
                site=stage.site,
                fix="give every stage devices for equally many replicas",
            )
    rows = len(stages) if canonical(request.strategy) != INTERLEAVED else len({stage.devices for stage in stages})
    used: dict[str, int] = {}
    for number, stage in enumerate(stages):
        for device in (d for replica in stage.devices for d in replica):
            if used.setdefault(device, number % rows) != number % rows:
                raise PlanError(
                    f"stages {used[device]} and {number} are on one device, {device}",
                    site=stage.site,
                    fix='give each stage its own, or use the pipeline strategy "Interleaved" and name none',
                )
    schedule = make(request.strategy, len(stages), rows, request.micro_batches)
    replicas = range(len(stages[0].devices))
    return Dealt(tuple(tuple(stage.devices[r] for stage in stages) for r in replicas), schedule)
