"""From the devices a scope asks for to devices of the cluster. No TensorFlow."""

from __future__ import annotations

from whale.annotations.strategies import Kind, Strategy
from whale.cluster import Cluster, Layout, Slices, VirtualDevice, slices
from whale.errors import ClusterError, Site


def place(strategy: Strategy, cluster: Cluster, layout: tuple[str, ...], site: Site | None) -> tuple[str, ...]:
    """Canonical strings of the devices of a scope, replica by replica.

    Args:
        strategy: what the scope asks for. When it names no devices, those of the layout are its.
        cluster: the devices there are.
        layout: the devices of the layout in force; empty for all.
        site: the user's line.

    Raises:
        ClusterError: a device does not exist or is named twice, replicas are of unequal size, or ``device_count`` is
            more than there are or does not divide them.
    """
    every = layout or tuple(device.name for device in cluster.compute_devices)
    try:
        if strategy.devices:
            return tuple(device.name for device in VirtualDevice.named(cluster, 0, strategy.devices).devices)
        if strategy.device_count is not None:
            _check_count(strategy, len(every))
    except ClusterError as error:
        raise _at(error, site, f"{strategy}: ") from None
    return every


def lay_out(cluster: Cluster, layout: Layout, prefer_intra_node: bool, site: Site | None) -> Slices:
    """The slices of a layout.

    Raises:
        ClusterError: as ``whale.cluster.slices``, with the user's line.
    """
    try:
        return slices(cluster, layout, prefer_intra_node=prefer_intra_node)
    except ClusterError as error:
        raise _at(error, site) from None


def _check_count(strategy: Strategy, available: int) -> None:
    """Raises ClusterError unless models that take this many devices each use up the devices; a stage takes a part."""
    count = strategy.device_count or 1
    if count > available:
        raise ClusterError(
            f"device_count asks for {count} devices, and there are {available}",
            fix=f"use at most {available}, or run on more devices (whale run --devices {count})",
        )
    if available % count and strategy.kind is not Kind.STAGE:
        fitting = [str(size) for size in range(1, available + 1) if available % size == 0]
        raise ClusterError(
            f"models of {count} devices each cannot use up {available} devices", fix=f"use one of {', '.join(fitting)}"
        )


def _at(error: ClusterError, site: Site | None, subject: str = "") -> ClusterError:
    return ClusterError(subject + error.what, site=error.site or site, fix=error.fix)
