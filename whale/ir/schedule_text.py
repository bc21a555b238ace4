"""A schedule as a grid: one line per device, one column per time slot.

A cell is ``F3`` or ``B3``, the forward or backward pass of micro-batch 3; where a device has several stages, ``F3.1``
is that of its second one. A longer task goes on as dashes, and a dot is a slot in which the device waits. Of a long
step the begin, the middle and the end are shown, of many devices the first and the last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from whale.ir.schedule import Schedule, Task, live
from whale.ir.schedule_timing import Timing, timing

DEVICES_SHOWN = 16
"""More devices than this, and those in the middle are left out."""

WIDTH = 200
"""Columns of text: 8 stages and 16 micro-batches fit, one slot a task."""

RULER = 5
"""Slots between two numbers above the grid."""

LEAST_SHOWN = 5
"""Fewest columns: one slot of the begin, the middle and the end, and what marks the gaps between them."""

LEFT_OUT = "~"
"""Cell for the slots of a gap."""


def grid(schedule: Schedule, *, forward: int = 1, backward: int = 1, width: int | None = WIDTH) -> str:
    """The schedule over time, every task as soon as it can.

    Args:
        schedule: what to show.
        forward: slots of a forward pass, at least 1.
        backward: slots of a backward pass, at least 1.
        width: longest line of the grid, though at least five columns show; None for no limit.

    Returns:
        A header with stages, micro-batches, bubble and the live micro-batches of each stage, then the grid.

    Raises:
        ScheduleError: the schedule is not valid.
        ValueError: a pass has no slot.
    """
    if forward < 1 or backward < 1:
        raise ValueError(f"a pass takes at least one slot, got forward {forward} and backward {backward}")
    times = timing(schedule, forward, backward)
    cells = _cells(schedule, times)
    slots = len(cells[0])
    size = max(len(str(slots)), *(len(cell) for row in cells for cell in row)) + 1
    title = len(_title(schedule.devices - 1)) + 2
    columns = _shown(slots, slots if width is None else max((width - title) // size, LEAST_SHOWN), 3)

    def line(start: str, texts: Iterable[str]) -> str:
        return (start.ljust(title) + "".join(text.ljust(size) for text in texts)).rstrip()

    lines = [_header(schedule, slots, times.bubble), line("slot", _ruler(columns))]
    for device in _shown(schedule.devices, DEVICES_SHOWN, 2):
        if device is None:
            lines.append("...")
            continue
        lines.append(line(_title(device), (LEFT_OUT if slot is None else cells[device][slot] for slot in columns)))
    if None in columns:
        lines.append(f"{LEFT_OUT} marks slots that are left out")
    return "\n".join(lines) + "\n"


def _cells(schedule: Schedule, times: Timing) -> list[list[str]]:
    """The text of every slot of every device."""
    cells = [["."] * int(times.makespan) for _ in range(schedule.devices)]
    for device, row in enumerate(schedule.rows):
        for task in row:
            start, end = int(times.start[task]), int(times.end[task])
            name = _cell(schedule, task)
            cells[device][start:end] = [name, *["-" * len(name)] * (end - start - 1)]
    return cells


def _ruler(columns: Sequence[int | None]) -> Iterator[str]:
    """The number of every fifth slot, and of the first one after a gap."""
    before: int | None = 0
    for slot in columns:
        yield str(slot) if slot is not None and (slot % RULER == 0 or before is None) else ""
        before = slot


def _title(device: int) -> str:
    return f"device {device}"


def _header(schedule: Schedule, slots: int, bubble: float) -> str:
    """What the grid shows, in one line."""
    parts = [
        f"{schedule.name}: {_count(schedule.stages, 'stage')} on {_count(schedule.devices, 'device')}",
        _count(schedule.micro_batches, "micro-batch", "es"),
        _count(slots, "slot"),
        f"bubble {100 * bubble:.1f} %",
        f"live per stage {_runs(live(schedule))}",
    ]
    return ", ".join(parts)


def _count(number: int, what: str, plural: str = "s") -> str:
    return f"{number} {what}{'' if number == 1 else plural}"


def _runs(numbers: Sequence[int]) -> str:
    """Numbers in order; those in the middle of many are left out."""
    return " ".join("..." if index is None else str(numbers[index]) for index in _shown(len(numbers), DEVICES_SHOWN, 2))


def _cell(schedule: Schedule, task: Task) -> str:
    chunk = f".{task.stage // schedule.devices}" if schedule.stages > schedule.devices else ""
    return f"{task.phase.value}{task.micro_batch}{chunk}"


def _shown(count: int, room: int, windows: int) -> list[int | None]:
    """The numbers below ``count`` that ``room`` places show: all, or evenly spread windows with None between them."""
    if count <= room:
        return list(range(count))
    size = (room - windows + 1) // windows
    shown: list[int | None] = list(range(size))
    for window in range(1, windows):
        start = window * (count - size) // (windows - 1)
        shown += [None, *range(start, start + size)]
    return shown
