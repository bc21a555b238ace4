"""What is equal is told once: devices of one use, replicas of one share."""

from __future__ import annotations

import dataclasses

from whale.cost_model import MemoryUse
from whale.planner.report.report import DeviceFacts, PlanReport


@dataclasses.dataclass(frozen=True)
class DeviceFold:
    """Devices with the same model, stages and use of memory."""

    devices: tuple[DeviceFacts, ...]
    measured_bytes: int | None
    """The most bytes that were measured on one of them."""

    @property
    def first(self) -> DeviceFacts:
        """One that stands for all."""
        return self.devices[0]


def fold_devices(report: PlanReport) -> tuple[DeviceFold, ...]:
    """All devices, in order of their stages, then of the cluster; idle ones last."""
    peaks = dict(report.measured.peak_bytes) if report.measured is not None else {}
    groups: dict[tuple[tuple[int, ...], str, int | None, MemoryUse | None], list[DeviceFacts]] = {}
    for device in report.devices:
        groups.setdefault((device.stages, device.model, device.limit_bytes, device.memory), []).append(device)
    folds: list[DeviceFold] = []
    for devices in sorted(groups.values(), key=lambda group: (group[0].idle, group[0].stages)):
        told = [peaks[device.name] for device in devices if device.name in peaks]
        folds.append(DeviceFold(tuple(devices), max(told, default=None)))
    return tuple(folds)


def fold_replicas(report: PlanReport) -> tuple[tuple[int, ...], ...]:
    """Replicas with equal parts of the batch on equal kinds of devices, in order of the first of each."""
    models = {device.name: device.model for device in report.devices}
    groups: dict[tuple[float, tuple[str, ...]], list[int]] = {}
    for replica in report.replicas:
        kinds = tuple(models[device] for stage in report.stages for device in stage.devices[replica.number])
        groups.setdefault((replica.samples, kinds), []).append(replica.number)
    return tuple(tuple(group) for group in groups.values())


def replica_devices(report: PlanReport, replicas: tuple[int, ...], stage: int | None = None) -> list[DeviceFacts]:
    """The devices of some replicas, each once: of one stage, or of all."""
    of_name = {device.name: device for device in report.devices}
    stages = report.stages if stage is None else report.stages[stage : stage + 1]
    names = dict.fromkeys(d for each in stages for replica in replicas for d in each.devices[replica])
    return [of_name[name] for name in names]
