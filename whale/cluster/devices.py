"""Devices, hosts, links and the cluster they make up: what a plan may place work on.

A cluster is *local* when one process drives all of its devices. Its devices then have no job, and TensorFlow knows
them as ``/device:GPU:0``. Otherwise every host is one task of a job, and they are
``/job:worker/replica:0/task:1/device:GPU:0``.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Iterable
from typing import Literal, TypeVar

from whale.cluster.addresses import parse_address
from whale.cluster.models import KINDS, MODELS, Kind
from whale.cluster.names import format_name
from whale.cluster.quantity import format_bytes
from whale.errors import ClusterError, nearest

LinkKind = Literal["memory", "network", "nvlink", "pcie"]
"""What carries the bytes: the host's memory, a network, NVLink, or PCI Express."""

LINK_KINDS: tuple[LinkKind, ...] = ("memory", "network", "nvlink", "pcie")

WORKER_JOB = "worker"
"""The job of every task of a cluster of several processes."""

_Item = TypeVar("_Item")

_HOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MODEL_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ._+-]*[A-Za-z0-9._+-])?")
_JOB_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


@dataclasses.dataclass(frozen=True)
class Device:
    """One GPU, or one CPU device of TensorFlow's."""

    kind: Kind
    index: int
    """Position among the devices of its kind on its host, from 0, as TensorFlow counts them in that process."""
    host: str
    """Name of its host."""
    task: int
    """Position of its host in the cluster, from 0."""
    model: str
    """A name of ``whale.cluster.models.MODELS``, or any other when kind and memory are stated."""
    memory_bytes: int | None
    """Its memory, or None when unknown: then no plan is refused for want of memory on it."""
    job: str = ""
    """TensorFlow's job; empty on a local cluster, whose device strings name neither job nor task."""

    def __post_init__(self) -> None:
        """Raises ClusterError for a value no device can have."""
        if self.index < 0 or self.task < 0:
            raise ClusterError(f"device index {self.index} and task {self.task} must not be negative")
        _check_model(self.kind, self.model, self.memory_bytes)

    @property
    def name(self) -> str:
        """The string ``tf.device`` takes."""
        return format_name(self.kind, self.index, self.task, self.job)


@dataclasses.dataclass(frozen=True)
class DeviceGroup:
    """A run of equal devices on one host; in a cluster file, one entry of ``devices``."""

    kind: Kind
    model: str
    memory_bytes: int | None = None
    """Of each device; None when unknown."""
    count: int = 1

    def __post_init__(self) -> None:
        """Raises ClusterError for a value no group can have."""
        if self.count < 1:
            raise ClusterError(f"a count of {self.count} devices", fix="use at least 1")
        _check_model(self.kind, self.model, self.memory_bytes)


@dataclasses.dataclass(frozen=True)
class Link:
    """A way for bytes: between the devices of one host, or between each two of several hosts."""

    kind: LinkKind
    hosts: tuple[str, ...]
    """One name: the link joins each two devices of that host. Several: it joins each two of those hosts."""
    bytes_per_second: int
    """In one direction while the other is busy as well. Per device within a host, per host between hosts."""
    latency_seconds: float
    """From the first byte sent to the first byte received."""
    down: bool = False
    """Whether the link is dead: it is listed, and nothing may go over it."""

    def __post_init__(self) -> None:
        """Raises ClusterError for a value no link can have."""
        if self.kind not in LINK_KINDS:
            hint = nearest(self.kind, LINK_KINDS)
            raise ClusterError(f"unknown link kind {self.kind!r}", fix=f"{hint} known: {', '.join(LINK_KINDS)}".strip())
        if not self.hosts:
            raise ClusterError("a link joins nothing", fix="name one host, or the hosts it joins")
        if twice := _first_repeated(self.hosts):
            raise ClusterError(f"a link names host {twice!r} twice", fix="name each host once")
        if self.bytes_per_second < 1:
            raise ClusterError(f"a link of {self.bytes_per_second} bytes per second", fix="use a positive speed")
        if not (self.latency_seconds >= 0 and math.isfinite(self.latency_seconds)):
            raise ClusterError(f"a latency of {self.latency_seconds} seconds", fix="use zero or a positive time")


