"""``cluster``: how the devices are handed out."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from whale.annotations.state import record_of, script
from whale.cluster import Cluster, Slices


class ClusterScope:
    """A layout of the cluster's devices, in force from the call on, or within a ``with`` block."""

    def __init__(self, cluster: Cluster, slices: Slices) -> None:
        """Puts a layout in force."""
        self._cluster = cluster
        self._slices = slices
        self._before = script().layout
        self._put_in_force()

    @property
    def slices(self) -> list[list[list[str]]]:
        """Device strings by slice, replica, and position in the replica: ``slices[s]`` is for the s-th TaskGraph."""
        return [[list(replica) for replica in virtual] for virtual in self._slices]

    @property
    def total_gpu_num(self) -> int:
        """Number of devices of the cluster; CPU devices where there is no GPU."""
        return self._cluster.total_gpu_num

    @property
    def worker_num(self) -> int:
        """Number of processes."""
        return self._cluster.worker_num

    def _put_in_force(self) -> None:
        devices = tuple(name for virtual in self._slices for replica in virtual for name in replica)
        script().layout = devices
        record_of(tf.get_default_graph()).layout = devices

    def __enter__(self) -> ClusterScope:
        self._put_in_force()
        return self

    def __exit__(self, *exception: object) -> None:
        script().layout = self._before
