"""What the cost model says of a case."""

from __future__ import annotations

import dataclasses
import functools

from benchmarks.cost_cases import Case
from benchmarks.graphs.chains import chain
from whale.cost_model import (
    Chain,
    Coefficients,
    ParallelPlan,
    Recompute,
    World,
    all_reduce_seconds,
    runtime,
    simulate,
    stage_memory,
)


@dataclasses.dataclass(frozen=True)
class Predictor:
    """The model of the world under test."""

    coefficients: Coefficients

    def predict(self, case: Case) -> float:
        """The quantity of a case, in its unit."""
        world = self._world(case)
        plan = case.plan
        assert plan is not None
        if case.quantity == "collective":
            group = [world.topology.device(name) for name in plan.devices]
            return all_reduce_seconds(world.topology, group, case.size)
        assert case.model is not None
        blocks = chain(case.model, world.runtime.fusion)
        if case.quantity == "block":
            return self._block(blocks, plan, world)
        if case.quantity in ("seconds", "flops"):
            return simulate(blocks, plan, world, timeline=False).step_seconds
        if case.quantity == "out of memory":
            return float(simulate(blocks, plan, world, timeline=False).fits)
        return self._memory(case, blocks, plan, world)

    @functools.cached_property
    def _worlds(self) -> dict[tuple[int, str], World]:
        return {}

    def _world(self, case: Case) -> World:
        key = (id(case.setup.cluster), case.setup.runtime)
        found = self._worlds.get(key)
        if found is None or found.cluster is not case.setup.cluster:
            found = World(case.setup.cluster, runtime(case.setup.runtime), coefficients=self.coefficients)
            self._worlds[key] = found
        return found

    def _block(self, blocks: Chain, plan: ParallelPlan, world: World) -> float:
        """Forward and backward of one layer, with its exchanges."""
        start, _ = max(blocks.runs(), key=lambda run: run[1])
        alone = dataclasses.replace(blocks, blocks=(blocks.blocks[start],))
        stage = dataclasses.replace(plan.stages[0], start=0, stop=1)
        once = dataclasses.replace(plan, stages=(stage,))
        return simulate(alone, once, world, timeline=False).compute_seconds

    def _memory(self, case: Case, blocks: Chain, plan: ParallelPlan, world: World) -> float:
        uses = [stage_memory(blocks, plan, row, 0, world.runtime, self.coefficients) for row in range(plan.rows)]
        if case.quantity == "state bytes":
            return sum(u.parameters + u.gradients + u.slots for u in uses) / len(uses)
        if case.quantity == "activation bytes":
            return uses[0].activations
        if case.quantity == "activation ratio":
            plain = dataclasses.replace(plan, recompute=Recompute.NONE, sequence_parallel=False)
            base = stage_memory(blocks, plain, 0, 0, world.runtime, self.coefficients)
            return uses[0].activations / base.activations
        return max(u.total for u in uses)
