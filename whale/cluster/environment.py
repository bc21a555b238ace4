"""Where this process stands among the workers, as launchers say it: ``TF_CONFIG``, host lists, visible devices.

Everything here is a function of strings; reading the environment is the runtime's business.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import cast

from whale.cluster.addresses import parse_address
from whale.cluster.devices import WORKER_JOB, Cluster, Device, DeviceGroup, Host
from whale.cluster.models import Kind
from whale.errors import ClusterError, nearest

# Every process trains: the chief is the first worker, and parameter servers come after the workers.
_JOBS = ("chief", "master", "worker", "ps")

_EVALUATOR = "evaluator"


@dataclasses.dataclass(frozen=True)
class Workers:
    """The processes of a job, and which of them this one is."""

    addresses: tuple[str, ...]
    """``machine:port`` of each, in order of rank; no two are equal."""
    rank: int
    """Position of this process, from 0."""

    def __post_init__(self) -> None:
        """Raises ClusterError for a value no job can have."""
        for address in self.addresses:
            parse_address(address)
            if self.addresses.count(address) > 1:
                first = self.addresses.index(address)
                second = self.addresses.index(address, first + 1)
                raise ClusterError(
                    f"workers {first} and {second} have the same address {address!r}",
                    fix="give each process its own machine or port",
                )
        if not 0 <= self.rank < len(self.addresses):
            raise ClusterError(
                f"task index {self.rank} in a job of {len(self.addresses)} processes",
                fix=f"use 0 to {len(self.addresses) - 1}, another one in each process",
            )

    def cluster(self, devices: int, kind: Kind = "GPU", model: str = "", memory_bytes: int | None = None) -> Cluster:
        """The cluster of these workers when each owns so many devices. One worker alone makes a local cluster."""
        alone = len(self.addresses) == 1
        group = DeviceGroup(kind, model or kind, memory_bytes, devices)
        job = "" if alone else WORKER_JOB
        return Cluster(
            tuple(
                Host.build(f"worker{task}", (group,), address=address, task=task, job=job)
                for task, address in enumerate(self.addresses)
            )
        )


def from_tf_config(text: str) -> Workers | None:
    """What ``TF_CONFIG`` says, or None when it is empty or names no cluster: then this process is alone.

    Ranks count chief, workers and parameter servers in this order, since all of them train. Raises ClusterError for
    text that is not JSON, an unknown job, an index that is given twice or does not exist, and equal addresses.
    """
    if not text.strip():
        return None
    try:
        content = json.loads(text, object_pairs_hook=_without_repeats)
    except ValueError as error:  # JSONDecodeError, or a number of thousands of digits
        raise ClusterError(f"TF_CONFIG is not JSON: {error}", fix="see docs/cluster.md for an example") from None
    except RecursionError:
        raise ClusterError("TF_CONFIG is nested too deeply") from None
    config = _mapping(content, "TF_CONFIG")
    jobs = _mapping(config.get("cluster", {}), "'cluster'")
    if not jobs:
        return None
    task = _mapping(config.get("task"), "'task'")
    kind = task.get("type")
    if kind == _EVALUATOR:
        raise ClusterError(
            "TF_CONFIG: this process is the evaluator, which takes no part in training",
            fix="run the evaluator without Whale",
        )
    if not isinstance(kind, str):
        raise ClusterError(f"TF_CONFIG: task type {kind!r}", fix=f"use one of {', '.join(jobs)}")
    return _join({job: _job_addresses(job, hosts) for job, hosts in jobs.items()}, kind, _index(task.get("index")))


def from_hosts(
    worker_hosts: str | Sequence[str] | None,
    ps_hosts: str | Sequence[str] | None = None,
    job_name: str = WORKER_JOB,
    rank: int = 0,
) -> Workers | None:
    """The arguments of ``whale.cluster``: hosts as a list or separated by commas, and ``rank`` within ``job_name``.

    None when there are no worker hosts: then ``TF_CONFIG`` decides. Raises ClusterError as ``from_tf_config`` does.
    """
    workers, servers = _split(worker_hosts), _split(ps_hosts)
    if not workers:
        if servers:
            raise ClusterError("ps_hosts without worker_hosts", fix="name the workers as well")
        return None
    jobs = {"worker": workers, "ps": servers} if servers else {"worker": workers}
    return _join(jobs, job_name, rank)


def check_agreement(processes: Mapping[str, Workers]) -> None:
    """Raises ClusterError unless all processes name the same workers and each claims a rank of its own.

    ``processes`` maps what identifies a process to people, such as its machine and process id, to what it was told.
    A rank given out twice otherwise shows as a hang: two processes serve one task, and another task has none.
    """
    claimed: dict[int, str] = {}
    first = next(iter(processes), "")
    for process, workers in processes.items():
        if workers.addresses != processes[first].addresses:
            raise ClusterError(
                f"{first} and {process} were told different workers: {', '.join(processes[first].addresses)}"
                f" and {', '.join(workers.addresses)}",
                fix="give every process the same hosts in the same order",
            )
        if workers.rank in claimed:
            raise ClusterError(
                f"{claimed[workers.rank]} and {process} both have task index {workers.rank}",
                fix="give every process its own index",
            )
        claimed[workers.rank] = process


def visible_devices(text: str, count: int) -> tuple[int, ...]:
    """Which of ``count`` devices the setting ``cluster.run_visible_devices`` leaves, in its order; empty text: all.

    The text is a list of numbers separated by commas. Raises ClusterError for anything else, a number given twice, and
    a device that does not exist.
    """
    if not text.strip():
        return tuple(range(count))
    found: list[int] = []
    for part in text.split(","):
        number = part.strip()
        if not (number.isascii() and number.isdecimal() and len(number) <= 6):
            raise ClusterError(f"run_visible_devices {text!r}: {part!r} is no device number", fix="write it like '0,1'")
        if int(number) >= count:
            raise ClusterError(f"run_visible_devices {text!r}: no device {number} among {count}", fix="count from 0")
        if int(number) in found:
            raise ClusterError(f"run_visible_devices {text!r} names device {number} twice", fix="name each once")
        found.append(int(number))
    return tuple(found)


def restrict(cluster: Cluster, visible: str) -> Cluster:
    """The cluster when every worker sees only these of its compute devices.

    TensorFlow numbers what a process sees from 0, so the devices left on a host are numbered anew. Devices of the other
    kind stay. Raises ClusterError as ``visible_devices`` does, naming the host.
    """
    compute = set(cluster.compute_devices)
    hosts: list[Host] = []
    for task, host in enumerate(cluster.hosts):
        candidates = [device for device in host.devices if device in compute]
        others = [device for device in host.devices if device not in compute]
        try:
            kept = [candidates[number] for number in visible_devices(visible, len(candidates))]
        except ClusterError as error:
            raise ClusterError(f"host {host.name!r}: {error.what}", fix=error.fix) from None
        groups = [_alone(device) for device in (*kept, *others)]
        hosts.append(Host.build(host.name, groups, address=host.address, task=task, job=cluster.job))
    return Cluster(tuple(hosts), cluster.links)


def _alone(device: Device) -> DeviceGroup:
    return DeviceGroup(device.kind, device.model, device.memory_bytes)


def _join(jobs: Mapping[str, Sequence[str]], kind: str, index: int) -> Workers:
    """All processes as workers, and the rank of process ``index`` of job ``kind``."""
    for job in jobs:
        if job not in _JOBS:
            raise ClusterError(f"unknown job {job!r}", fix=nearest(job, _JOBS) or f"known jobs: {', '.join(_JOBS)}")
    if kind not in jobs:
        raise ClusterError(f"this process is a {kind!r}, and the cluster has none", fix=f"jobs: {', '.join(jobs)}")
    if not 0 <= index < len(jobs[kind]):
        raise ClusterError(
            f"this process is {kind} {index}, and the cluster has {len(jobs[kind])} of them",
            fix="count from 0, or name all hosts",
        )
    present = [job for job in _JOBS if job in jobs]
    before = sum(len(jobs[job]) for job in present[: present.index(kind)])
    return Workers(tuple(address for job in present for address in jobs[job]), before + index)


def _job_addresses(job: str, hosts: object) -> list[str]:
    """The addresses of a job, given as a list or as a mapping from index to address."""
    if isinstance(hosts, dict):
        entries = cast("dict[str, object]", hosts)
        by_index = {_index(index): address for index, address in entries.items()}
        if sorted(by_index) != list(range(len(entries))):
            given = ", ".join(entries)
            raise ClusterError(f"TF_CONFIG: indices {given} of job {job!r}", fix="give each of 0, 1, ... once")
        hosts = [by_index[index] for index in sorted(by_index)]
    if not isinstance(hosts, list):
        raise ClusterError(f"TF_CONFIG: hosts of job {job!r} are {hosts!r}", fix="give a list of addresses")
    for address in cast("list[object]", hosts):
        if not isinstance(address, str):
            raise ClusterError(f"TF_CONFIG: job {job!r} has the address {address!r}", fix="addresses are text")
    return cast("list[str]", hosts)


def _index(value: object) -> int:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= 6:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ClusterError(f"TF_CONFIG: task index {value!r}", fix="use a whole number from 0")


def _mapping(value: object, what: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ClusterError(f"TF_CONFIG: {what} is {value!r}, not an object", fix="see docs/cluster.md for an example")
    return cast("dict[str, object]", value)


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """JSON keeps the last of equal keys, which would hide a task index given to two hosts."""
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise ClusterError(f"TF_CONFIG gives {key!r} twice: {found[key]!r} and {value!r}", fix="keep one of them")
        found[key] = value
    return found


def _split(hosts: str | Sequence[str] | None) -> list[str]:
    parts = hosts.split(",") if isinstance(hosts, str) else (hosts or ())
    return [part.strip() for part in parts if part.strip()]
