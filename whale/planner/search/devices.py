"""What a search knows of devices: kinds, pools of equal devices on one machine, and the groups that they make up."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Sequence

from whale.cluster import Device
from whale.cost_model import Topology
from whale.errors import ClusterError

_PARTITIONED = 8
"""Pools of at most so many devices are cut into groups by trying all ways."""


@dataclasses.dataclass(frozen=True, order=True)
class Kind:
    """Devices that cost the same."""

    model: str
    memory_bytes: int
    """0 where unknown: then nothing is refused for want of memory."""

    @property
    def cap(self) -> float:
        """Bytes that a plan may take."""
        return float(self.memory_bytes) if self.memory_bytes else math.inf


@dataclasses.dataclass(frozen=True, eq=False)
class Pool:
    """Equal devices of one machine; a search has one object for each."""

    kind: Kind
    machine: str
    devices: tuple[Device, ...]

    def capacity(self, parts: int) -> int:
        """How many groups of so many devices it has."""
        return len(self.devices) // parts


def make_pools(topology: Topology, machines: Sequence[str] | None = None) -> tuple[Pool, ...]:
    """The compute devices of a cluster by machine and kind.

    Args:
        topology: the cluster.
        machines: those that may be used, in their order in a pipeline; by default all in the cluster's order.
    """
    found: dict[tuple[str, Kind], list[Device]] = {}
    for device in _joined(topology):
        key = (topology.machine(device), Kind(device.model, device.memory_bytes or 0))
        found.setdefault(key, []).append(device)
    order = list(dict.fromkeys(machine for machine, _ in found)) if machines is None else list(machines)
    return tuple(
        Pool(kind, machine, tuple(devices))
        for at in order
        for (machine, kind), devices in found.items()
        if machine == at
    )


def _joined(topology: Topology) -> list[Device]:
    """The compute devices; of a machine whose devices cannot reach each other, the first."""
    machines: dict[str, list[Device]] = {}
    for device in topology.cluster.compute_devices:
        machines.setdefault(topology.machine(device), []).append(device)
    found: list[Device] = []
    for devices in machines.values():
        try:
            if len(devices) > 1:
                topology.inside(devices[:2])
            found.extend(devices)
        except ClusterError:
            found.append(devices[0])
    return found


def kinds_of(pools: Sequence[Pool]) -> tuple[Kind, ...]:
    """The kinds of some pools, in order of their first."""
    return tuple(dict.fromkeys(pool.kind for pool in pools))


class Grouping:
    """Cuts pools into tensor-parallel groups: equal devices of one machine, joined by the best links there are."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self._found: dict[tuple[Pool, int], tuple[tuple[str, ...], ...]] = {}

    def groups(self, pool: Pool, parts: int) -> tuple[tuple[str, ...], ...]:
        """Disjoint groups of ``parts`` devices, as device strings.

        Of all ways to group up to eight devices, the one whose slowest group has the fastest links; the first of
        equal ones. More devices are grouped in their order.
        """
        key = (pool, parts)
        found = self._found.get(key)
        if found is None:
            chosen = self._choose(pool.devices, parts)
            found = self._found[key] = tuple(tuple(d.name for d in group) for group in chosen)
        return found

    def _choose(self, devices: tuple[Device, ...], parts: int) -> Sequence[tuple[Device, ...]]:
        count = len(devices) // parts
        plain = [devices[i * parts : (i + 1) * parts] for i in range(count)]
        if parts == 1 or count < 2 or len(devices) > _PARTITIONED or len(devices) % parts:
            return plain
        return max(_partitions(devices, parts), key=lambda way: min(self._speed(group) for group in way))

    @functools.cache  # noqa: B019 - lives as long as one search
    def _speed(self, group: tuple[Device, ...]) -> float:
        return self.topology.inside(group).bytes_per_second


def _partitions(devices: tuple[Device, ...], parts: int) -> Iterator[list[tuple[Device, ...]]]:
    """All ways to cut devices into groups of ``parts``; the first keeps their order."""
    if not devices:
        yield []
        return
    first, rest = devices[0], devices[1:]
    for others in itertools.combinations(rest, parts - 1):
        left = tuple(device for device in rest if device not in others)
        for way in _partitions(left, parts):
            yield [(first, *others), *way]
