"""Rows of tasks that fit the values: a schedule changed as little as what the tasks read from one another demands."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping, Sequence
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)

Row = list
"""The tasks of a device in order."""


@dataclasses.dataclass(frozen=True)
class Settled(Generic[T]):
    """Rows that can be run to their end."""

    rows: Mapping[str, Sequence[tuple[T, ...]]]
    """By device: what it runs one after another; tasks that wait for one another stand together."""
    gave_way: bool
    """Whether the rows are not those of the schedule."""


def settle(rows: Mapping[str, Sequence[T]], before: Mapping[T, Sequence[T]]) -> Settled[T]:
    """Puts rows in an order in which every task comes after those it reads from.

    Tasks that read from one another in a circle become one step. A device keeps the order of its row; where no device
    can go on, the first step of a row that can run goes ahead. So a schedule that fits the values is not changed.

    Args:
        rows: by device, its tasks in the order wanted; every task is in one row.
        before: by task, those it reads from.
    """
    group = _circles([task for row in rows.values() for task in row], before)
    steps: dict[str, list[tuple[T, ...]]] = {}
    for device, row in rows.items():
        members: dict[int, list[T]] = {}
        for task in row:
            members.setdefault(group[task], []).append(task)
        steps[device] = [tuple(tasks) for tasks in members.values()]
    pending = {device: list(items) for device, items in steps.items()}
    left: dict[int, int] = {}
    for items in pending.values():
        for item in items:
            left[group[item[0]]] = left.get(group[item[0]], 0) + 1

    def ready(item: tuple[T, ...]) -> bool:
        circle = group[item[0]]
        return all(group[b] == circle or not left[group[b]] for task in members_of[circle] for b in before[task])

    members_of: dict[int, list[T]] = {}
    for task, number in group.items():
        members_of.setdefault(number, []).append(task)
    result: dict[str, list[tuple[T, ...]]] = {device: [] for device in rows}
    gave_way = any(len(item) > 1 for items in steps.values() for item in items)
    while any(pending.values()):
        device = next((d for d, items in pending.items() if items and ready(items[0])), None)
        place = 0
        if device is None:
            gave_way = True
            options = [(i, d) for d, items in pending.items() for i, item in enumerate(items) if ready(item)]
            place, device = min(options)
        item = pending[device].pop(place)
        left[group[item[0]]] -= 1
        result[device].append(item)
    return Settled(result, gave_way)


def _circles(tasks: Sequence[T], before: Mapping[T, Sequence[T]]) -> dict[T, int]:
    """Numbers tasks so that two have one number if each comes after the other (Tarjan, 1972, without recursion)."""
    index: dict[T, int] = {}
    low: dict[T, int] = {}
    number: dict[T, int] = {}
    waiting: list[T] = []
    on_stack: set[T] = set()
    for root in tasks:
        if root in index:
            continue
        work: list[tuple[T, int]] = [(root, 0)]
        while work:
            task, at = work.pop()
            if at == 0:
                index[task] = low[task] = len(index)
                waiting.append(task)
                on_stack.add(task)
            needs = before[task]
            if at < len(needs):
                work.append((task, at + 1))
                if needs[at] not in index:
                    work.append((needs[at], 0))
                elif needs[at] in on_stack:
                    low[task] = min(low[task], index[needs[at]])
                continue
            for need in needs:
                if need in on_stack:
                    low[task] = min(low[task], low[need])
            if low[task] == index[task]:
                while True:
                    member = waiting.pop()
                    on_stack.discard(member)
                    number[member] = index[task]
                    if member == task:
                        break
    return number
