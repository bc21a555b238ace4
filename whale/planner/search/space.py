"""What all proposals of plans need: the model in units, the devices by kind, tables, and how plans are put together."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from whale.cluster import Device
from whale.cost_model import ParallelPlan, Recompute, StagePlan, Topology, all_reduce_seconds
from whale.cost_model.plan import ScheduleName
from whale.planner.search.devices import Grouping, Kind, Pool, kinds_of
from whale.planner.search.families import Family
from whale.planner.search.options import SearchOptions
from whale.planner.search.placing import Rows
from whale.planner.search.standings import Standings
from whale.planner.search.tables import Array, Setting, StageTable, Tables


@dataclasses.dataclass(frozen=True, eq=False)
class Space:
    """A search over the devices of machines that are joined with each other."""

    tables: Tables
    options: SearchOptions
    pools: tuple[Pool, ...]
    grouping: Grouping
    standings: Standings

    @property
    def topology(self) -> Topology:
        """The links of the whole cluster."""
        return self.grouping.topology

    @property
    def separate(self) -> bool:
        """Whether forward and backward pass have workspaces of their own."""
        return self.tables.world.runtime.separate_passes

    @functools.cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of devices."""
        return kinds_of(self.pools)

    @functools.cached_property
    def group_sizes(self) -> tuple[int, ...]:
        """Sizes of tensor-parallel groups."""
        return self.options.group_sizes(max(len(pool.devices) for pool in self.pools))

    @functools.cached_property
    def max_stages(self) -> int:
        """The most stages."""
        return min(self.tables.count, self.options.max_stages or self.tables.count)

    @functools.cached_property
    def overlap(self) -> float:
        """What part of the last backward pass hides a reduction of gradients."""
        world = self.tables.world
        return world.coefficients.get(f"communication/{world.runtime.communication}/overlap")

    @functools.cached_property
    def overhead(self) -> float:
        """Seconds of a step that do not depend on the plan."""
        world = self.tables.world
        return world.coefficients.get(f"runtime/{world.runtime.execution}/step")

    def model(self, device: str) -> Kind:
        """The kind of a device."""
        found = self.topology.device(device)
        return Kind(found.model, found.memory_bytes or 0)

    def pools_of(self, kind: Kind) -> tuple[Pool, ...]:
        """The pools of a kind, in the order in which they are used up."""
        return self._pools_of[kind]

    @functools.cached_property
    def _pools_of(self) -> dict[Kind, tuple[Pool, ...]]:
        return {kind: tuple(pool for pool in self.pools if pool.kind == kind) for kind in self.kinds}

    def groups(self, kind: Kind, parts: int) -> int:
        """How many groups of ``parts`` devices a kind has."""
        return sum(pool.capacity(parts) for pool in self.pools_of(kind))

    def sample_group(self, pool: Pool, parts: int) -> tuple[Device, ...]:
        """The devices of the first group of a pool."""
        return tuple(self.topology.device(name) for name in self.grouping.groups(pool, parts)[0])

    def table(self, kind: Kind, setting: Setting) -> StageTable:
        """The costs of stages on a kind."""
        pool = next(pool for pool in self.pools_of(kind) if pool.capacity(setting.parts))
        return self.pool_table(pool, setting)

    def pool_table(self, pool: Pool, setting: Setting) -> StageTable:
        """The costs of stages on a pool."""
        group = self.sample_group(pool, setting.parts)
        return self.tables.table(pool.kind.model, setting, group, self.topology)

    @functools.lru_cache(maxsize=1 << 16)  # noqa: B019 - lives as long as one search
    def whole_seconds(self, kind: Kind, setting: Setting) -> float:
        """Forward and backward pass of a micro-batch through the whole model on one group of a kind."""
        pool = next(pool for pool in self.pools_of(kind) if pool.capacity(setting.parts))
        group = self.sample_group(pool, setting.parts)
        return self.tables.whole(kind.model, setting, group, self.topology)

    def heads(self, kind: Kind, parts: int) -> list[Device]:
        """The first device of each group of a kind."""
        groups = (group for pool in self.pools_of(kind) for group in self.grouping.groups(pool, parts))
        return [self.topology.device(group[0]) for group in groups]

    def reduction(self, kind: Kind, parts: int, replicas: int, size: float) -> float:
        """Seconds to reduce so many bytes over replicas of a stage on one kind, without others at the same time."""
        start, rate = self._reduction_line(kind, parts, replicas)
        return start + rate * size if size > 0 else 0.0

    def reductions(self, kind: Kind, parts: int, replicas: int, sizes: Array) -> Array:
        """The same for many sizes; zero where the kind has not so many groups."""
        if replicas < 2 or self.groups(kind, parts) < replicas:
            return np.zeros_like(sizes)
        start, rate = self._reduction_line(kind, parts, replicas)
        return np.where(sizes > 0, start + rate * sizes, 0.0)

    @functools.lru_cache(maxsize=1024)  # noqa: B019 - lives as long as one search
    def _reduction_line(self, kind: Kind, parts: int, replicas: int) -> tuple[float, float]:
        """(start, seconds a byte): an all-reduce is linear in its size."""
        members = self.heads(kind, parts)[:replicas]
        small, large = (all_reduce_seconds(self.topology, members, size, 1.0) for size in (1.0, 1e9))
        return small, (large - small) / 1e9

    @functools.lru_cache(maxsize=1 << 16)  # noqa: B019 - lives as long as one search
    def stage_seconds(self, kind: Kind, setting: Setting, cuts: tuple[int, ...]) -> list[float]:
        """Forward and backward pass of a micro-batch through stages that all are on one kind."""
        pool = next(pool for pool in self.pools_of(kind) if pool.capacity(setting.parts))
        group = self.sample_group(pool, setting.parts)
        return self.tables.work(kind.model, setting, group, self.topology, cuts).tolist()

    def variants(self, parts: int) -> Iterator[tuple[Recompute, bool]]:
        """(recomputation, sequence parallelism) to look at. Sequence parallelism takes less time and memory if any."""
        for recompute in self.options.recompute:
            yield recompute, parts > 1 and self.options.sequence_parallel

    def executable(self, family: Family) -> bool:
        """Whether the rewriter can emit the plans of a family."""
        staged = not family.pipeline or bool(self.options.stages)
        return staged and not family.tensor and not family.recompute

    def limit(self, family: Family) -> float:
        """Plans of a family whose bound is not below this need no look."""
        return self.standings.limit(family, self.executable(family))

    def to_beat(self, family: Family) -> float:
        """The step that a plan of a family has to beat."""
        return self.standings.to_beat(self.executable(family))

    @functools.cached_property
    def schedule(self) -> ScheduleName:
        """The schedule that proposals have; others are tried on the best of them."""
        allowed = set(self.options.schedules)
        if "one_f_one_b" not in allowed and "prefer_backward_optimizer" in allowed:
            return "prefer_backward_optimizer"
        return "gpipe" if allowed == {"gpipe"} else "one_f_one_b"

    def live(self, micro_batches: int, behind: int) -> int:
        """How many micro-batches a stage holds with so many stages behind it."""
        if self.schedule == "gpipe":
            return micro_batches
        more = 1 if self.schedule == "prefer_backward_optimizer" and behind else 0
        return min(micro_batches, behind + 1 + more)

    def memory(self, table: StageTable, micro_batches: int, stages: int) -> list[Array]:
        """Bytes of each stage with 0, 1, 2, ... stages behind it; the last entry stands for all further numbers."""
        found: list[Array] = []
        for behind in range(min(stages, micro_batches)):  # with more behind it a stage holds all
            found.append(table.need(self.live(micro_batches, behind), micro_batches, self.separate))
        return found

    def plan(
        self,
        boundaries: Sequence[int],
        rows: Rows,
        micro_batches: int,
        variant: tuple[Recompute, bool],
        shares: Sequence[int] = (),
        schedule: ScheduleName | None = None,
    ) -> ParallelPlan:
        """A plan from boundaries of units and devices; stages beyond the rows go over the rows again."""
        blocks = [self.tables.units[at] for at in boundaries]
        stages = tuple(
            StagePlan(start, stop, rows[number % len(rows)])
            for number, (start, stop) in enumerate(zip(blocks, blocks[1:]))
        )
        return ParallelPlan(
            stages,
            global_batch=self.options.global_batch,
            micro_batches=micro_batches,
            shares=simplest(shares),
            schedule=schedule or self.schedule,
            recompute=variant[0],
            sequence_parallel=variant[1],
            precision=self.options.precision,
        )


def simplest(shares: Sequence[int]) -> tuple[int, ...]:
    """Shares in lowest terms; none where all are equal."""
    if len(set(shares)) < 2:
        return ()
    divisor = math.gcd(*shares)
    return tuple(share // divisor for share in shares)
