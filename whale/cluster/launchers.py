"""Where this process stands among the workers, as Slurm and Kubernetes say it.

Every function takes the environment as a mapping; reading the real one is the runtime's business. ``TF_CONFIG``, which
Kubeflow sets too, comes first (``environment.py``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from whale.cluster.environment import Workers
from whale.errors import ClusterError

PORT = 8470
"""Port of the first process of a machine, where nothing names another."""

_MOST_HOSTS = 65536

_TASKS = re.compile(r"([0-9]{1,6})(?:\(x([0-9]{1,6})\))?")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_ORDINAL = re.compile(r"(.*\D|)-?([0-9]+)")


def from_slurm(environment: Mapping[str, str], port: int = PORT) -> Workers | None:
    """The tasks of a Slurm job step; None outside of one, or in one of a single task.

    Reads ``SLURM_STEP_NODELIST`` (else ``SLURM_JOB_NODELIST``), ``SLURM_STEP_TASKS_PER_NODE`` (else
    ``SLURM_TASKS_PER_NODE``) and ``SLURM_PROCID``. Tasks are numbered machine by machine, as Slurm's block
    distribution does; the tasks of a machine listen on consecutive ports.

    Raises:
        ClusterError: a variable cannot be read, or they contradict each other.
    """
    nodes_text = environment.get("SLURM_STEP_NODELIST") or environment.get("SLURM_JOB_NODELIST", "")
    rank_text = environment.get("SLURM_PROCID", "")
    if not nodes_text or not rank_text:
        return None
    nodes = expand_nodes(nodes_text)
    tasks_text = environment.get("SLURM_STEP_TASKS_PER_NODE") or environment.get("SLURM_TASKS_PER_NODE", "")
    tasks = _tasks(tasks_text) if tasks_text else [1] * len(nodes)
    if len(tasks) != len(nodes):
        raise ClusterError(
            f"Slurm names {len(nodes)} machines in {nodes_text!r} and tasks for {len(tasks)} in {tasks_text!r}",
            fix="start the script with srun, which sets both",
        )
    addresses = tuple(f"{node}:{port + i}" for node, count in zip(nodes, tasks) for i in range(count))
    if len(addresses) == 1:
        return None
    return Workers(addresses, _number("SLURM_PROCID", rank_text))


def from_kubernetes(environment: Mapping[str, str], port: int = PORT) -> Workers | None:
    """The pods of an indexed Job or a StatefulSet behind a headless service; None where nothing says so.

    Reads ``WORLD_SIZE``, the pod's number (``JOB_COMPLETION_INDEX``, else ``RANK``, else the number that ends
    ``HOSTNAME``), and ``HOSTNAME``: pods are ``name-0``, ``name-1``, and so on. ``WHALE_SERVICE`` names the service,
    where the bare host name does not resolve.

    Raises:
        ClusterError: a variable cannot be read, or the pod's name does not end in its number.
    """
    size_text = environment.get("WORLD_SIZE", "")
    if "KUBERNETES_SERVICE_HOST" not in environment or not size_text:
        return None
    size = _number("WORLD_SIZE", size_text)
    if size < 2:
        return None
    host = environment.get("HOSTNAME", "")
    match = _ORDINAL.fullmatch(host)
    if match is None or size > _MOST_HOSTS:
        raise ClusterError(
            f"the pod {host!r} of {size} does not end in its number",
            fix="use a Job with completionMode Indexed, or a StatefulSet, or set TF_CONFIG",
        )
    index = environment.get("JOB_COMPLETION_INDEX") or environment.get("RANK") or match.group(2)
    service = environment.get("WHALE_SERVICE", "")
    suffix = f".{service}" if service else ""
    addresses = tuple(f"{match.group(1)}{number}{suffix}:{port}" for number in range(size))
    return Workers(addresses, _number("the pod's number", index))


def expand_nodes(text: str) -> list[str]:
    """The machines of a Slurm node list: ``gpu[01-03,07],login`` is gpu01, gpu02, gpu03, gpu07, login.

    Raises ClusterError for text that is no node list.
    """
    nodes: list[str] = []
    for part in _split(text):
        nodes.extend(_expand(part, text))
        if len(nodes) > _MOST_HOSTS:
            raise ClusterError(f"more than {_MOST_HOSTS} machines in {text!r}")
    return nodes


def _split(text: str) -> list[str]:
    """Parts between the commas that are outside of brackets."""
    return [part for part in re.split(r",(?![^\[]*\])", text.strip()) if part]


def _expand(part: str, whole: str) -> list[str]:
    if "[" not in part and "]" not in part:
        return [part]
    match = re.fullmatch(r"([^\[\]]*)\[([^\[\]]+)\](.*)", part)
    if match is None:
        raise ClusterError(f"{whole!r} is not a Slurm node list", fix="write it like gpu[01-03,07]")
    head, ranges, rest = match.groups()
    names: list[str] = []
    for piece in ranges.split(","):
        bounds = _RANGE.fullmatch(piece.strip())
        first = bounds.group(1) if bounds else ""
        last = (bounds.group(2) or first) if bounds else ""
        if not bounds or not 0 <= int(last) - int(first) < _MOST_HOSTS:
            raise ClusterError(f"{whole!r}: {piece!r} is no range of numbers", fix="write it like gpu[01-03,07]")
        names.extend(f"{head}{number:0{len(first)}d}" for number in range(int(first), int(last) + 1))
    return [name + tail for name in names for tail in _expand(rest, whole)] if rest else names


def _tasks(text: str) -> list[int]:
    """Tasks of each machine: ``2(x3),1`` is 2, 2, 2, 1."""
    counts: list[int] = []
    for part in text.split(","):
        match = _TASKS.fullmatch(part.strip())
        if match is None or int(match.group(2) or 1) > _MOST_HOSTS:
            raise ClusterError(f"SLURM_TASKS_PER_NODE {text!r}", fix="it looks like 2(x3),1")
        counts.extend([int(match.group(1))] * int(match.group(2) or 1))
    return counts


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 6):
        raise ClusterError(f"{name} is {text!r}, not a whole number")
    return int(text)
