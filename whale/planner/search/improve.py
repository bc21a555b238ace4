"""Steps from a good plan to a better one, as the simulation sees it: cuts, shares, schedules.

The proposals come from bounds, which know no bubbles of unequal stages, no shared links and no reduction of later
stages. Here the judge decides on every step; the search ends where no step is an improvement.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator

import numpy as np

from whale.cost_model import ParallelPlan, StagePlan
from whale.planner.search.families import Judged
from whale.planner.search.space import Space, simplest
from whale.planner.search.stages import RowKind, cut_stages
from whale.planner.search.standings import better
from whale.planner.search.tables import Setting

_TASKS = 400_000
"""Tasks that the simulations of one improvement may go through."""

_FEWEST = 8
"""Simulations of an improvement, however large."""

_DEEP = 8
"""GPipe keeps all micro-batches; with so many times the stages, others do the same in less memory."""


def improve(space: Space, judged: Judged, budget: int) -> Judged:
    """Takes the best step until there is none, or so many plans were simulated."""
    spent, budget = 0, min(budget, max(_FEWEST, _TASKS // _size(judged.plan)))
    while spent < budget:
        best = judged
        for plan in itertools.islice(_steps(space, judged.plan), budget - spent):
            spent += 1
            found = space.standings.consider(plan)
            if found is not None and better(found, best):
                best = found
        if best is judged:
            break
        judged = best
    return judged


def _size(plan: ParallelPlan) -> int:
    """What a simulation of a plan has to go through: tasks and devices."""
    return 2 * len(plan.stages) * min(plan.micro_batches, 3 * len(plan.stages)) + 10 * len(plan.devices)


def _steps(space: Space, plan: ParallelPlan) -> Iterator[ParallelPlan]:
    if plan.rows == len(plan.stages):
        yield from _other_schedules(space, plan)
    yield from _moved_shares(space, plan)
    yield from _moved_cuts(space, plan)
    if plan.rows == len(plan.stages) and plan.rows > 1 and "interleaved" in space.options.schedules:
        yield from _interleaved(space, plan)


def _other_schedules(space: Space, plan: ParallelPlan) -> Iterator[ParallelPlan]:
    if plan.rows > 1 and plan.micro_batches > 1:
        for name in space.options.schedules:
            useless = name == "gpipe" and plan.micro_batches > _DEEP * plan.rows
            if name not in (plan.schedule, "interleaved") and not useless:
                yield dataclasses.replace(plan, schedule=name)


def _moved_cuts(space: Space, plan: ParallelPlan) -> Iterator[ParallelPlan]:
    """Each boundary one unit to either side."""
    if space.options.stages:
        return
    units = space.tables.units
    for number, (left, right) in enumerate(zip(plan.stages, plan.stages[1:])):
        at = units.index(right.start)
        for target in (units[at - 1], units[at + 1]):
            if left.start < target < right.stop:
                stages = list(plan.stages)
                stages[number] = dataclasses.replace(left, stop=target)
                stages[number + 1] = dataclasses.replace(right, start=target)
                yield dataclasses.replace(plan, stages=tuple(stages))


def _moved_shares(space: Space, plan: ParallelPlan) -> Iterator[ParallelPlan]:
    """One sample of a micro-batch from a replica to one on other devices."""
    alike = [tuple(space.model(stage.replicas[r][0]) for stage in plan.stages) for r in range(plan.num_replicas)]
    if len(set(alike)) < 2:
        return
    samples = [round(plan.samples(r)) for r in range(plan.num_replicas)]
    first: dict[tuple[object, int], int] = {}
    for replica, key in enumerate(zip(alike, samples)):
        first.setdefault(key, replica)
    for giver, taker in itertools.permutations(first.values(), 2):
        if samples[giver] > 1 and alike[giver] != alike[taker]:
            changed = list(samples)
            changed[giver] -= 1
            changed[taker] += 1
            yield dataclasses.replace(plan, shares=simplest(changed))


def _interleaved(space: Space, plan: ParallelPlan) -> Iterator[ParallelPlan]:
    """Several stages on each device, where all devices are alike."""
    kinds = {space.model(replica[0]) for stage in plan.stages for replica in stage.replicas}
    parts = {stage.tensor_parallel for stage in plan.stages}
    if len(kinds) > 1 or len(parts) > 1 or plan.shares or space.options.stages:
        return
    kind = next(iter(kinds))
    samples = round(plan.samples(0))
    table = space.table(kind, Setting(samples, next(iter(parts)), plan.recompute, plan.sequence_parallel))
    for chunks in (2, 3, 4):
        count = chunks * plan.rows
        if count > space.tables.count:
            return
        memory = [np.zeros_like(table.work)]
        row = RowKind(count, table.work, memory, math.inf, np.zeros(space.tables.count + 1))
        sends = [0.0] * (space.tables.count + 1)
        cut = cut_stages([row], sends, plan.micro_batches, count, exactly=True)[0]
        blocks = [space.tables.units[at] for at in cut.boundaries]
        stages = tuple(
            StagePlan(start, stop, plan.stages[number % plan.rows].replicas)
            for number, (start, stop) in enumerate(zip(blocks, blocks[1:]))
        )
        yield dataclasses.replace(plan, stages=stages, schedule="interleaved")
