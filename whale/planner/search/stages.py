"""Where a pipeline is cut, over unequal devices under memory caps.

Problem: units 0..n in a row, kinds of rows k (a row: the devices of one stage in all replicas) with ``rows_k`` of each.
Choose the number of stages S, cuts and the kind of each stage, so that every stage fits its kind's memory while it
holds what its schedule has live (under 1F1B ``min(M, S - s)`` micro-batches), and minimise the pipeline bound::

    max_s [ sum_{s' < s} (f_s' + b_s' + 2 send_s') + M (f_s + b_s) ]  +  tail_0

f, b: seconds of forward and backward pass of one of M micro-batches; send: seconds to cross the cut behind a stage;
tail: what the first stage does when all is done (reduce, update). Under every schedule of ``ir.schedules`` with one
stage a device, a stage starts after one micro-batch went through the stages before it, and the first stage ends after
the last gradient came back through them, so no step is shorter than this.

Exact dynamic programme over suffixes: ``E(i, u)``, the least bound of units i..n on rows u (a number for each kind), is
``min over j, k of max(M c_k(i, j), c_k(i, j) + 2 send(j) + E(j, u - e_k))`` with ``c = f + b``: all but the maximum is
monotone in E, and the number of stages behind, which memory depends on, is ``|u|``. Cost: O(|{u}| K n^2). The form
is that of DAPPLE (Fan et al., PPoPP 2021) and of PipeDream's planner, with devices counted by kind.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from whale.planner.search.tables import Array

Usage = tuple[int, ...]
"""Rows in use, for each kind."""


_CHUNK = 64
"""Usages that are worked out at once; bounds the memory of a level."""


@dataclasses.dataclass(frozen=True, eq=False)
class RowKind:
    """One kind of row."""

    rows: int
    """How many there are."""
    work: Array
    """[i, j]: forward and backward seconds of a micro-batch; endless for what is no stage."""
    memory: Sequence[Array]
    """For 0, 1, 2, ... stages behind it, the bytes of each stage; the last entry stands for all further numbers."""
    cap: float
    """Bytes of one device."""
    tail: Array
    """[j]: seconds at the end of a step for the first stage, units 0..j."""


@dataclasses.dataclass(frozen=True)
class Cut:
    """A pipeline."""

    boundaries: tuple[int, ...]
    """Units at which stages begin, and the last unit's end."""
    kinds: tuple[int, ...]
    """The kind of each stage."""
    seconds: float
    """The pipeline bound of a step."""


def count_usages(rows: Sequence[int], stages: int) -> int:
    """How many numbers of rows the programme goes over; its cost grows in proportion."""
    sizes = [1] + [0] * stages
    for most in rows:
        sizes = [sum(sizes[max(0, t - most) : t + 1]) for t in range(stages + 1)]
    return sum(sizes[1:])


def cut_stages(
    kinds: Sequence[RowKind], send: Sequence[float], micro_batches: int, stages: int, exactly: bool = False
) -> list[Cut]:
    """The best pipeline of each number of stages that fits, shortest bound first.

    Args:
        kinds: rows by kind.
        send: seconds of a micro-batch across each boundary, 0 to n.
        micro_batches: M.
        stages: the most stages.
        exactly: whether only pipelines of just so many stages are wanted.
    """
    count = kinds[0].work.shape[0]
    stages = min(stages, count, sum(k.rows for k in kinds))
    programme = _Programme(kinds, 2 * np.asarray(send, dtype=np.float64), micro_batches)
    levels: list[_Level | None] = [None]
    found: list[Cut] = []
    for size in range(1, stages + 1):
        level, best = programme.level(levels[-1], size)
        levels.append(level)
        if best is not None and (not exactly or size == stages):
            found.append(_traced(best, levels))
        if not np.isfinite(level.seconds).any():
            break  # nothing to put a stage in front of
    return sorted(found, key=lambda cut: cut.seconds)


def _capped(kind: RowKind, behind: int) -> Array:
    """A kind's work where a stage fits, endless elsewhere."""
    need = kind.memory[min(behind, len(kind.memory) - 1)]
    return np.where(need <= kind.cap, kind.work, np.inf)


def _before(usage: Usage, kind: int) -> Usage:
    return (*usage[:kind], usage[kind] - 1, *usage[kind + 1 :])


