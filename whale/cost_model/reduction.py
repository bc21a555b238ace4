"""Gradients that the replicas of a plan add up at the end of a step.

A runtime that overlaps reduces gradients one after the other as the last backward pass makes them, those of the last
block first. What the first blocks hold, such as an embedding, is made last, so that nothing hides its reduction.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Sequence

from whale.cluster import Device
from whale.cost_model.block import Block, Chain
from whale.cost_model.collectives import all_reduce_seconds
from whale.cost_model.memory import gradient_bytes
from whale.cost_model.plan import ParallelPlan
from whale.cost_model.runtimes import element_bytes
from whale.cost_model.timing import Share
from whale.cost_model.topology import Topology
from whale.cost_model.world import World
from whale.ir.program import Phase


@dataclasses.dataclass(frozen=True, eq=False)
class Reduction:
    """The reductions of one plan, by rows of its pipeline."""

    chain: Chain
    plan: ParallelPlan
    world: World
    members: Sequence[Sequence[Sequence[Device]]]
    """The devices of each replica of each stage."""

    @functools.cached_property
    def _topology(self) -> Topology:
        return self.world.used_by(self.plan.devices).topology

    @functools.cached_property
    def _rows(self) -> list[list[Block]]:
        """The blocks of each row."""
        stages, rows = self.plan.stages, self.plan.rows
        return [
            [block for stage in stages[row::rows] for block in self.chain.blocks[stage.start : stage.stop]]
            for row in range(rows)
        ]

    def _tensors(self, row: int) -> int:
        return sum(p.trainable for block in self._rows[row] for p in block.parameters)

    def _bytes(self, row: int, blocks: Sequence[Block]) -> float:
        parts = self.plan.stages[row].tensor_parallel
        return gradient_bytes(blocks, parts, self.plan.precision, self.world.runtime)

    def seconds(self, row: int) -> float:
        """Transfers of a row's gradients over the replicas, and of those of tables that several rows read."""
        seconds = 0.0
        if self.plan.num_replicas > 1:
            group = [replica[0] for replica in self.members[row]]
            seconds += all_reduce_seconds(self._topology, group, self._bytes(row, self._rows[row]))
            if not self.world.runtime.packs:
                seconds += (self._tensors(row) - 1) * all_reduce_seconds(self._topology, group, 1)
        return seconds + self._shared(row)

    def handling(self, row: int) -> float:
        """What the runtime needs beside the transfers for so many gradients: to agree on them and to copy them."""
        if self.plan.num_replicas < 2:
            return 0.0
        machines = {self._topology.machine(replica[0]) for replica in self.members[row]}
        name = f"communication/{self.world.runtime.communication}/"
        name += "network_tensor_seconds" if len(machines) > 1 else "tensor_seconds"
        return self._tensors(row) * self.world.coefficients.get(name, "tensor_seconds")

    def exposed(self, row: int, seconds: float, backward: float) -> float:
        """What is left of a reduction when the backward pass has ended.

        Within a block gradients are made evenly. From any place on, what is left to reduce takes its time, however
        early the rest was done.

        Args:
            row: of the pipeline.
            seconds: what all of the reduction takes.
            backward: seconds of the last backward pass, as far as a reduction can run beside it.
        """
        if not seconds or not backward:
            return seconds
        stage = self.plan.stages[row]
        blocks = self.chain.blocks[stage.start : stage.stop]
        times, model = self.world.times(self.plan), self.members[row][0][0].model
        share = Share(self.plan.samples(0), stage.tensor_parallel)
        sizes, before, count = [0.0], [0.0], 0
        for _, run in itertools.groupby(blocks, key=id):
            same = list(run)
            count += len(same)
            # A table that two blocks read has its gradient when the first of them has run its backward pass.
            sizes.append(self._bytes(row, blocks[:count]))
            own = times.block_pass(same[0], Phase.BACKWARD, model, share).seconds
            before.append(before[-1] + len(same) * own)
        whole, time = sizes[-1] or 1.0, before[-1] or 1.0
        return max(size / whole * seconds - ahead / time * backward for size, ahead in zip(sizes, before))

    def _shared(self, row: int) -> float:
        """Seconds to add up the gradients of variables that several rows read."""
        parts, width = self.plan.stages[row].tensor_parallel, element_bytes(self.plan.precision)
        seconds = 0.0
        sizes = {p.shared: p for block in self._rows[row] for p in block.parameters if p.shared and p.trainable}
        for name, parameter in sizes.items():
            rows = [r for r, names in enumerate(self._names) if name in names]
            if len(rows) > 1:
                size = parameter.elements / (parts if parameter.split else 1) * width
                seconds += all_reduce_seconds(self._topology, [self.members[r][0][0] for r in rows], size)
        return seconds

    @functools.cached_property
    def _names(self) -> list[frozenset[str]]:
        """The shared variables of each row."""
        return [
            frozenset(p.shared for block in dict.fromkeys(blocks) for p in block.parameters if p.shared)
            for blocks in self._rows
        ]
