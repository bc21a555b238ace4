"""Cluster files: YAML of hosts, devices and links, described in ``docs/cluster.md``."""

from __future__ import annotations

import os
from collections.abc import Sequence

import yaml

from whale.cluster.addresses import parse_address
from whale.cluster.devices import LINK_KINDS, WORKER_JOB, Cluster, DeviceGroup, Host, Link, LinkKind, check_job_name
from whale.cluster.models import KIND_BY_NAME, KINDS, MODELS, Kind, unknown_model
from whale.cluster.nodes import Place, read
from whale.cluster.quantity import (
    format_bytes,
    format_bytes_per_second,
    format_seconds,
    parse_bytes,
    parse_bytes_per_second,
    parse_seconds,
)
from whale.errors import nearest

_LINK_KIND_BY_NAME: dict[str, LinkKind] = {kind: kind for kind in LINK_KINDS}

_UNKNOWN_MEMORY = "unknown"

# A slip of the finger in a count must not fill this machine's memory with devices.
_MOST_DEVICES = 1024


def load(path: str | os.PathLike[str]) -> Cluster:
    """The cluster that a file describes.

    Raises ClusterError for the first fault, naming file, line and field.
    """
    document = read(path)
    fields = document.mapping(required=("hosts",), optional=("job", "links"))
    entries = fields["hosts"].sequence()
    job = WORKER_JOB if len(entries) > 1 else ""
    if "job" in fields:
        job = fields["job"].text()
        with fields["job"].blamed():
            check_job_name(job)
    hosts: dict[str, Host] = {}
    addresses: dict[str, str] = {}
    for task, entry in enumerate(entries):
        host = _host(entry, task, job, hosts, addresses)
        hosts[host.name] = host
    links = _links(fields["links"], tuple(hosts)) if "links" in fields else ()
    with document.blamed():
        return Cluster(tuple(hosts.values()), links)


def to_yaml(cluster: Cluster) -> str:
    """A cluster file that ``load`` reads back as an equal cluster."""
    document: dict[str, object] = {}
    if cluster.job != (WORKER_JOB if cluster.worker_num > 1 else ""):
        document["job"] = cluster.job
    document["hosts"] = [_host_entry(host) for host in cluster.hosts]
    if cluster.links:
        document["links"] = [_link_entry(link) for link in cluster.links]
    return yaml.safe_dump(document, sort_keys=False)


def _host(entry: Place, task: int, job: str, earlier: dict[str, Host], addresses: dict[str, str]) -> Host:
    """Reads one entry of ``hosts``; adds its address to ``addresses``, which maps an address to its host."""
    fields = entry.mapping(required=("name", "devices"), optional=("address",))
    name = fields["name"].text()
    if name in earlier:
        raise fields["name"].error(f"another host is named {name!r}", "give each its own name")
    address = ""
    if "address" in fields:
        address = fields["address"].text()
        with fields["address"].blamed():
            parse_address(address)
        if address in addresses:
            raise fields["address"].error(
                f"host {addresses[address]!r} has the address {address!r}", "give each its own machine or port"
            )
        addresses[address] = name
    groups = [_group(place) for place in fields["devices"].sequence()]
    if sum(group.count for group in groups) > _MOST_DEVICES:
        raise fields["devices"].error(f"more than {_MOST_DEVICES} devices on one host")
    with fields["name"].blamed():
        return Host.build(name, groups, address=address, task=task, job=job)


def _group(entry: Place) -> DeviceGroup:
    fields = entry.mapping(required=("model",), optional=("count", "kind", "memory"))
    model = fields["model"].text()
    kind = _kind(fields["kind"]) if "kind" in fields else None
    memory = _memory(fields["memory"]) if "memory" in fields else None
    known = MODELS.get(model)
    if known is not None:
        kind = kind or known.kind
        memory = memory if "memory" in fields else known.default_memory_bytes
    elif kind is None or "memory" not in fields:
        with fields["model"].blamed():
            raise unknown_model(model)
    count = fields["count"].integer() if "count" in fields else 1
    if not 1 <= count <= _MOST_DEVICES:
        raise fields["count"].error(f"must be from 1 to {_MOST_DEVICES}, not {count}")
    with fields.get("kind", fields["model"]).blamed():
        DeviceGroup(kind, model)  # so that only the size is left to blame on the memory
    with fields.get("memory", fields["model"]).blamed():
        return DeviceGroup(kind, model, memory, count)


def _kind(place: Place) -> Kind:
    text = place.text()
    kind = KIND_BY_NAME.get(text)
    if kind is not None:
        return kind
    raise place.error(f"unknown device kind {text!r}", nearest(text, KINDS) or f"known kinds: {', '.join(KINDS)}")


def _memory(place: Place) -> int | None:
    text = place.scalar()
    if text == _UNKNOWN_MEMORY:
        return None
    with place.blamed():
        return parse_bytes(text)


def _links(place: Place, hosts: Sequence[str]) -> tuple[Link, ...]:
    links: dict[tuple[str, frozenset[str]], Link] = {}
    for entry in place.sequence():
        link = _link(entry, hosts)
        joined = (link.kind, frozenset(link.hosts))
        if joined in links:
            raise entry.error(f"another {link.kind} link joins {', '.join(link.hosts)}", "keep one of them")
        links[joined] = link
    return tuple(links.values())


def _link(entry: Place, hosts: Sequence[str]) -> Link:
    fields = entry.mapping(required=("kind", "hosts", "speed", "latency"), optional=("down",))
    kind_text = fields["kind"].text()
    kind = _LINK_KIND_BY_NAME.get(kind_text)
    if kind is None:
        hint = nearest(kind_text, LINK_KINDS) or f"known kinds: {', '.join(LINK_KINDS)}"
        raise fields["kind"].error(f"unknown link kind {kind_text!r}", hint)
    names: list[str] = []
    for place in fields["hosts"].sequence():
        name = place.text()
        if name not in hosts:
            raise place.error(f"no host is named {name!r}", nearest(name, hosts) or f"hosts: {', '.join(hosts)}")
        if name in names:
            raise place.error(f"host {name!r} is named twice", "name each host once")
        names.append(name)
    with fields["speed"].blamed():
        speed = parse_bytes_per_second(fields["speed"].scalar())
    with fields["latency"].blamed():
        latency = parse_seconds(fields["latency"].scalar())
    down = fields["down"].boolean() if "down" in fields else False
    with fields["speed"].blamed():
        return Link(kind, tuple(names), speed, latency, down)


def _host_entry(host: Host) -> dict[str, object]:
    entry: dict[str, object] = {"name": host.name}
    if host.address:
        entry["address"] = host.address
    entry["devices"] = [_group_entry(group) for group in host.groups]
    return entry


def _group_entry(group: DeviceGroup) -> dict[str, object]:
    entry: dict[str, object] = {"model": group.model}
    known = MODELS.get(group.model)
    if known is None:
        entry["kind"] = group.kind
    if known is None or group.memory_bytes != known.default_memory_bytes:
        entry["memory"] = _UNKNOWN_MEMORY if group.memory_bytes is None else format_bytes(group.memory_bytes)
    entry["count"] = group.count
    return entry


def _link_entry(link: Link) -> dict[str, object]:
    entry: dict[str, object] = {
        "kind": link.kind,
        "hosts": list(link.hosts),
        "speed": format_bytes_per_second(link.bytes_per_second),
        "latency": format_seconds(link.latency_seconds),
    }
    if link.down:
        entry["down"] = True
    return entry
