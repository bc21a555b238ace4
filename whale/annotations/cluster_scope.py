"""``cluster``: how the devices are handed out, and what scripts read of them."""

from __future__ import annotations

from typing import NoReturn

import tensorflow.compat.v1 as tf

from whale.annotations.state import record_of, script
from whale.cluster import Cluster, Slices, VirtualDevice
from whale.config.env import missing_name


class ClusterFace:
    """The devices of this process as ``Env.get().cluster`` shows them, under the layout now in force."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def slices(self) -> list[list[list[str]]]:
        """Device strings by slice, replica, and position in the replica: ``slices[s]`` is for the s-th TaskGraph."""
        return [[list(replica) for replica in virtual] for virtual in self._laid_out()]

    @property
    def virtual_devices(self) -> list[VirtualDevice]:
        """The slices as objects, under EPL's name."""
        return [VirtualDevice.named(self._cluster, at, virtual) for at, virtual in enumerate(self._laid_out())]

    @property
    def total_gpu_num(self) -> int:
        """Number of devices of the cluster; CPU devices where there is no GPU."""
        return self._cluster.total_gpu_num

    @property
    def gpu_num_per_worker(self) -> int:
        """Number of devices of this process."""
        return self._cluster.total_gpu_num // self._cluster.worker_num

    @property
    def available_devices(self) -> list[str]:
        """Device strings of the devices of this process, under EPL's name."""
        return list(self._cluster.available_devices)

    @property
    def worker_num(self) -> int:
        """Number of processes."""
        return self._cluster.worker_num

    @property
    def worker_index(self) -> int:
        """Number of this process: one process drives all devices."""
        return 0

    def _laid_out(self) -> Slices:
        return script().slices or (tuple((name,) for name in self._cluster.available_devices),)

    def __getattr__(self, name: str) -> NoReturn:
        """Called for what is none of these."""
        known = [known for known in dir(ClusterFace) if not known.startswith("_")]
        missing_name("the cluster", name, known)


class ClusterScope(ClusterFace):
    """A layout of the cluster's devices, in force from the call on, or within a ``with`` block."""

    def __init__(self, cluster: Cluster, slices: Slices) -> None:
        """Puts a layout in force."""
        super().__init__(cluster)
        self._own = slices
        self._before = script().slices
        self._put_in_force()

    def _laid_out(self) -> Slices:
        return self._own

    def _put_in_force(self) -> None:
        script().slices = self._own
        record_of(tf.get_default_graph()).layout = script().layout

    def __enter__(self) -> ClusterScope:
        self._put_in_force()
        return self

    def __exit__(self, *exception: object) -> None:
        script().slices = self._before
