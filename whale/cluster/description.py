"""A cluster as text for people."""

from __future__ import annotations

from collections import Counter

from whale.cluster.devices import Cluster, Host
from whale.cluster.quantity import format_bytes


def describe(cluster: Cluster) -> str:
    """One line a host: ``host0: 8 x V100 (16 GiB), 2 x CPU``. Equal clusters give equal text; no final newline."""
    return "\n".join(_describe_host(host) for host in cluster.hosts)


def _describe_host(host: Host) -> str:
    counts: Counter[tuple[str, int | None]] = Counter()
    for device in host.devices:
        counts[device.model, device.memory_bytes] += 1
    parts = [
        f"{count} x {model}" + (f" ({format_bytes(memory)})" if memory is not None else "")
        for (model, memory), count in counts.items()
    ]
    return f"{host.name}: {', '.join(parts)}"
