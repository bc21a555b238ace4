"""Plans whose replicas are unequal: each is a pipeline on devices of one kind, with a share of the batch that suits it.

The cuts are common to all replicas, since they reduce the gradients of the same stages. They are those of the slowest
kind; shares then come from the parametric search of ``shares.py``, in whole samples of a micro-batch, capped by memory.
A replica that is given nothing is left out.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from whale.cost_model import ParallelPlan, Recompute, all_reduce_seconds
from whale.planner.search.devices import Kind
from whale.planner.search.families import Family, family_of
from whale.planner.search.placing import place
from whale.planner.search.shares import Taker, share
from whale.planner.search.space import Space
from whale.planner.search.stages import RowKind, cut_stages
from whale.planner.search.tables import Setting
from whale.planner.search.waiting import Looks, Waiting

_PART = 4
"""Bounds of replicas side by side are close to the simulation, so that fewer of them are simulated."""

_STAGES = (1, 2, 4)
"""Lengths of pipelines; longer ones of unequal replicas have unequal stages at common cuts."""

_MANY_TIMES = 3
"""A replica's share over the average one, at most, for bounds."""

_MANY_KINDS = 4
"""Of more kinds not every set is looked at, but the fastest ones."""


@dataclasses.dataclass(frozen=True)
class _Case:
    """Replicas without their shares."""

    bound: float
    kinds: tuple[Kind, ...]
    counts: tuple[int, ...]
    """Replicas on each kind."""
    stages: int
    parts: int
    micro_batches: int
    variant: tuple[Recompute, bool]

    @property
    def setting(self) -> tuple[object, ...]:
        """The case without its recomputation."""
        return (self.kinds, self.counts, self.stages, self.parts, self.micro_batches, self.variant[1])

    @property
    def undivided(self) -> tuple[object, ...]:
        """A case of one stage without its micro-batches: the fewest that memory allows are the fastest."""
        return (self.kinds, self.counts, self.stages, self.parts, self.variant) if self.stages == 1 else ()

    @property
    def family(self) -> Family:
        """The family of the case's plans, as a rule."""
        recompute = self.variant[0] is not Recompute.NONE
        return Family(self.stages > 1, sum(self.counts) > 1, self.parts > 1, True, recompute)


def search_mixed(space: Space) -> None:
    """Proposes plans with unequal shares, and for comparison equal ones."""
    waiting = Waiting(space)
    settled: set[tuple[object, ...]] = set()
    looks = Looks(space)
    for case in sorted(_cases(space), key=lambda case: case.bound):
        known = case.family in space.standings.families
        if known and (case.setting in settled or case.undivided in settled):
            continue
        if not looks.worth(case.family, case.bound):
            continue
        for bound, plan in (*_unequal(space, case, settled), *_equal(space, case)):
            waiting.push(bound, family_of(plan), functools.partial(_only, plan))
    waiting.finish(_PART)


def _only(plan: ParallelPlan) -> tuple[ParallelPlan]:
    return (plan,)