def _usages(kinds: Sequence[RowKind], level: int) -> list[Usage]:
    ranges = [range(min(k.rows, level) + 1) for k in kinds[:-1]]
    found: list[Usage] = []
    for head in itertools.product(*ranges):
        rest = level - sum(head)
        if 0 <= rest <= kinds[-1].rows:
            found.append((*head, rest))
    return found


@dataclasses.dataclass(frozen=True, eq=False)
class _Level:
    """Suffixes of so many stages. All arrays are [usage, unit the suffix begins with]."""

    usages: dict[Usage, int]
    """The row of each usage."""
    seconds: Array
    kind: npt.NDArray[np.int32]
    """Of the first stage."""
    cut: npt.NDArray[np.int32]
    """Where the second stage begins."""


@dataclasses.dataclass(frozen=True, eq=False)
class _Programme:
    kinds: Sequence[RowKind]
    there_and_back: Array
    micro_batches: int

    def level(self, before: _Level | None, size: int) -> tuple[_Level, tuple[float, Usage, int, int] | None]:
        """Suffixes of ``size`` stages, and (bound, usage, kind, cut) of the best of them that begins at unit 0."""
        count = self.kinds[0].work.shape[0]
        usages = _usages(self.kinds, size)
        seconds = np.full((len(usages), count), np.inf)
        first_kind = np.full((len(usages), count), -1, dtype=np.int32)
        first_cut = np.full((len(usages), count), -1, dtype=np.int32)
        best: tuple[float, Usage, int, int] | None = None
        for number, kind in enumerate(self.kinds):
            rows = [row for row, usage in enumerate(usages) if usage[number]]
            if not rows:
                continue
            work = _capped(kind, size - 1)
            rest = None if before is None else self._rest(before, [_before(usages[row], number) for row in rows])
            for chunk in range(0, len(rows), _CHUNK):
                chosen = rows[chunk : chunk + _CHUNK]
                part = None if rest is None else rest[chunk : chunk + _CHUNK]
                reached, cut, whole = self._reach(work, part, len(chosen))
                improved = reached < seconds[chosen]
                seconds[chosen] = np.where(improved, reached, seconds[chosen])
                first_kind[chosen] = np.where(improved, number, first_kind[chosen])
                first_cut[chosen] = np.where(improved, cut, first_cut[chosen])
                ended = whole + (kind.tail[count:] if part is None else kind.tail[:count])
                row, at = np.unravel_index(int(ended.argmin()), ended.shape)
                value = float(ended[row, at])
                if math.isfinite(value) and (best is None or value < best[0]):
                    boundary = int(at) if part is not None else count
                    best = (value, usages[chosen[int(row)]], number, boundary)
        return _Level({u: row for row, u in enumerate(usages)}, seconds, first_kind, first_cut), best

    def _rest(self, before: _Level, usages: Sequence[Usage]) -> Array:
        """[usage, unit]: the bounds of what follows the first stage."""
        return before.seconds[[before.usages[usage] for usage in usages]]

    def _reach(self, work: Array, rest: Array | None, usages: int) -> tuple[Array, npt.NDArray[np.int64], Array]:
        """([usage, i] the least bound from unit i, its cut; [usage, j] bounds from unit 0 by cut)."""
        count = work.shape[0]
        full = self.micro_batches * work
        if rest is None:
            alone = np.repeat(full[None, :, count], usages, axis=0)
            return alone, np.full((usages, count), count), alone[:, :1]
        once = work[:, :count] + self.there_and_back[None, :count]
        bounds = np.maximum(full[None, :, :count], once[None] + rest[:, None, :])
        cut = bounds.argmin(axis=2)
        return np.take_along_axis(bounds, cut[:, :, None], axis=2)[:, :, 0], cut, bounds[:, 0]


def _traced(best: tuple[float, Usage, int, int], levels: Sequence[_Level | None]) -> Cut:
    seconds, usage, kind, at = best
    boundaries, kinds = [0, at], [kind]
    usage = _before(usage, kind)
    for size in range(sum(usage), 0, -1):
        level = levels[size]
        assert level is not None
        row, unit = level.usages[usage], boundaries[-1]
        kind = int(level.kind[row, unit])
        kinds.append(kind)
        boundaries.append(int(level.cut[row, unit]))
        usage = _before(usage, kind)
    return Cut(tuple(boundaries), tuple(kinds), seconds)
