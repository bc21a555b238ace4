"""From kinds to devices: which group of devices each (row, replica) of a plan gets."""

from __future__ import annotations

from collections.abc import Sequence

from whale.planner.search.devices import Grouping, Pool

Sources = Sequence[Sequence[Sequence[Pool]]]
"""``sources[row][replica]``: the pools that its group may come from, in the order in which they are used up."""

Rows = tuple[tuple[tuple[str, ...], ...], ...]
"""``rows[row][replica]``: the group's devices."""


def place(grouping: Grouping, sources: Sources, parts: Sequence[int], by_columns: bool) -> Rows | None:
    """Takes groups from pools, or None where they do not suffice.

    Args:
        grouping: cuts pools into groups.
        sources: where groups may come from.
        parts: devices of a group, by row.
        by_columns: whether neighbouring groups go to the stages of one replica (activations stay within machines), or
            else to the replicas of one stage (gradients do).
    """
    stock = _Stock(grouping, _sizes(sources, parts))
    rows, replicas = len(sources), len(sources[0])
    if by_columns:
        cells = [(row, replica) for replica in range(replicas) for row in range(rows)]
    else:
        cells = [(row, replica) for row in range(rows) for replica in range(replicas)]
    taken: dict[tuple[int, int], tuple[str, ...]] = {}
    for row, replica in cells:
        group = stock.take(sources[row][replica], parts[row])
        if group is None:
            return None
        taken[row, replica] = group
    return tuple(tuple(taken[row, replica] for replica in range(replicas)) for row in range(rows))


def _sizes(sources: Sources, parts: Sequence[int]) -> dict[Pool, set[int]]:
    """The sizes of groups that each pool is asked for."""
    found: dict[Pool, set[int]] = {}
    for row, size in zip(sources, parts):
        for pools in {id(pools): pools for pools in row}.values():
            for pool in pools:
                found.setdefault(pool, set()).add(size)
    return found


class _Stock:
    """What is left of each pool."""

    def __init__(self, grouping: Grouping, sizes: dict[Pool, set[int]]) -> None:
        self.groups: dict[Pool, list[tuple[str, ...]]] = {}
        self.free: dict[Pool, list[str]] = {}
        for pool, wanted in sizes.items():
            if len(wanted) == 1:
                self.groups[pool] = list(grouping.groups(pool, next(iter(wanted))))
            else:  # groups of several sizes: in the order of the devices
                self.free[pool] = [device.name for device in pool.devices]

    def take(self, pools: Sequence[Pool], parts: int) -> tuple[str, ...] | None:
        for pool in pools:
            groups = self.groups.get(pool)
            if groups:
                return groups.pop(0)
            free = self.free.get(pool, [])
            if len(free) >= parts:
                group = tuple(free[:parts])
                del free[:parts]
                return group
        return None
