"""Layouts: how a cluster's compute devices are handed out to TaskGraphs.

A layout turns a cluster into *slices*. Slice s is for the s-th TaskGraph; it holds one tuple of device strings per
replica. ``docs/cluster.md`` has the table with an example of each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Union, cast

from whale.cluster.devices import Cluster, Device
from whale.cluster.virtual_device import VirtualDevice, check_used_once
from whale.errors import ClusterError, nearest

Layout = Union[str, Mapping[str, object]]
"""``"all"``, ``"auto"``, ``"aware_row"``, or a mapping from one layout's name to its argument."""

Slices = tuple[tuple[tuple[str, ...], ...], ...]
"""Device strings by slice, replica, and position in the replica."""

_WITHOUT_SIZE = ("all", "auto", "aware_row")
_WITH_SIZE = ("average", "row", "column", "aware_row")
_NAMES = ("all", "average", "row", "column", "specific", "auto", "aware_row")


def slices(
    cluster: Cluster, layout: Layout = "all", *, device_counts: Sequence[int] = (1,), prefer_intra_node: bool = True
) -> Slices:
    """The device strings of ``virtual_devices``, which see."""
    found = virtual_devices(cluster, layout, device_counts=device_counts, prefer_intra_node=prefer_intra_node)
    return tuple(virtual.names for virtual in found)


def virtual_devices(
    cluster: Cluster, layout: Layout = "all", *, device_counts: Sequence[int] = (1,), prefer_intra_node: bool = True
) -> tuple[VirtualDevice, ...]:
    """One virtual device per slice of ``layout``; no device is in two of them.

    Only ``"auto"`` looks at the options: ``device_counts`` is how many devices one replica of each TaskGraph takes, and
    ``prefer_intra_node`` fills hosts one after another rather than taking a device from each in turn. With the
    defaults ``"auto"`` is ``"all"``.

    Raises ClusterError for an unknown layout, a size that does not divide the devices, more devices than there are,
    and in ``specific`` a device that does not exist or is named twice.
    """
    name, argument = _parse(layout)
    if name == "specific":
        return _specific(cluster, argument)
    devices = cluster.compute_devices
    if name == "auto":
        ordered = devices if prefer_intra_node else _by_column(devices)
        return _auto(ordered, device_counts)
    if name == "all":
        groups = [devices]
    elif name == "aware_row":
        groups = _by_machine(cluster, argument)
    else:
        ordered = _by_column(devices) if name == "column" else devices
        groups = _chunks(ordered, _size(name, argument, len(devices)))
    return tuple(_one_device_replicas(index, group) for index, group in enumerate(groups))


def _parse(layout: Layout) -> tuple[str, object]:
    """The layout's name and its argument; None where it has none."""
    name, argument = (layout, None) if isinstance(layout, str) else _only_entry(layout)
    if name not in _NAMES:
        raise ClusterError(f"unknown layout {name!r}", fix=nearest(name, _NAMES) or f"layouts: {', '.join(_NAMES)}")
    # EPL's scripts also write {"all": True}.
    if name in _WITHOUT_SIZE and argument is True:
        argument = None
    if argument is None and name not in _WITHOUT_SIZE:
        raise ClusterError(f"layout {name!r} needs an argument", fix=f"write {{{name!r}: ...}}, see docs/cluster.md")
    if argument is not None and name not in _WITH_SIZE and name != "specific":
        raise ClusterError(f"layout {name!r} takes no argument, not {argument!r}", fix=f"write {name!r}")
    return name, argument


def _only_entry(layout: object) -> tuple[str, object]:
    if not isinstance(layout, Mapping):
        raise ClusterError(f"{layout!r} is not a layout", fix=f"layouts: {', '.join(_NAMES)}")
    entries = list(cast("Mapping[object, object]", layout).items())
    if len(entries) != 1:
        raise ClusterError(f"a layout of {len(entries)} entries: {layout!r}", fix="use exactly one layout")
    name, argument = entries[0]
    return str(name), argument


