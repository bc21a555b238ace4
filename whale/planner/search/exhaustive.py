"""Every plan of a small case, by bounds: what is simulated is what no bound rules out.

A plan is a layout (which pool of equal devices each stage of each replica is on, in groups of which size; replicas in
any order are one layout), micro-batches, recomputation, cuts, whole shares and a schedule. Its bound is the pipeline
bound of ``stages.py`` for each replica, with the reduction and update that follow at the end of each row. Plans are
taken in the order of their bounds, and simulated while the bound is below the best step: then no plan is better.
"""

from __future__ import annotations

import dataclasses
import functools
import heapq
import itertools
import math
from collections.abc import Iterator, Sequence

from whale.cost_model import ParallelPlan, Recompute, all_reduce_seconds, send_seconds
from whale.cost_model.plan import ScheduleName
from whale.errors import ClusterError
from whale.planner.search.devices import Pool
from whale.planner.search.families import family_of
from whale.planner.search.placing import Rows, place
from whale.planner.search.space import Space
from whale.planner.search.tables import Setting, StageTable

_ROUNDING = 1e-9
"""Bounds come from sums in another order than the simulation's."""


_LISTED = 10
"""Shares are listed, with those that are the same for equal replicas, up to so many times the limit."""

_MANY_DEVICES = 8
"""More devices have too many layouts to count them."""


@dataclasses.dataclass(frozen=True)
class Layout:
    """Where stages are, without what they hold."""

    columns: tuple[tuple[Pool, ...], ...]
    """For each replica the pool of each row, in ascending order of the pools' positions."""
    parts: tuple[int, ...]
    """Devices of a group, by row."""


@dataclasses.dataclass(frozen=True)
class _Frame:
    """A layout with all but cuts and shares."""

    layout: Layout
    rows: Rows
    micro_batches: int
    variant: tuple[Recompute, bool]
    stages: int
    """A multiple of the rows."""


def search_all(space: Space) -> bool:
    """Looks at every plan. False, before any is simulated, when there are more than the options allow."""
    if sum(len(pool.devices) for pool in space.pools) > _MANY_DEVICES:
        return False
    frames: list[_Frame] = []
    size = 0
    for layout in layouts(space):
        for frame in _frames(space, layout):
            frames.append(frame)
            size += _count(space, frame)
            if size > space.options.exhaustive_limit:
                return False
    heap: list[tuple[float, int, ParallelPlan]] = []
    for frame in frames:
        for bound, plan in _bounded(space, frame):
            heap.append((bound, len(heap), plan))
    heapq.heapify(heap)
    while heap:
        bound, _, plan = heapq.heappop(heap)
        if bound * (1 - _ROUNDING) < space.limit(family_of(plan)):
            space.standings.consider(plan)
    return True


def layouts(space: Space) -> Iterator[Layout]:
    """All layouts, each once."""
    total = sum(len(pool.devices) for pool in space.pools)
    fewest = space.tables.count if space.options.stages and "interleaved" not in space.options.schedules else 1
    for rows in range(fewest, min(space.max_stages, total) + 1):
        for parts in itertools.product(space.group_sizes, repeat=rows):
            free = [len(pool.devices) for pool in space.pools]
            yield from _grown(space, parts, (), free, 0)


def _grown(
    space: Space, parts: tuple[int, ...], columns: tuple[tuple[int, ...], ...], free: list[int], least: int
) -> Iterator[Layout]:
    """Layouts that begin with some columns; further ones do not come before the last in order."""
    wanted = space.options.replicas
    if columns and (wanted is None or len(columns) == wanted):
        yield Layout(tuple(tuple(space.pools[p] for p in column) for column in columns), parts)
    if len(columns) >= min(space.options.global_batch, wanted or space.options.global_batch):
        return
    every = itertools.product(range(len(space.pools)), repeat=len(parts))
    for number, column in enumerate(every):
        if number < least:
            continue
        left = list(free)
        for pool, size in zip(column, parts):
            left[pool] -= size
        if min(left) >= 0:
            yield from _grown(space, parts, (*columns, column), left, number)


def _frames(space: Space, layout: Layout) -> Iterator[_Frame]:
    replicas, count = len(layout.columns), len(layout.parts)
    sources = [[[column[row]] for column in layout.columns] for row in range(count)]
    rows = place(space.grouping, sources, layout.parts, by_columns=False)
    if rows is None:
        return
    stage_counts = [count]
    if "interleaved" in space.options.schedules and count > 1:
        stage_counts += range(2 * count, space.max_stages + 1, count)
    if space.options.stages:
        stage_counts = [n for n in stage_counts if n == space.tables.count]
    for micro_batches in space.options.divisors():
        if space.options.global_batch // micro_batches < replicas:
            continue
        for variant in space.variants(max(layout.parts)):
            for stages in stage_counts:
                yield _Frame(layout, rows, micro_batches, variant, stages)


def _count(space: Space, frame: _Frame) -> int:
    units = space.options.global_batch // frame.micro_batches
    limit = space.options.exhaustive_limit
    if math.comb(units - 1, len(frame.layout.columns) - 1) > _LISTED * limit:
        return limit + 1  # to list the shares takes longer than to do without
    cuts = sum(1 for _ in _cuts(space, frame))
    return cuts * len(_allocations(space, frame))


