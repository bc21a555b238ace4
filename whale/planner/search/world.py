"""Plans judged by simulation, long ones by a few of their micro-batches."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable

from whale.cost_model import Chain, Estimate, ParallelPlan, World, simulate

_LONG = 20_000
"""Tasks of a step that is simulated as a whole."""

_TIMES = (2, 3)
"""Micro-batches of the two short steps that stand for a long one, as multiples of the stages."""


def _is_long(plan: ParallelPlan) -> bool:
    stages = len(plan.stages)
    full = plan.schedule != "gpipe" and plan.micro_batches > _TIMES[1] * stages
    return full and 2 * stages * plan.micro_batches > _LONG


def _shortened(plan: ParallelPlan, micro_batches: int) -> ParallelPlan:
    """The same plan with fewer micro-batches of the same size."""
    batch = plan.global_batch // plan.micro_batches * micro_batches
    return dataclasses.replace(plan, micro_batches=micro_batches, global_batch=batch)


class Judge:
    """Simulates plans of one model in one world, each at most once."""

    def __init__(self, chain: Chain, world: World) -> None:
        self.chain = chain
        self.world = world
        self.count = 0
        """Plans that were simulated."""
        self.seconds = 0.0
        """Time that took."""
        self._estimates: dict[ParallelPlan, Estimate] = {}

    def seen_by(self, devices: Iterable[str]) -> World:
        """The world as a plan on these devices sees it."""
        return self.world.used_by(devices)

    def estimate(self, plan: ParallelPlan) -> Estimate:
        """What a plan costs.

        Raises:
            ClusterError: a link that it needs is down.
        """
        found = self._estimates.get(plan)
        if found is None:
            self.count += 1
            began = time.perf_counter()
            found = self._extended(plan) if _is_long(plan) else self.whole_step(plan)
            self.seconds += time.perf_counter() - began
            self._estimates[plan] = found
        return found

    def whole_step(self, plan: ParallelPlan) -> Estimate:
        """A simulation of all micro-batches. Raises ClusterError for a link that is down."""
        return simulate(self.chain, plan, self.world, timeline=False)

    def _extended(self, plan: ParallelPlan) -> Estimate:
        """A long step from two short ones: once the pipeline is full, each further micro-batch takes the same time."""
        few, more = (len(plan.stages) * times for times in _TIMES)
        short, longer = (self.whole_step(_shortened(plan, count)) for count in (few, more))
        left = plan.micro_batches - more

        def grown(first: float, second: float) -> float:
            return second + (second - first) / (more - few) * left

        step = grown(short.step_seconds, longer.step_seconds)
        busy = grown(short.compute_seconds, longer.compute_seconds)
        idle = grown(short.bubble * short.step_seconds, longer.bubble * longer.step_seconds)
        return dataclasses.replace(longer, step_seconds=step, compute_seconds=busy, bubble=idle / step if step else 0.0)
