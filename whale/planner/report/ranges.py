"""Devices in few words: those that follow each other become ranges, ``host0-127 GPU:0-7``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from whale.planner.report.report import DeviceFacts

_NUMBERED = re.compile(r"(.*?)(\d+)", re.DOTALL)

MOST_PARTS = 6
"""A text with more parts than this ends in a count."""


def range_words(devices: Iterable[DeviceFacts], hosts: int, most: int = MOST_PARTS) -> str:
    """Names devices in few words.

    Args:
        devices: what to name, in any order.
        hosts: how many hosts the cluster has; with a single one, no host is named.
        most: parts of the text; what is left is counted.
    """
    of_host: dict[str, dict[str, list[int]]] = {}
    for device in devices:
        of_host.setdefault(device.host, {}).setdefault(device.kind, []).append(device.index)
    by_indices: dict[str, list[str]] = {}
    counts: dict[str, int] = {}
    for host, kinds in of_host.items():
        words = ", ".join(f"{kind}:{number_ranges(indices)}" for kind, indices in kinds.items())
        by_indices.setdefault(words, []).append(host)
        counts[words] = sum(len(indices) for indices in kinds.values())
    parts: list[tuple[str, int]] = []
    for words, names in by_indices.items():
        for name, count in host_ranges(names):
            parts.append((words if hosts == 1 else f"{name} {words}", count * counts[words]))
    if len(parts) <= most:
        return ", ".join(words for words, _ in parts)
    left = sum(count for _, count in parts[most:])
    return ", ".join(words for words, _ in parts[:most]) + f" and {left:,} more"


def number_ranges(numbers: Sequence[int]) -> str:
    """Numbers as ranges: ``0-3,6``."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def host_ranges(names: Sequence[str]) -> list[tuple[str, int]]:
    """Hosts whose numbers follow each other as (``host0-127``, how many), in their order."""
    runs: list[list[str]] = []
    for name in names:
        if runs and _follows(runs[-1][-1], name):
            runs[-1].append(name)
        else:
            runs.append([name])
    return [(_joined(run), len(run)) for run in runs]


def _follows(name: str, other: str) -> bool:
    a, b = _NUMBERED.fullmatch(name), _NUMBERED.fullmatch(other)
    if a is None or b is None or a.group(1) != b.group(1) or int(a.group(2)) + 1 != int(b.group(2)):
        return False
    # node09 and node10 belong together, node9 and node010 do not.
    padded = a.group(2).startswith("0") or b.group(2).startswith("0")
    return not padded or len(a.group(2)) == len(b.group(2)) or a.group(2) == "0"


def _joined(run: Sequence[str]) -> str:
    first, last = _NUMBERED.fullmatch(run[0]), _NUMBERED.fullmatch(run[-1])
    if len(run) == 1 or first is None or last is None:
        return run[0]
    return f"{run[0]}-{last.group(2)}"
