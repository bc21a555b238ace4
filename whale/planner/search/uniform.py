"""Plans whose replicas are alike: R copies of one pipeline, each stage on any kind of devices.

For every R, sizes of groups, recomputation and micro-batch size, the cut and the kinds of the stages are found by the
programme of ``stages.py``. Settings are taken in the order of a bound that needs no cut, so that most are never cut.
With V the pipeline bound of M micro-batches, stage s takes at most ``V / M (1 - 1/M)^s`` for one, so that with C_s
seconds for the whole model on the devices of stage s, the fastest first, ``V >= M / sum_s (1 - 1/M)^s / C_s``.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from whale.cluster import Device
from whale.cost_model import ParallelPlan, Recompute, send_seconds
from whale.planner.search.devices import Kind
from whale.planner.search.families import Family
from whale.planner.search.options import divisors
from whale.planner.search.placing import place
from whale.planner.search.space import Space
from whale.planner.search.stages import Cut, RowKind, count_usages, cut_stages
from whale.planner.search.tables import Setting
from whale.planner.search.waiting import Looks, Waiting

_MAX_USAGES = 600
"""Pipelines are kept short enough that the programme goes over no more numbers of rows."""

_CUTS = 3
"""How many numbers of stages of one setting are simulated."""


@dataclasses.dataclass(frozen=True)
class _Case:
    """One setting, without its cut."""

    bound: float
    kinds: tuple[Kind, ...]
    parts: tuple[int, ...]
    """Devices of a group, by kind."""
    rows: tuple[int, ...]
    """Rows that each kind has for so many replicas."""
    stages: int
    """The most stages."""
    replicas: int
    micro_batches: int
    samples: int
    variant: tuple[Recompute, bool]

    @property
    def setting(self) -> tuple[object, ...]:
        """The case without its recomputation."""
        return (self.kinds, self.parts, self.replicas, self.micro_batches, self.variant[1])


def search_uniform(space: Space) -> None:
    """Proposes plans with equal replicas."""
    waiting = Waiting(space)
    settled: set[tuple[object, ...]] = set()
    looks = Looks(space)
    for case in sorted(_cases(space), key=lambda case: case.bound):
        families = list(_families(case))
        if not any([looks.worth(family, case.bound) for family in families]):
            continue
        if case.setting in settled and all(family in space.standings.families for family in families):
            continue
        for cut in _cuts_of(space, case, settled):
            waiting.push(cut.seconds, _family_of(case, cut), functools.partial(_plans, space, case, cut))
    waiting.finish()


def _families(case: _Case) -> Iterator[Family]:
    """The families that a setting may lead to."""
    recompute = case.variant[0] is not Recompute.NONE
    pipelines = (False, True) if case.stages > 1 else (False,)
    tensors = sorted({parts > 1 for parts in case.parts})
    for pipeline, tensor in itertools.product(pipelines, tensors):
        yield Family(pipeline, case.replicas > 1, tensor, False, recompute)


def _cases(space: Space) -> Iterator[_Case]:
    for parts in _part_choices(space):
        kinds, parts = _present(space, parts)
        if not kinds:
            continue
        groups = [space.groups(kind, p) for kind, p in zip(kinds, parts)]
        for replicas in _replica_counts(space, max(groups)):
            rows = tuple(count // replicas for count in groups)
            if any(rows):
                yield from _cases_of(space, kinds, parts, rows, replicas)


def _part_choices(space: Space) -> Iterator[tuple[int, ...]]:
    """A size of groups for each kind: all combinations of few kinds, one size for all of many."""
    sizes, kinds = space.group_sizes, space.kinds
    if len(sizes) ** len(kinds) <= 16:
        yield from itertools.product(sizes, repeat=len(kinds))
    else:
        yield from ((size,) * len(kinds) for size in sizes)


def _present(space: Space, parts: tuple[int, ...]) -> tuple[tuple[Kind, ...], tuple[int, ...]]:
    pairs = [(kind, p) for kind, p in zip(space.kinds, parts) if space.groups(kind, p)]
    return tuple(kind for kind, _ in pairs), tuple(p for _, p in pairs)


def _replica_counts(space: Space, largest: int) -> Sequence[int]:
    """A row is of one kind, so there are no more replicas than the largest kind has groups."""
    if space.options.replicas is not None:
        return (space.options.replicas,)
    return [r for r in divisors(space.options.global_batch) if r <= largest]


def _cases_of(
    space: Space, kinds: tuple[Kind, ...], parts: tuple[int, ...], rows: tuple[int, ...], replicas: int
) -> Iterator[_Case]:
    batch = space.options.global_batch
    stages = min(space.max_stages, sum(rows))
    if space.options.stages and stages < space.tables.count:
        return
    while stages > 1 and count_usages(rows, stages) > _MAX_USAGES:
        stages -= 1
    for micro_batches in space.options.divisors():
        if batch % (micro_batches * replicas):
            continue
        samples = batch // (micro_batches * replicas)
        for variant in space.variants(max(parts)):
            work = [space.whole_seconds(kind, Setting(samples, p, *variant)) for kind, p in zip(kinds, parts)]
            bound = _bound(work, rows, stages, micro_batches)
            bound += _least_exposed(space, kinds, parts, replicas, stages, bound / micro_batches)
            yield _Case(bound, kinds, parts, rows, stages, replicas, micro_batches, samples, variant)


def _bound(work: Sequence[float], rows: Sequence[int], stages: int, micro_batches: int) -> float:
    usable = sorted((seconds, count) for seconds, count in zip(work, rows) if count)
    rate, shrunk = 0.0, 1.0
    for seconds, count in usable:
        for _ in range(min(count, stages)):
            rate += shrunk / seconds if seconds else math.inf
            shrunk *= 1 - 1 / micro_batches
        stages -= min(count, stages)
    return micro_batches / rate


def _cuts_of(space: Space, case: _Case, settled: set[tuple[object, ...]]) -> list[Cut]:
    """The best cuts of a setting. Where no memory cap binds, recomputation would only cost time: settled."""
    if case.variant[0] is Recompute.NONE:
        free = _cut(space, case, capped=False)
        if all(_fits(space, case, cut) for cut in free[:_CUTS]):
            settled.add(case.setting)
            return free[:_CUTS]
    capped = _cut(space, case, capped=True)
    if capped or all(family in space.standings.families for family in _families(case)):
        return capped[:_CUTS]
    # Where nothing fits, the longest pipeline says what is missing.
    return sorted(_cut(space, case, capped=False), key=lambda cut: -len(cut.kinds))[:1]


def _fits(space: Space, case: _Case, cut: Cut) -> bool:
    """Whether every stage of a cut has the memory that it needs."""
    stages = len(cut.kinds)
    doubled = space.separate and case.micro_batches > 1
    for number, kind in enumerate(cut.kinds):
        setting = Setting(case.samples, case.parts[kind], *case.variant)
        live = [space.live(case.micro_batches, stages - 1 - s) for s in range(stages)]
        need = space.tables.need(setting, cut.boundaries, live, doubled)
        if need[number] > case.kinds[kind].cap:
            return False
    return True


def _least_exposed(
    space: Space, kinds: Sequence[Kind], parts: Sequence[int], replicas: int, stages: int, piece: float
) -> float:
    """What is left of the reduction of stages of equal size behind a backward pass, on the kind that is best at it."""
    if replicas < 2:
        return 0.0
    found: list[float] = []
    for kind, size in zip(kinds, parts):
        if space.groups(kind, size) >= replicas:
            gradients = space.tables.gradient_bytes(size) / stages
            found.append(space.reduction(kind, size, replicas, gradients))
    return max(0.0, min(found, default=0.0) - space.overlap * piece)


def _family_of(case: _Case, cut: Cut) -> Family:
    tensor = any(case.parts[kind] > 1 for kind in cut.kinds)
    return Family(len(cut.kinds) > 1, case.replicas > 1, tensor, False, case.variant[0] is not Recompute.NONE)


def _cut(space: Space, case: _Case, capped: bool) -> list[Cut]:
    kinds = [
        _row_kind(space, case, kind, parts, rows, capped)
        for kind, parts, rows in zip(case.kinds, case.parts, case.rows)
    ]
    exactly = bool(space.options.stages)
    return cut_stages(kinds, _sends(space, case), case.micro_batches, case.stages, exactly)


def _row_kind(space: Space, case: _Case, kind: Kind, parts: int, rows: int, capped: bool) -> RowKind:
    table = space.table(kind, Setting(case.samples, parts, *case.variant))
    memory = space.memory(table, case.micro_batches, case.stages)
    reduce = space.reductions(kind, parts, case.replicas, table.gradient[0])
    tail = np.maximum(reduce - space.overlap * table.backward[0], 0.0) + table.update[0] + space.overhead
    tail[0] = 0.0
    return RowKind(rows, table.work, memory, kind.cap if capped else math.inf, tail)


def _sends(space: Space, case: _Case) -> list[float]:
    """Seconds across each boundary where stages are neighbours on a machine, if any machine has room for two groups."""
    pair = _neighbours(space, case)
    return [
        send_seconds(space.topology, *pair, space.tables.output_bytes(at, case.samples)) if pair and at else 0.0
        for at in range(space.tables.count + 1)
    ]


def _neighbours(space: Space, case: _Case) -> tuple[Device, Device] | None:
    """Two devices of stages that are next to each other at best."""
    for kind, parts in zip(case.kinds, case.parts):
        for pool in space.pools_of(kind):
            if pool.capacity(parts) > 1:
                return pool.devices[0], pool.devices[parts]
    machines = {pool.machine: pool for pool in reversed(space.pools)}
    first = list(machines.values())[:2]
    return (first[0].devices[0], first[1].devices[0]) if len(first) > 1 else None


def _plans(space: Space, case: _Case, cut: Cut) -> list[ParallelPlan]:
    """The plans of a cut: replicas side by side, or stages."""
    pools = [space.pools_of(case.kinds[kind]) for kind in cut.kinds]
    parts = [case.parts[kind] for kind in cut.kinds]
    ways = (False, True) if len(cut.kinds) > 1 and case.replicas > 1 else (False,)
    placed = [place(space.grouping, [[p] * case.replicas for p in pools], parts, by_columns) for by_columns in ways]
    rows = dict.fromkeys(found for found in placed if found is not None)
    return [space.plan(cut.boundaries, found, case.micro_batches, case.variant) for found in rows]
