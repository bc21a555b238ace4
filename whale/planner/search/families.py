"""Families of plans: what a plan divides, how it is called, whether it can run today, and why it lost."""

from __future__ import annotations

import dataclasses
import functools

from whale.cost_model import Estimate, ParallelPlan, Recompute

ONE_DEVICE = "one device"


@dataclasses.dataclass(frozen=True, order=True)
class Family:
    """What the plans of a family have in common."""

    pipeline: bool = False
    """Several stages on devices of their own."""
    data: bool = False
    """Several replicas."""
    tensor: bool = False
    """Groups of devices divide operators."""
    unequal: bool = False
    """Replicas have unequal shares of the batch."""
    recompute: bool = False
    """Part of the forward pass is run again."""

    @property
    def name(self) -> str:
        """As a report calls it: ``data x pipeline, recomputation``."""
        data = "data (unequal shares)" if self.unequal else "data"
        ways = ((data, self.data), ("pipeline", self.pipeline), ("operator", self.tensor))
        divided = [name for name, on in ways if on]
        return (" x ".join(divided) or ONE_DEVICE) + (", recomputation" if self.recompute else "")


def family_of(plan: ParallelPlan) -> Family:
    """The family of a plan."""
    return Family(
        pipeline=plan.rows > 1,
        data=plan.num_replicas > 1,
        tensor=any(stage.tensor_parallel > 1 for stage in plan.stages),
        unequal=len(set(plan.shares)) > 1,
        recompute=plan.recompute is not Recompute.NONE,
    )


def why_not_executable(plan: ParallelPlan) -> str:
    """What the rewriter cannot emit of a plan; empty when it can emit all."""
    if any(stage.tensor_parallel > 1 for stage in plan.stages):
        return "operators divided over devices"
    if plan.recompute is not Recompute.NONE:
        return "recomputation"
    return ""


@dataclasses.dataclass(frozen=True, eq=False)
class Judged:
    """A plan and what it costs."""

    plan: ParallelPlan
    estimate: Estimate

    @functools.cached_property
    def fits(self) -> bool:
        """Whether it fits on every device whose memory is known."""
        return not self._short

    @functools.cached_property
    def _short(self) -> dict[str, float]:
        # Devices that are alike share one object, and a large cluster has few of them.
        totals = {id(use): use.total for use in self.estimate.memory.values()}
        found: dict[str, float] = {}
        for device, use in self.estimate.memory.items():
            limit = self.estimate.limits[device]
            if limit is not None and totals[id(use)] > limit:
                found[device] = totals[id(use)] - limit
        return found

    @property
    def seconds(self) -> float:
        """Of a step."""
        return self.estimate.step_seconds

    @functools.cached_property
    def shortage(self) -> float:
        """The most bytes that are missing on a device."""
        return max(self._short.values(), default=0.0)

    @functools.cached_property
    def tightest(self) -> str:
        """The device that is short of most bytes, or needs most where all fits."""
        if self._short:
            return max(self._short, key=self._short.__getitem__)
        return max(self.estimate.memory, key=lambda device: self.estimate.memory[device].total)

    @property
    def most_bytes(self) -> float:
        """Bytes that the tightest device needs."""
        return self.estimate.memory[self.tightest].total


@dataclasses.dataclass(frozen=True)
class Loser:
    """The best plan of a family that was not chosen."""

    family: Family
    judged: Judged
    """The plan and what it costs."""
    reason: str
    """Its time, or the memory that broke it."""


def why_it_lost(judged: Judged, best_seconds: float, refused: str = "") -> str:
    """A sentence: the time beside the best one's, or the device without enough memory."""
    if not judged.fits:
        device = judged.tightest
        limit = judged.estimate.limits[device] or 0
        return f"needs {gibibytes(judged.most_bytes)} on {device}, which has {gibibytes(limit)}"
    seconds = judged.estimate.step_seconds
    slower = f"{seconds:.4g} s a step, {seconds / best_seconds:.2f} times the best"
    return f"cannot run yet ({refused}): {slower}" if refused else slower


def gibibytes(size: float) -> str:
    """A memory size for people."""
    return f"{size / 2**30:.2f} GiB"
