"""The links of a cluster as the cost model uses them: which one joins two devices, how fast, with which start-up time.

A cluster file may name links; what it leaves out is taken from the catalogue: NVLink or PCI Express within a host, by
the devices, and 25 Gb Ethernet between hosts (``Topology.assumed`` tells).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence

from whale.cluster import CATALOGUE, Catalogue, Cluster, Device, Host, Link
from whale.cluster.meshes import LINKS, MESHES, ring_count
from whale.cost_model.coefficients import Coefficients, packaged_coefficients
from whale.errors import ClusterError

_DEFAULT_NETWORK = "Ethernet-25"
_MESH_SIZE = 8
"""Hosts with more devices have a switch."""

_SOCKET_SIZE = 4
"""Cards on one socket of a host."""


@dataclasses.dataclass(frozen=True)
class Path:
    """How bytes go among some devices of one host, or among some hosts."""

    name: str
    """The link of the catalogue."""
    bytes_per_second: float
    """What is reached in one direction: per device within a host, per host between hosts."""
    start_seconds: float
    """Once for a transfer or collective."""
    hop_seconds: float
    """For each further member of a collective."""


@dataclasses.dataclass(frozen=True, eq=False)
class Topology:
    """A cluster with its links."""

    cluster: Cluster
    catalogue: Catalogue = CATALOGUE
    coefficients: Coefficients = dataclasses.field(default_factory=packaged_coefficients)
    network_efficiency: float = 1.0
    """What a runtime reaches of a network, beside what the link allows."""
    used: tuple[tuple[str, int], ...] = ()
    """(machine, devices of it in use), in order; empty when all are. Idle devices leave the network alone."""

    @functools.cached_property
    def _devices(self) -> dict[str, Device]:
        return {device.name: device for device in self.cluster.devices}

    @functools.cached_property
    def _hosts(self) -> dict[str, Host]:
        return {host.name: host for host in self.cluster.hosts}

    def device(self, name: str) -> Device:
        """A device by its string. Raises ClusterError when there is none."""
        found = self._devices.get(name)
        if found is None:
            raise ClusterError(f"no device {name!r} in the cluster")
        return found

    def machine(self, device: Device) -> str:
        """The machine of a device: hosts that are processes of one machine share it."""
        return self._hosts[device.host].machine

    def peers(self, device: Device) -> int:
        """Devices in use on a device's machine: those that share its network."""
        return self._used.get(self.machine(device), 1)

    def count(self, devices: Iterable[str]) -> tuple[tuple[str, int], ...]:
        """(machine, devices of it), in order. Raises ClusterError for a device that does not exist."""
        counts: dict[str, int] = {}
        for name in devices:
            machine = self.machine(self.device(name))
            counts[machine] = counts.get(machine, 0) + 1
        return tuple(sorted(counts.items()))

    @functools.cached_property
    def _used(self) -> dict[str, int]:
        return dict(self.used) if self.used else self._sizes

    @functools.cached_property
    def _sizes(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for device in self.cluster.compute_devices:
            counts[self.machine(device)] = counts.get(self.machine(device), 0) + 1
        return counts

    @property
    def assumed(self) -> bool:
        """Whether the network between hosts is a guess."""
        return self.cluster.worker_num > 1 and not any(len(link.hosts) > 1 for link in self.cluster.links)

    def inside(self, devices: Sequence[Device]) -> Path:
        """The way among devices of one machine. Raises ClusterError where its links are down."""
        key = (self.machine(devices[0]), tuple(sorted({(d.model, d.index) for d in devices})))
        found = self._inside.get(key)
        if found is None:
            found = self._inside[key] = self._make_inside(devices)
        return found

    @functools.cached_property
    def _inside(self) -> dict[tuple[str, tuple[tuple[str, int], ...]], Path]:
        return {}

    def _make_inside(self, devices: Sequence[Device]) -> Path:
        host = devices[0].host
        stated = [link for link in self.cluster.links if link.hosts == (host,)]
        alive = [link for link in stated if not link.down]
        if stated and not alive and len({device.name for device in devices}) > 1:
            raise ClusterError(f"the links inside host {host!r} are down", fix="use one of its devices, or none")
        models = {device.model for device in devices}
        if devices[0].kind == "CPU":
            return self._path("host-memory", _stated(alive, "memory"))
        # Devices of several models, or without NVLink, meet on the host's bus.
        names = {self._entry_text(model, "link") for model in models}
        name = names.pop() if len(names) == 1 else ""
        down = any(link.kind == "nvlink" and link.down for link in stated)
        if name and not down and (_stated(alive, "nvlink") or not alive):
            return self._nvlink(name, devices, _stated(alive, "nvlink"))
        bus = self._bus(models)
        if _stated(alive, "nvlink") and not name:
            return self._path("NVLink-3", _stated(alive, "nvlink"))
        return self._on_bus(bus, devices, _stated(alive, "pcie"))

    def _bus(self, models: set[str]) -> str:
        buses = {self._entry_text(model, "host_link") for model in models} - {""}
        return min(buses, default="PCIe-3.0")

    def _on_bus(self, bus: str, devices: Sequence[Device], stated: Link | None) -> Path:
        """PCI Express. More than four cards sit on two sockets, and the way between them is slower."""
        path = self._path(bus, stated)
        if len(devices) <= _SOCKET_SIZE:
            return path
        slower = self.coefficients.get(f"collective/{bus}/sockets", "collective/*/sockets")
        return dataclasses.replace(path, bytes_per_second=path.bytes_per_second * slower)

    def _entry_text(self, model: str, figure: str) -> str:
        entry = self.catalogue.devices.get(model)
        return entry.text(figure) if entry is not None else ""

    def _nvlink(self, name: str, devices: Sequence[Device], stated: Link | None) -> Path:
        path = self._path(name, stated)
        if "bridge" in name and len(devices) > 2:
            return self._on_bus(self._bus({d.model for d in devices}), devices, None)
        if name not in MESHES or self._sizes[self.machine(devices[0])] > _MESH_SIZE:
            return path
        rings = ring_count(name, tuple(sorted(device.index for device in devices)))
        if not rings:
            return self._on_bus(self._bus({d.model for d in devices}), devices, None)
        return dataclasses.replace(path, bytes_per_second=path.bytes_per_second * rings / LINKS[name])

    def between(self, machines: Sequence[str]) -> Path:
        """The way among machines: the slowest of the links that join each two. Raises ClusterError for a dead one."""
        key = tuple(sorted(machines))
        found = self._between.get(key)
        if found is None:
            found = self._between[key] = self._make_between(key)
        return found

    @functools.cached_property
    def _between(self) -> dict[tuple[str, ...], Path]:
        return {}

    def _make_between(self, machines: tuple[str, ...]) -> Path:
        hosts = [host.name for host in self.cluster.hosts if host.machine in machines]
        network = [link for link in self.cluster.links if len(link.hosts) > 1]
        if not network:
            return self._path(_DEFAULT_NETWORK, None)
        covering = [link for link in network if set(hosts) <= set(link.hosts)]
        alive = [link for link in covering if not link.down]
        if alive:
            return self._path(_network_name(alive[0], self.catalogue), max(alive, key=lambda x: x.bytes_per_second))
        paths = [self._pair(a, b, network) for i, a in enumerate(hosts) for b in hosts[i + 1 :]]
        return min(paths, key=lambda path: path.bytes_per_second)

    def _pair(self, a: str, b: str, network: Sequence[Link]) -> Path:
        joining = [link for link in network if a in link.hosts and b in link.hosts]
        alive = [link for link in joining if not link.down]
        if not alive:
            state = "is down" if joining else "does not exist"
            raise ClusterError(f"the link between hosts {a!r} and {b!r} {state}", fix="plan without one of the two")
        best = max(alive, key=lambda link: link.bytes_per_second)
        return self._path(_network_name(best, self.catalogue), best)

    def _path(self, name: str, stated: Link | None) -> Path:
        """A link's path with fitted coefficients; a cluster file's speed and latency come before the catalogue's."""
        entry = self.catalogue.link(name)
        kind = entry.text("kind")
        peak = entry.number("peak_bytes_per_second") or 1.0
        usual = (entry.number("bytes_per_second") or peak) / peak
        known = self.coefficients.known(f"collective/{name}/efficiency")
        efficiency = self.coefficients.get(f"collective/{name}/efficiency") if known else usual
        start = self.coefficients.get(f"collective/{name}/start", f"collective/{kind}/start")
        hop = self.coefficients.get(f"collective/{name}/hop", f"collective/{kind}/hop")
        speed = stated.bytes_per_second if stated is not None else peak
        if kind == "network":
            efficiency *= self.network_efficiency
            if stated is not None:
                start += stated.latency_seconds
        return Path(name, speed * efficiency, start, hop)


def _stated(links: Sequence[Link], kind: str) -> Link | None:
    """The link of a kind that a cluster file gives, or None."""
    return next((link for link in links if link.kind == kind), None)


def _network_name(link: Link, catalogue: Catalogue) -> str:
    """The network of the catalogue that is nearest in speed."""
    networks = [entry for entry in catalogue.links.values() if entry.text("kind") == "network"]
    speeds = {entry.name: entry.number("peak_bytes_per_second") or 1.0 for entry in networks}
    return min(speeds, key=lambda name: abs(speeds[name] - link.bytes_per_second))
