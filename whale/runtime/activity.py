"""Whether the threads of this process work, as the kernel of the operating system counts it.

A thread that finishes a node of a step was woken for it or was computing. So while no thread is scheduled, no node
finishes, whatever the step is made of; and nothing has to be counted in the step itself.
"""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Collection, Mapping
from pathlib import Path

_TASKS = Path("/proc/self/task")

_SWITCHES_A_SECOND = 2.0
"""Rate of switches, of all threads together, up to which nothing is taken to be computed: timers tick."""
_SWITCHES_AT_ALL = 4
_CPU_SHARE = 0.002
"""Share of one processor up to which nothing is taken to be computed."""
_BUSY = frozenset("RD")
"""States of a thread that computes or waits for a disk."""


@dataclasses.dataclass(frozen=True)
class Thread:
    """What one thread has done since it was made."""

    busy: bool
    """Whether it computes or waits for a disk now."""
    seconds: float
    """Processor time."""
    switches: int
    """Times it gave up the processor, or lost it."""


def threads() -> Mapping[int, Thread] | None:
    """Every thread of this process by the operating system's number; None where it does not tell."""
    found: dict[int, Thread] = {}
    try:
        for folder in _TASKS.iterdir():
            try:
                found[int(folder.name)] = _thread(folder)
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended meanwhile
    except (OSError, KeyError, ValueError, IndexError):
        return None
    return found or None


def _thread(folder: Path) -> Thread:
    # The name of a thread, which may hold anything, ends at the last parenthesis.
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    lines = (line.partition(":") for line in (folder / "status").read_text().splitlines())
    status = {name: value for name, _, value in lines}
    switches = int(status["voluntary_ctxt_switches"]) + int(status["nonvoluntary_ctxt_switches"])
    return Thread(fields[0] in _BUSY, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), switches)


def of_python(apart_from: Collection[int]) -> set[int]:
    """Threads that the script or a library started in Python, by number: what they do is not done by a step.

    Threads of TensorFlow that called a Python function once are none of them.

    Args:
        apart_from: threads that run a step themselves, by number.
    """
    dummy = threading._DummyThread  # pyright: ignore[reportPrivateUsage] - the only way to tell them
    own = {t.native_id for t in threading.enumerate() if not isinstance(t, dummy)}
    return {number for number in own if number is not None} - set(apart_from)


def worked(before: Mapping[int, Thread], after: Mapping[int, Thread], seconds: float) -> bool:
    """Whether any of some threads computed between two looks at them.

    Args:
        before: the threads at the first look.
        after: the same threads later.
        seconds: the time between.
    """
    if before.keys() != after.keys() or any(thread.busy for thread in after.values()):
        return True
    computed = sum(after[number].seconds - thread.seconds for number, thread in before.items())
    switches = sum(after[number].switches - thread.switches for number, thread in before.items())
    tick = 1 / os.sysconf("SC_CLK_TCK")
    return computed > tick + _CPU_SHARE * seconds or switches > _SWITCHES_AT_ALL + _SWITCHES_A_SECOND * seconds