def _cases(space: Space) -> Iterator[_Case]:
    most = space.options.global_batch
    stage_counts = [s for s in _STAGES if s <= space.max_stages]
    if space.options.stages:
        stage_counts = [space.tables.count]
    for stages, parts, kinds in itertools.product(stage_counts, space.group_sizes, _kind_sets(space)):
        counts = tuple(space.groups(kind, parts) // stages for kind in kinds)
        wanted = space.options.replicas
        if 0 in counts or sum(counts) < 2 or (wanted is not None and sum(counts) != wanted):
            continue
        for micro_batches in space.options.divisors():
            units = most // micro_batches
            if len(kinds) == 1 and units % counts[0] == 0:
                continue  # equal shares: replicas that are alike
            if 2 * units < sum(counts):
                continue  # most replicas would be idle
            for variant in space.variants(parts):
                # No replica takes more than a few times the average.
                setting = Setting(min(units, _MANY_TIMES * -(-units // sum(counts))), parts, *variant)
                bound = _bound(space, kinds, counts, stages, micro_batches, setting)
                yield _Case(bound, kinds, counts, stages, parts, micro_batches, variant)


def _kind_sets(space: Space) -> list[tuple[Kind, ...]]:
    kinds = space.kinds
    if len(kinds) <= _MANY_KINDS:
        return [chosen for size in range(1, len(kinds) + 1) for chosen in itertools.combinations(kinds, size)]
    ranked = sorted(kinds, key=lambda kind: space.whole_seconds(kind, Setting(1)))
    return [tuple(ranked[:size]) for size in range(1, len(ranked) + 1)]


def _bound(
    space: Space, kinds: Sequence[Kind], counts: Sequence[int], stages: int, micro_batches: int, most: Setting
) -> float:
    """All samples at the rate that each device has on the largest micro-batch there is, where it is most efficient, and
    the reduction of stages of equal size that the last backward pass does not hide."""
    rate = sum(count * stages * most.samples / space.whole_seconds(kind, most) for kind, count in zip(kinds, counts))
    # Stages that are filled one after the other, as in the bound of ``uniform.py``.
    filled = sum((1 - 1 / micro_batches) ** stage for stage in range(stages)) / stages
    piece = space.options.global_batch / micro_batches / rate / filled
    return micro_batches * piece + _exposed(space, kinds, counts, stages, most.parts, piece)


def _exposed(
    space: Space, kinds: Sequence[Kind], counts: Sequence[int], stages: int, parts: int, piece: float
) -> float:
    """Seconds of the reduction that are left, where a pass over a micro-batch takes ``piece`` seconds."""
    reduction = _reduction(space, tuple(kinds), tuple(counts), stages, parts)
    return max(0.0, reduction - space.overlap * piece)


@functools.lru_cache(maxsize=4096)
def _reduction(space: Space, kinds: tuple[Kind, ...], counts: tuple[int, ...], stages: int, parts: int) -> float:
    size = space.tables.gradient_bytes(parts) / stages
    members = [d for kind, count in zip(kinds, counts) for d in space.heads(kind, parts)[: count * stages : stages]]
    return all_reduce_seconds(space.topology, members, size, 1.0)


def _unequal(space: Space, case: _Case, settled: set[tuple[object, ...]]) -> Iterator[tuple[float, ParallelPlan]]:
    """(bound, plan) with the best shares. Where no memory cap binds, recomputation would only cost time: settled."""
    cuts = _cuts(space, case)
    units = space.options.global_batch // case.micro_batches
    floor = 0 if space.options.replicas is None else 1
    takers = [_taker(space, case, kind, count, cuts, units, floor) for kind, count in zip(case.kinds, case.counts)]
    found = share(takers, units)
    if found is None:
        return
    if all(taker.cap == units for taker in takers):
        if case.stages == 1:
            settled.add(case.undivided)
        if case.variant[0] is Recompute.NONE:
            settled.add(case.setting)
    samples = [[n for n in given if n] for given in found.samples]
    counts = [len(given) for given in samples]
    piece = found.seconds / case.micro_batches
    bound = found.seconds + _exposed(space, case.kinds, counts, case.stages, case.parts, piece)
    if bound < space.limit(case.family):
        plan = _plan(space, case, cuts, samples)
        if plan is not None:
            yield bound, plan


def _taker(space: Space, case: _Case, kind: Kind, count: int, cuts: tuple[int, ...], units: int, floor: int) -> Taker:
    """Replicas on one kind: the pipeline bound for a number of samples, and the most that memory allows."""

    def fits(samples: int) -> bool:
        return _need(space, case, cuts, samples) <= kind.cap

    low, high = 0, units
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return Taker(lambda samples: _seconds(space, case, kind, cuts, samples), count, low, floor)


def _seconds(space: Space, case: _Case, kind: Kind, cuts: tuple[int, ...], samples: int) -> float:
    setting = Setting(samples, case.parts, *case.variant)
    if len(cuts) == 2:
        return case.micro_batches * space.whole_seconds(kind, setting)
    before = worst = 0.0
    for work in space.stage_seconds(kind, setting, cuts):
        worst = max(worst, before + case.micro_batches * work)
        before += work
    return worst


def _need(space: Space, case: _Case, cuts: tuple[int, ...], samples: int) -> float:
    """Bytes of the stage that needs most."""
    setting = Setting(samples, case.parts, *case.variant)
    stages = len(cuts) - 1
    live = [space.live(case.micro_batches, stages - 1 - s) for s in range(stages)]
    return float(space.tables.need(setting, cuts, live, space.separate and case.micro_batches > 1).max())


def _cuts(space: Space, case: _Case) -> tuple[int, ...]:
    """Boundaries for the slowest kind with an average share; without a look at memory where none fits."""
    if case.stages == 1:
        return (0, space.tables.count)
    units = space.options.global_batch // case.micro_batches
    average = max(1, units // sum(case.counts))
    setting = Setting(average, case.parts, *case.variant)
    slowest = max(case.kinds, key=lambda kind: space.whole_seconds(kind, setting))
    table = space.table(slowest, setting)
    memory = space.memory(table, case.micro_batches, case.stages)
    nothing = np.zeros(space.tables.count + 1)
    for cap in (min(kind.cap for kind in case.kinds), math.inf):
        kind = RowKind(case.stages, table.work, memory, cap, nothing)
        found = cut_stages([kind], [0.0] * (space.tables.count + 1), case.micro_batches, case.stages, exactly=True)
        if found:
            return found[0].boundaries
    raise AssertionError("a pipeline of fewer stages than units has a cut")


def _equal(space: Space, case: _Case) -> Iterator[tuple[float, ParallelPlan]]:
    """The same replicas with equal shares, which is what a planner does that takes all devices for one kind."""
    units = space.options.global_batch // case.micro_batches
    if len(case.kinds) < 2 or units % sum(case.counts):
        return
    one = units // sum(case.counts)
    cuts = _cuts(space, case)
    bound = max(_seconds(space, case, kind, cuts, one) for kind in case.kinds)
    if bound < space.limit(dataclasses.replace(case.family, unequal=False)):
        plan = _plan(space, case, cuts, [[one] * count for count in case.counts])
        if plan is not None:
            yield bound, plan


def _plan(space: Space, case: _Case, cuts: tuple[int, ...], samples: Sequence[Sequence[int]]) -> ParallelPlan | None:
    shares = [n for given in samples for n in given]
    sources = [space.pools_of(kind) for kind, given in zip(case.kinds, samples) for _ in given]
    rows = place(space.grouping, [sources] * case.stages, [case.parts] * case.stages, by_columns=case.stages > 1)
    return None if rows is None else space.plan(cuts, rows, case.micro_batches, case.variant, shares)