def _cuts(space: Space, frame: _Frame) -> Iterator[tuple[int, ...]]:
    count = space.tables.count
    for inner in itertools.combinations(range(1, count), frame.stages - 1):
        yield (0, *inner, count)


def _allocations(space: Space, frame: _Frame) -> list[tuple[int, ...]]:
    """Whole numbers of samples of a micro-batch for all replicas; equal replicas in descending order."""
    columns = frame.layout.columns
    units = space.options.global_batch // frame.micro_batches
    return _compositions(units, tuple(a == b for a, b in zip(columns, columns[1:])))


@functools.lru_cache(maxsize=4096)
def _compositions(units: int, like_next: tuple[bool, ...]) -> list[tuple[int, ...]]:
    replicas = len(like_next) + 1
    found: list[tuple[int, ...]] = []
    for inner in itertools.combinations(range(1, units), replicas - 1):
        edges = (0, *inner, units)
        given = tuple(b - a for a, b in zip(edges, edges[1:]))
        if all(not same or given[i] >= given[i + 1] for i, same in enumerate(like_next)):
            found.append(given)
    return found


def _bounded(space: Space, frame: _Frame) -> Iterator[tuple[float, ParallelPlan]]:
    """(bound, plan) of all plans of a frame; schedules of one plan share its bound."""
    bounds = _Bounds(space, frame)
    rows = len(frame.rows)
    plain: list[ScheduleName] = [name for name in space.options.schedules if name != "interleaved"]
    chunked: list[ScheduleName] = ["interleaved"]
    for cuts in _cuts(space, frame):
        for samples in _allocations(space, frame):
            try:
                bound = bounds.of(cuts, samples)
            except ClusterError as error:
                space.standings.broken_link = error
                return
            schedules = plain if frame.stages == rows else chunked
            if frame.stages == 1 or frame.micro_batches == 1:
                schedules = schedules[:1] or [space.schedule]  # one order of tasks by any name
            for name in schedules:
                yield bound, space.plan(cuts, frame.rows, frame.micro_batches, frame.variant, samples, name)


class _Bounds:
    """Bounds of the plans of one frame."""

    def __init__(self, space: Space, frame: _Frame) -> None:
        self.space = space
        self.frame = frame
        names = [name for row in frame.rows for group in row for name in group]
        self.topology = space.standings.judge.seen_by(names).topology
        self.heads = [[self.topology.device(group[0]) for group in row] for row in frame.rows]

    def of(self, cuts: Sequence[int], samples: Sequence[int]) -> float:
        """No schedule ends the step before."""
        ends = [self._ends(cuts, replica, n) for replica, n in enumerate(samples)]
        rows = len(self.frame.rows)
        step = 0.0
        for row in range(rows):
            last = max(end[row] for end in ends)
            step = max(step, last + self._tail(cuts, samples, row))
        return step + self.space.overhead

    def _table(self, replica: int, row: int, samples: int) -> StageTable:
        pool = self.frame.layout.columns[replica][row]
        return self.space.pool_table(pool, Setting(samples, self.frame.layout.parts[row], *self.frame.variant))

    def _ends(self, cuts: Sequence[int], replica: int, samples: int) -> list[float]:
        """For each row, when its last backward pass ends at the earliest."""
        rows, pieces = len(self.frame.rows), self.frame.micro_batches
        tables = [self._table(replica, row, samples) for row in range(rows)]
        stages = list(enumerate(zip(cuts, cuts[1:])))
        arrival = 0.0
        ends = [0.0] * rows
        if len(stages) > rows:  # several stages on a row: it has all of their work to do
            for number, (i, j) in stages:
                ends[number % rows] += pieces * float(tables[number % rows].work[i, j])
            return ends
        back: list[float] = []
        for number, (i, j) in stages:
            done = arrival + pieces * float(tables[number].work[i, j])
            # The last gradient then goes back through the rows in front.
            for row in range(number, -1, -1):
                if row < number:
                    done += back[row]
                ends[row] = max(ends[row], done)
            if number + 1 < len(stages):
                send = self._send(number, replica, j, samples)
                arrival += float(tables[number].forward[i, j]) + send
                back.append(send + float(tables[number].backward[i, j]))
        return ends

    def _send(self, row: int, replica: int, boundary: int, samples: int) -> float:
        here, there = self.heads[row][replica], self.heads[row + 1][replica]
        size = self.space.tables.output_bytes(boundary, samples)
        return send_seconds(self.topology, here, there, size)

    def _tail(self, cuts: Sequence[int], samples: Sequence[int], row: int) -> float:
        """Reduction and update of a row."""
        update = reduce = 0.0
        hidden = 0.0
        rows = len(self.frame.rows)
        for number in range(row, self.frame.stages, rows):
            i, j = cuts[number], cuts[number + 1]
            update += max(float(self._table(r, row, n).update[i, j]) for r, n in enumerate(samples))
            if len(samples) > 1:
                size = float(self._table(0, row, samples[0]).gradient[i, j])
                reduce += all_reduce_seconds(self.topology, self.heads[row], size) if self.frame.stages == rows else 0.0
            hidden = max(hidden, *(float(self._table(r, row, n).backward[i, j]) for r, n in enumerate(samples)))
        return max(reduce - self.space.overlap * hidden, 0.0) + update
