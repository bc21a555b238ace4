"""The world as one plan sees it: only the devices that it uses share the links.

The cost model lets all devices of a machine share its network, whether a plan uses them or not. A plan would then get
slower by a device that it leaves alone. Here a machine's peers are those of the plan.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Iterable

from whale.cluster import Device
from whale.cost_model import Chain, Estimate, ParallelPlan, Topology, World, simulate


@dataclasses.dataclass(frozen=True, eq=False)
class UsedTopology(Topology):
    """A cluster of which a plan uses so many devices on each machine."""

    used: tuple[tuple[str, int], ...] = ()
    """(machine, devices of it in use)."""

    def peers(self, device: Device) -> int:
        """Devices in use on a device's machine."""
        return self._used.get(self.machine(device), 1)

    @functools.cached_property
    def _used(self) -> dict[str, int]:
        return dict(self.used)


@dataclasses.dataclass(frozen=True)
class UsedWorld(World):
    """A world whose topology is that of a plan."""

    seen: Topology | None = None
    """The links; None for those of the whole cluster."""

    @functools.cached_property
    def topology(self) -> Topology:
        """The links as this runtime and this plan use them."""
        return self.seen or super().topology


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
        self._worlds: dict[tuple[tuple[str, int], ...], UsedWorld] = {}
        self._estimates: dict[ParallelPlan, Estimate] = {}

    def seen_by(self, devices: Iterable[str]) -> UsedWorld:
        """The world as a plan on these devices sees it."""
        whole = self.world.topology
        counts: dict[str, int] = {}
        for name in devices:
            machine = whole.machine(whole.device(name))
            counts[machine] = counts.get(machine, 0) + 1
        return self.with_counts(tuple(sorted(counts.items())))

    def with_counts(self, used: tuple[tuple[str, int], ...]) -> UsedWorld:
        """The world as a plan sees it that uses so many devices of each machine."""
        found = self._worlds.get(used)
        if found is None:
            world = self.world
            whole = world.topology
            seen = UsedTopology(whole.cluster, whole.catalogue, whole.coefficients, whole.network_efficiency, used)
            found = UsedWorld(world.cluster, world.runtime, world.catalogue, world.coefficients, seen)
            self._worlds[used] = found
        return found

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
        return simulate(self.chain, plan, self.seen_by(plan.devices), timeline=False)

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