@dataclasses.dataclass(frozen=True)
class Host:
    """One process that owns devices: a machine, or one of several workers on a machine."""

    name: str
    address: str
    """``machine:port`` of its server; empty when it has none (a local cluster, or one only planned for)."""
    devices: tuple[Device, ...]

    def __post_init__(self) -> None:
        """Raises ClusterError for a value no host can have."""
        if _HOST_NAME.fullmatch(self.name) is None:
            raise ClusterError(f"{self.name!r} is not a host name", fix="use letters, digits, and . _ -")
        if self.address:
            parse_address(self.address)
        if not self.devices:
            raise ClusterError(f"host {self.name!r} has no device", fix="give it one, or leave the host out")
        for kind in KINDS:
            indices = [device.index for device in self.devices if device.kind == kind]
            if indices != list(range(len(indices))):
                raise ClusterError(f"the {kind}s of host {self.name!r} are numbered {indices}", fix="count up from 0")

    @classmethod
    def build(
        cls, name: str, groups: Iterable[DeviceGroup], *, address: str = "", task: int = 0, job: str = ""
    ) -> Host:
        """A host with the devices of ``groups`` in order, each kind numbered from 0."""
        numbers = {kind: itertools.count() for kind in KINDS}
        devices = tuple(
            Device(group.kind, next(numbers[group.kind]), name, task, group.model, group.memory_bytes, job)
            for group in groups
            for _ in range(group.count)
        )
        return cls(name, address, devices)

    @property
    def machine(self) -> str:
        """What hosts on the same machine share: the address without its port, else the host's own name."""
        return parse_address(self.address).machine if self.address else self.name

    @property
    def groups(self) -> tuple[DeviceGroup, ...]:
        """The devices as runs of equal ones, in order; ``build`` makes the same devices of them."""
        runs = itertools.groupby(self.devices, key=lambda device: (device.kind, device.model, device.memory_bytes))
        return tuple(DeviceGroup(*key, count=len(list(run))) for key, run in runs)


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The hosts in order of their task, and the links among them."""

    hosts: tuple[Host, ...]
    links: tuple[Link, ...] = ()

    def __post_init__(self) -> None:
        """Raises ClusterError for a value no cluster can have."""
        if not self.hosts:
            raise ClusterError("a cluster without a host", fix="name at least one")
        self._check_hosts()
        self._check_links()

    def _check_hosts(self) -> None:
        if twice := _first_repeated(host.name for host in self.hosts):
            raise ClusterError(f"two hosts are named {twice!r}", fix="give each its own name")
        if twice := _first_repeated(host.address for host in self.hosts if host.address):
            raise ClusterError(f"two hosts have the address {twice!r}", fix="give each its own machine or port")
        if not self.is_local:
            check_job_name(self.job)
        elif self.worker_num > 1:
            raise ClusterError("a cluster of several hosts without a job", fix=f"use the job {WORKER_JOB!r}")
        for task, host in enumerate(self.hosts):
            for device in host.devices:
                if (device.host, device.task, device.job) != (host.name, task, self.job):
                    raise ClusterError(
                        f"device {device.name!r} of host {device.host!r} stands under task {task}, host {host.name!r},"
                        f" job {self.job!r}",
                        fix="build hosts with Host.build",
                    )

    def _check_links(self) -> None:
        names = [host.name for host in self.hosts]
        for link in self.links:
            for name in link.hosts:
                if name not in names:
                    raise ClusterError(f"a link names the unknown host {name!r}", fix=nearest(name, names))
        if twice := _first_repeated((link.kind, frozenset(link.hosts)) for link in self.links):
            raise ClusterError(f"two {twice[0]} links join {', '.join(sorted(twice[1]))}", fix="keep one of them")

    @classmethod
    def local(cls, devices: int, kind: Kind = "CPU", model: str = "", memory_bytes: int | None = None) -> Cluster:
        """So many devices of one kind in this process. Without ``model`` only the kind is known of them."""
        return cls((Host.build("host0", (DeviceGroup(kind, model or kind, memory_bytes, devices),)),))

    @property
    def job(self) -> str:
        """TensorFlow's job of every host, or the empty string for a local cluster."""
        return self.hosts[0].devices[0].job

    @property
    def is_local(self) -> bool:
        """Whether one process drives all devices."""
        return not self.job

    @property
    def devices(self) -> tuple[Device, ...]:
        """All devices, host by host."""
        return tuple(device for host in self.hosts for device in host.devices)

    @property
    def compute_devices(self) -> tuple[Device, ...]:
        """The devices that layouts hand out, host by host: the GPUs, or the CPU devices of a cluster without GPUs."""
        return tuple(device for device in self.devices if device.kind == "GPU") or self.devices

    @property
    def total_gpu_num(self) -> int:
        """Number of compute devices, under the name scripts know; without a GPU it counts CPU devices."""
        return len(self.compute_devices)

    @property
    def available_devices(self) -> tuple[str, ...]:
        """Device strings of the compute devices, under EPL's name."""
        return tuple(device.name for device in self.compute_devices)

    @property
    def worker_num(self) -> int:
        """Number of processes."""
        return len(self.hosts)


def check_job_name(job: str) -> None:
    """Raises ClusterError unless TensorFlow takes ``job`` for a job's name."""
    if _JOB_NAME.fullmatch(job) is None:
        raise ClusterError(f"{job!r} is not a job name", fix="use letters, digits, _ and -, a letter first")


def _check_model(kind: Kind, model: str, memory_bytes: int | None) -> None:
    """Raises ClusterError unless a device of this kind, model and memory can exist."""
    if kind not in KINDS:
        raise ClusterError(f"unknown device kind {kind!r}", fix=f"known kinds: {', '.join(KINDS)}")
    if _MODEL_NAME.fullmatch(model) is None:
        raise ClusterError(f"{model!r} is not a model name", fix="use letters, digits, blanks, and . _ + -")
    if memory_bytes is not None and memory_bytes < 1:
        raise ClusterError(f"a memory of {memory_bytes} bytes", fix="use a positive size")
    known = MODELS.get(model)
    if known is None:
        return
    if known.kind != kind:
        raise ClusterError(f"{model} is a {known.kind}, not a {kind}", fix=f"use kind {known.kind}")
    if known.memory_bytes and memory_bytes is not None and memory_bytes > max(known.memory_bytes):
        most = format_bytes(max(known.memory_bytes))
        raise ClusterError(
            f"{model} has at most {most} of memory, not {format_bytes(memory_bytes)}",
            fix="correct the size or the model",
        )


def _first_repeated(items: Iterable[_Item]) -> _Item | None:
    seen: set[_Item] = set()
    for item in items:
        if item in seen:
            return item
        seen.add(item)
    return None
