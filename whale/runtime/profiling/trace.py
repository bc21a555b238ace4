"""A traced step as spans of time, and whose each instant of it was."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator
from typing import Any

from whale.cluster.models import Kind

_TYPE = re.compile(r" = (\w+)\(")
"""The op type in the label that TensorFlow's executor gives a node: ``name = Type(input, ...)``."""

_TRUNCATED = 0.5e-6
"""What a GPU's times lack on average: they are cut to whole microseconds."""


@dataclasses.dataclass(frozen=True)
class Span:
    """Something that took time."""

    node: str
    """Name of the graph's node."""
    type: str
    """Type of op that ran, which a graph optimizer may have changed; empty where the trace does not say."""
    start: float
    """Seconds on the trace's clock."""
    end: float
    handing: float = 0.0
    """The part of it, in seconds, that the executor took before and after the op itself."""


@dataclasses.dataclass(frozen=True)
class Trace:
    """One step on one device."""

    host: tuple[Span, ...]
    """What TensorFlow's executor did for the device's nodes. On a CPU that is their work, on a GPU their launches."""
    kernels: tuple[Span, ...]
    """What ran on the device: on a CPU the same as ``host``; on a GPU several kernels may be of one node."""


def read_trace(step_stats: Any, kind: Kind) -> Trace:
    """What a ``RunMetadata.step_stats`` says of the first device of a kind.

    A GPU has its kernels under a name of its own, ``/device:GPU:0/stream:all``, and its copies under
    ``/device:GPU:0/memcpy``; a kernel is called ``node:Type`` there.
    """
    host: list[Span] = []
    kernels: list[Span] = []
    for stats in step_stats.dev_stats:
        if stats.device.endswith((f"/device:{kind}:0/stream:all", f"/device:{kind}:0/memcpy")):
            kernels.extend(_kernel(node) for node in stats.node_stats)
        elif stats.device.endswith(f"/device:{kind}:0"):
            host.extend(_launch(node) for node in stats.node_stats)
    return Trace(tuple(host), tuple(kernels) if kind == "GPU" else tuple(host))


def _launch(node: Any) -> Span:
    start = (node.all_start_nanos or node.all_start_micros * 1000) * 1e-9
    end = node.all_end_rel_nanos or node.all_end_rel_micros * 1000
    own = node.op_end_rel_nanos - node.op_start_rel_nanos
    label = _TYPE.search(node.timeline_label)
    return Span(node.node_name, label.group(1) if label else "", start, start + end * 1e-9, max(end - own, 0) * 1e-9)


def _kernel(node: Any) -> Span:
    name, _, kind = node.node_name.partition(":")
    start = node.all_start_micros * 1e-6
    return Span(name, kind.partition("#")[0], start, start + node.all_end_rel_micros * 1e-6 + _TRUNCATED)


def seconds_of_each(spans: Iterable[Span]) -> dict[str, float]:
    """The seconds of each node; an instant in which several run is divided among them, so that they add up."""
    found: dict[str, float] = {}
    for seconds, running in _instants(spans):
        for node in running:
            found[node] = found.get(node, 0.0) + seconds / len(running)
    return found


def busy_seconds(spans: Iterable[Span]) -> float:
    """The seconds in which anything runs."""
    return sum(seconds for seconds, _ in _instants(spans))


def _instants(spans: Iterable[Span]) -> Iterator[tuple[float, list[str]]]:
    """The stretches of time between two events in which something runs, with the nodes that do."""
    chosen = list(spans)
    events = sorted(
        [(span.start, True, number) for number, span in enumerate(chosen)]
        + [(span.end, False, number) for number, span in enumerate(chosen)]
    )
    running: dict[int, str] = {}
    before = 0.0
    for at, begins, number in events:
        if running and at > before:
            yield at - before, list(running.values())
        before = at
        if begins:
            running[number] = chosen[number].node
        else:
            running.pop(number, None)
