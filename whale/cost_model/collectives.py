"""Seconds of transfers and collectives over a topology.

An all-reduce of b bytes over n devices takes ``start + (n - 1) hop + 2 (n - 1) / n b / rate`` (a ring: every device
sends and receives 2 (n - 1) / n of the bytes). The rate is that of the slowest link on the ring. Over several machines
the ring enters and leaves each machine once, and shares the machine's network with the other groups that exchange at
the same time.
"""

from __future__ import annotations

from collections.abc import Sequence

from whale.cluster import Device
from whale.cost_model.topology import Topology


def all_reduce_seconds(
    topology: Topology, devices: Sequence[Device], size: float, sharing: float | None = None
) -> float:
    """An all-reduce.

    Args:
        topology: the links.
        devices: the members.
        size: bytes of the tensor, on each member.
        sharing: groups that use a machine's network at the same time; by default as many as its devices make up
            alike.
    """
    count = len(devices)
    if count < 2 or size <= 0:
        return 0.0
    groups = _by_machine(topology, devices)
    rate, start, hop = float("inf"), 0.0, 0.0
    for members in groups.values():
        if len(members) > 1:
            path = topology.inside(members)
            rate = min(rate, path.bytes_per_second)
            start, hop = max(start, path.start_seconds), max(hop, path.hop_seconds)
    seconds = start + hop * (count - len(groups))
    if len(groups) > 1:
        network = topology.between(tuple(groups))
        rate = min(rate, network.bytes_per_second / _sharing(topology, groups, sharing))
        seconds += network.start_seconds + network.hop_seconds * (len(groups) - 1)
    return seconds + 2 * (count - 1) / count * size / rate


def all_gather_seconds(topology: Topology, devices: Sequence[Device], size: float) -> float:
    """An all-gather, or a reduce-scatter: half of an all-reduce. ``size`` is that of the whole tensor."""
    return all_reduce_seconds(topology, devices, size) / 2


def send_seconds(topology: Topology, source: Device, target: Device, size: float, sharing: float = 1.0) -> float:
    """A transfer between two devices.

    Args:
        topology: the links.
        source: where the bytes are.
        target: where they go.
        size: bytes.
        sharing: transfers that leave the same machine at the same time.
    """
    if source == target or size <= 0:
        return 0.0
    if topology.machine(source) == topology.machine(target):
        path = topology.inside((source, target))
        return path.start_seconds + size / path.bytes_per_second
    path = topology.between((topology.machine(source), topology.machine(target)))
    return path.start_seconds + size * sharing / path.bytes_per_second


def _by_machine(topology: Topology, devices: Sequence[Device]) -> dict[str, list[Device]]:
    groups: dict[str, list[Device]] = {}
    for device in devices:
        groups.setdefault(topology.machine(device), []).append(device)
    return groups


def _sharing(topology: Topology, groups: dict[str, list[Device]], sharing: float | None) -> float:
    if sharing is not None:
        return sharing
    return max(topology.peers(members[0]) / len(members) for members in groups.values())
