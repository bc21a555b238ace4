"""VirtualDevice: the devices of one TaskGraph, replica by replica."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from whale.cluster.devices import Cluster, Device
from whale.cluster.lookup import find_device
from whale.errors import ClusterError


@dataclasses.dataclass(frozen=True)
class VirtualDevice:
    """What a TaskGraph runs on. Each device occurs once, and every replica has equally many."""

    index: int
    """Position among the virtual devices of its layout, from 0."""
    replicas: tuple[tuple[Device, ...], ...]
    """The devices of each replica, in order of use: one for data parallelism, several for a ``split`` inside it."""

    def __post_init__(self) -> None:
        """Raises ClusterError for a value no virtual device can have."""
        if not self.replicas or not self.replicas[0]:
            raise ClusterError(f"slice {self.index} holds no device", fix="name at least one replica of one device")
        sizes = [len(replica) for replica in self.replicas]
        for number, size in enumerate(sizes):
            if size != sizes[0]:
                raise ClusterError(
                    f"slice {self.index}: replica {number} has {size} devices and replica 0 has {sizes[0]}",
                    fix="give every replica of a slice equally many devices",
                )
        check_used_once(self.devices)

    @classmethod
    def named(cls, cluster: Cluster, index: int, replicas: Sequence[Sequence[str]]) -> VirtualDevice:
        """The devices of ``cluster`` that these strings stand for. Raises ClusterError for one that does not exist."""
        return cls(index, tuple(tuple(find_device(cluster, name) for name in replica) for replica in replicas))

    @property
    def devices(self) -> tuple[Device, ...]:
        """All devices, replica by replica."""
        return tuple(device for replica in self.replicas for device in replica)

    @property
    def num_replicas(self) -> int:
        """Number of copies of the TaskGraph."""
        return len(self.replicas)

    @property
    def devices_per_replica(self) -> int:
        """Number of devices each copy spans."""
        return len(self.replicas[0])

    @property
    def all_devices(self) -> tuple[str, ...]:
        """All device strings, under EPL's name."""
        return tuple(device.name for device in self.devices)

    @property
    def local_devices(self) -> tuple[str, ...]:
        """The device strings of this process, under EPL's name: one process drives all devices."""
        return self.all_devices

    def get_device(self, replica_index: int, device_index: int) -> str:
        """The device string at a place, under EPL's name."""
        return self.replicas[replica_index][device_index].name

    @property
    def names(self) -> tuple[tuple[str, ...], ...]:
        """The device strings, per replica: one entry of a cluster's ``slices``."""
        return tuple(tuple(device.name for device in replica) for replica in self.replicas)


def check_used_once(devices: Sequence[Device]) -> None:
    """Raises ClusterError when a device occurs twice."""
    seen: set[Device] = set()
    for device in devices:
        if device in seen:
            raise ClusterError(f"device {device.name!r} is used twice", fix="name each device once")
        seen.add(device)
