"""What the cost model needs to know of a plan: where blocks run, and how a step is cut up in time."""

from __future__ import annotations

import dataclasses
import functools
from typing import Literal

from whale.cost_model.block import Recompute
from whale.cost_model.runtimes import PRECISIONS, Precision
from whale.errors import PlanError
from whale.ir.schedule import Schedule, live
from whale.ir.schedules import make

ScheduleName = Literal["gpipe", "one_f_one_b", "prefer_backward_optimizer", "interleaved"]


@dataclasses.dataclass(frozen=True)
class StagePlan:
    """A run of blocks and the devices that hold copies of it."""

    start: int
    """First block."""
    stop: int
    """First block that is no longer part of it."""
    replicas: tuple[tuple[str, ...], ...]
    """Device strings. For each replica its devices: several divide the stage's work among them (tensor parallelism)."""

    @property
    def tensor_parallel(self) -> int:
        """Devices of one replica."""
        return len(self.replicas[0])


@dataclasses.dataclass(frozen=True)
class ParallelPlan:
    """A training step over devices.

    Replica r of every stage makes one pipeline. Stages that name the same devices share them, as chunks of an
    interleaved schedule; otherwise no device occurs twice.
    """

    stages: tuple[StagePlan, ...]
    """In order, together all blocks of the chain."""
    global_batch: int
    """Samples of a step, over all replicas and micro-batches."""
    micro_batches: int = 1
    """Pieces that each replica's samples are cut into."""
    shares: tuple[int, ...] = ()
    """Relative share of the batch of each replica; empty for equal shares."""
    schedule: ScheduleName = "one_f_one_b"
    recompute: Recompute = Recompute.NONE
    sequence_parallel: bool = False
    """Whether what tensor parallelism leaves whole is cut along the sequence (Korthikanti et al., 2022)."""
    precision: Precision = "fp32"

    def __post_init__(self) -> None:
        """Raises PlanError for a plan that cannot be."""
        if not self.stages:
            raise PlanError("a plan without a stage")
        replicas = len(self.stages[0].replicas)
        at = 0
        for number, stage in enumerate(self.stages):
            if stage.start != at or stage.stop <= stage.start:
                raise PlanError(f"stage {number} has the blocks {stage.start} to {stage.stop}, and begins at {at}")
            at = stage.stop
            if len(stage.replicas) != replicas or not replicas:
                raise PlanError(f"stage {number} has {len(stage.replicas)} replicas, and stage 0 has {replicas}")
            if any(len(replica) != stage.tensor_parallel or not replica for replica in stage.replicas):
                raise PlanError(f"the replicas of stage {number} have unequal numbers of devices")
        if self.shares and (len(self.shares) != replicas or min(self.shares) < 0 or not any(self.shares)):
            raise PlanError(f"the shares {list(self.shares)} for {replicas} replicas", fix="give one >= 0 for each")
        if self.global_batch < 1 or self.micro_batches < 1:
            raise PlanError(f"a batch of {self.global_batch} in {self.micro_batches} micro-batches")
        if self.precision not in PRECISIONS:
            raise PlanError(f"unknown precision {self.precision!r}", fix=f"known: {', '.join(PRECISIONS)}")
        self._check_devices()

    def _check_devices(self) -> None:
        rows = self.rows
        seen: dict[str, int] = {}
        for number, stage in enumerate(self.stages):
            for device in (d for replica in stage.replicas for d in replica):
                if seen.setdefault(device, number % rows) != number % rows:
                    raise PlanError(f"device {device!r} is in stages {seen[device]} and {number}")
        for number, stage in enumerate(self.stages[rows:], rows):
            if stage.replicas != self.stages[number % rows].replicas:
                raise PlanError(f"stage {number} is not on the devices of stage {number % rows}")
        if rows < len(self.stages) and self.schedule != "interleaved":
            raise PlanError(f"stages share devices under the schedule {self.schedule!r}", fix="use 'interleaved'")

    @functools.cached_property
    def rows(self) -> int:
        """Stages with devices of their own: the pipeline's length in devices."""
        first = self.stages[0].replicas
        again = [number for number, stage in enumerate(self.stages) if number and stage.replicas == first]
        return again[0] if again else len(self.stages)

    @property
    def num_replicas(self) -> int:
        """Number of pipelines."""
        return len(self.stages[0].replicas)

    @property
    def devices(self) -> tuple[str, ...]:
        """All devices, stage by stage."""
        return tuple(d for stage in self.stages[: self.rows] for replica in stage.replicas for d in replica)

    def samples(self, replica: int) -> float:
        """Samples of one micro-batch of a replica."""
        shares = self.shares or (1,) * self.num_replicas
        return self.global_batch * shares[replica] / sum(shares) / self.micro_batches

    def order(self) -> Schedule:
        """The pipeline's schedule."""
        return _order(self.schedule, len(self.stages), self.rows, self.micro_batches)

    def short_order(self) -> Schedule:
        """A schedule with the same memory as ``order``, and not more micro-batches than show it."""
        return _short(self.schedule, len(self.stages), self.rows, self.micro_batches)

    def live(self) -> tuple[int, ...]:
        """The most micro-batches that each stage holds at once."""
        return _live(self.schedule, len(self.stages), self.rows, self.micro_batches)


@functools.lru_cache(maxsize=128)
def _order(name: ScheduleName, stages: int, rows: int, micro_batches: int) -> Schedule:
    return make(name, stages, rows, micro_batches)


@functools.lru_cache(maxsize=1024)
def _live(name: ScheduleName, stages: int, rows: int, micro_batches: int) -> tuple[int, ...]:
    return live(_short(name, stages, rows, micro_batches))


def _short(name: ScheduleName, stages: int, rows: int, micro_batches: int) -> Schedule:
    # A stage never holds more than this many micro-batches, so that longer steps hold as many as shorter ones.
    enough = min(micro_batches, 2 * stages + 2 * rows) if name != "gpipe" else micro_batches
    return _order(name, stages, rows, enough)