def _size(name: str, argument: object, available: int) -> int:
    """The number of devices per slice, checked against the number there are."""
    if not isinstance(argument, int) or isinstance(argument, bool) or argument < 1:
        raise ClusterError(f"layout {name!r} takes a positive number of devices per slice, not {argument!r}")
    if argument > available:
        raise ClusterError(
            f"layout {name!r} asks for {argument} devices per slice, and the cluster has {available}",
            fix="use a smaller number, or more devices",
        )
    if available % argument:
        fitting = [str(size) for size in range(1, available + 1) if available % size == 0]
        raise ClusterError(
            f"layout {name!r}: {argument} devices per slice do not divide {available} devices",
            fix=f"use one of {', '.join(fitting)}",
        )
    return argument


def _by_column(devices: Sequence[Device]) -> tuple[Device, ...]:
    """The first device of every host, then the second of every host that has one, and so on."""
    return tuple(sorted(devices, key=lambda device: (device.index, device.task)))


def _chunks(devices: Sequence[Device], size: int) -> list[tuple[Device, ...]]:
    return [tuple(devices[start : start + size]) for start in range(0, len(devices), size)]


def _by_machine(cluster: Cluster, argument: object) -> list[tuple[Device, ...]]:
    """Slices of hosts that share a machine; with a number, of that many devices, machine after machine.

    Machines come in the order of their first task. A slice may take part of a machine, or several whole ones: one that
    took part of two would lose what the layout is for.
    """
    machines: dict[str, list[Device]] = {}
    for device in cluster.compute_devices:
        machines.setdefault(cluster.hosts[device.task].machine, []).append(device)
    if argument is None:
        return [tuple(group) for group in machines.values()]
    ordered = [device for group in machines.values() for device in group]
    chunks = _chunks(ordered, _size("aware_row", argument, len(ordered)))
    for index, chunk in enumerate(chunks):
        touched = list(dict.fromkeys(cluster.hosts[device.task].machine for device in chunk))
        if len(touched) > 1 and sum(len(machines[machine]) for machine in touched) != len(chunk):
            raise ClusterError(
                f"layout 'aware_row': slice {index} of {len(chunk)} devices takes part of machines"
                f" {', '.join(touched)}",
                fix="use a number that divides every machine's devices, or makes up whole machines",
            )
    return chunks


def _one_device_replicas(index: int, devices: Sequence[Device]) -> VirtualDevice:
    return VirtualDevice(index, tuple((device,) for device in devices))


def _auto(devices: Sequence[Device], device_counts: Sequence[int]) -> tuple[VirtualDevice, ...]:
    """As many replicas of the whole model as fit, each a run of devices dealt to its TaskGraphs in order."""
    if not device_counts or min(device_counts) < 1:
        raise ClusterError(f"layout 'auto': devices per TaskGraph {tuple(device_counts)}", fix="each needs at least 1")
    model = _chunks(devices, _size("auto", sum(device_counts), len(devices)))
    found: list[VirtualDevice] = []
    start = 0
    for index, count in enumerate(device_counts):
        found.append(VirtualDevice(index, tuple(replica[start : start + count] for replica in model)))
        start += count
    return tuple(found)


def _specific(cluster: Cluster, argument: object) -> tuple[VirtualDevice, ...]:
    found = tuple(
        VirtualDevice.named(cluster, index, [_names(replica, index) for replica in _list(part, "a slice")])
        for index, part in enumerate(_list(argument, "the layout 'specific'"))
    )
    if not found:
        raise ClusterError("layout 'specific' holds no slice", fix="name at least one")
    check_used_once([device for virtual in found for device in virtual.devices])
    return found


def _list(value: object, what: str) -> list[object]:
    if not isinstance(value, (list, tuple)):
        raise ClusterError(
            f"{what} is {value!r}, not a list",
            fix="nest lists three deep: slices, their replicas, the device strings of each replica",
        )
    return list(cast("Sequence[object]", value))


def _names(replica: object, index: int) -> list[str]:
    names = _list(replica, f"a replica of slice {index}")
    for name in names:
        if not isinstance(name, str):
            raise ClusterError(f"slice {index} names the device {name!r}", fix="device strings are text")
    return cast("list[str]", names)
