"""The machines that public tables were measured on."""

from __future__ import annotations

import dataclasses
import functools
import re

from benchmarks.cost_cases import Skip
from whale.cluster import Cluster, DeviceGroup, Host, Link

GIB = 2**30


@dataclasses.dataclass(frozen=True)
class Machine:
    """The machines of a table."""

    model: str
    memory: int
    size: int
    """Devices on one."""
    network: float
    """Bytes per second between two, nominal."""


_MACHINES: tuple[tuple[str, Machine], ...] = (
    ("A100-SXM-80GB", Machine("A100", 80, 8, 200e9)),
    ("A100-SXM-40GB", Machine("A100", 40, 8, 200e9)),
    ("A100-40GB", Machine("A100", 40, 8, 200e9)),
    ("A100-40", Machine("A100", 40, 4, 12.5e9)),
    ("A100-80", Machine("A100", 80, 4, 25e9)),
    ("A100", Machine("A100", 80, 8, 100e9)),
    ("H100", Machine("H100", 80, 8, 400e9)),
    ("V100-SXM3", Machine("V100", 32, 16, 100e9)),
    ("V100-SXM2-32GB", Machine("V100", 32, 8, 50e9)),
    ("V100-SXM2-16GB (DGX-1)", Machine("V100", 16, 8, 50e9)),
    ("V100-SXM2-16GB", Machine("V100", 16, 8, 12.5e9)),
    ("V100-16", Machine("V100", 16, 4, 12.5e9)),
    ("V100", Machine("V100", 16, 8, 12.5e9)),
    ("GH-96", Machine("GH200", 96, 4, 100e9)),
    ("P100", Machine("P100", 16, 8, 12.5e9)),
    ("K80", Machine("K80", 12, 8, 1.25e9)),
    ("RTX-2080", Machine("RTX-2080-Ti", 11, 8, 3.125e9)),
    ("RTX-3090", Machine("RTX-3090", 24, 8, 0.125e9)),
    ("Titan-RTX", Machine("Titan-RTX", 24, 8, 3.125e9)),
)
"""By the begin of a table's device column; DGX machines have several network adapters."""

_FASTEST_FIRST = ("GH200", "A100", "RTX-3090", "V100", "Titan-RTX", "RTX-2080-Ti")
"""Mixed tables do not say which device has which stage: the faster by peak rate come first."""


def find_machine(text: str) -> Machine | Skip:
    """The machine of a table's device column."""
    for begin, machine in _MACHINES:
        if text.startswith(begin):
            return machine
    return Skip(f"device unknown: {text.split(';')[0]}")


@functools.lru_cache(maxsize=256)
def uniform(machine: Machine, count: int) -> Cluster:
    """So many devices on machines of one kind."""
    hosts: list[Host] = []
    left, task = count, 0
    job = "worker" if count > machine.size else ""
    while left:
        here = min(left, machine.size)
        group = DeviceGroup("GPU", machine.model, machine.memory * GIB, here)
        hosts.append(Host.build(f"host{task}", (group,), task=task, job=job))
        left, task = left - here, task + 1
    links = (Link("network", tuple(h.name for h in hosts), int(machine.network), 0.0),) if len(hosts) > 1 else ()
    return Cluster(tuple(hosts), links)


@functools.lru_cache(maxsize=64)
def _mixed(text: str, per_host: int) -> Cluster | Skip:
    """``RTX-3090x2+Titan-RTXx2`` as hosts of ``per_host`` devices each, the fastest first."""
    kinds: list[tuple[Machine, int]] = []
    for part in text.split("+"):
        match = re.fullmatch(r"(.+)x([0-9]+)", part)
        machine = find_machine(match.group(1)) if match else Skip(f"device unknown: {text}")
        if isinstance(machine, Skip) or match is None:
            return machine if isinstance(machine, Skip) else Skip(f"device unknown: {text}")
        kinds.append((machine, int(match.group(2))))
    kinds.sort(key=lambda kind: _FASTEST_FIRST.index(kind[0].model))
    hosts: list[Host] = []
    speeds: list[float] = []
    for machine, count in kinds:
        for _ in range(count // min(per_host, machine.size)):
            group = DeviceGroup("GPU", machine.model, machine.memory * GIB, min(per_host, machine.size))
            hosts.append(Host.build(f"host{len(hosts)}", (group,), task=len(hosts), job="worker"))
            speeds.append(machine.network)
    links = [
        Link("network", (a.name, b.name), int(min(speeds[i], speeds[j])), 0.0)
        for i, a in enumerate(hosts)
        for j, b in enumerate(hosts)
        if i < j
    ]
    if len({machine.network for machine, _ in kinds}) == 1:
        links = [Link("network", tuple(h.name for h in hosts), int(speeds[0]), 0.0)] if len(hosts) > 1 else []
    return Cluster(tuple(hosts), tuple(links))


def cluster_of(gpu: str, count: int, tp: int) -> Cluster | Skip:
    """So many devices of a table's device column; hosts of a mixed cluster have ``tp`` devices each."""
    if "+" in gpu:
        return _mixed(gpu, tp)
    machine = find_machine(gpu)
    return machine if isinstance(machine, Skip) else uniform(machine, count)
