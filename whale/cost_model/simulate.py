"""A training step as discrete events over devices and links.

Each replica's pipeline runs its schedule: a task begins when its device is free and what it needs has arrived; a
transfer occupies its link. Then the replicas of each stage reduce their gradients, as far as the runtime overlaps that
with the last backward pass, and update.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from whale.cluster import Device
from whale.cost_model.block import Block, Chain, Recompute
from whale.cost_model.collectives import all_reduce_seconds, send_seconds
from whale.cost_model.estimate import Estimate, Event
from whale.cost_model.memory import MemoryUse, stage_memory
from whale.cost_model.plan import ParallelPlan
from whale.cost_model.reduction import Reduction
from whale.cost_model.runtimes import element_bytes
from whale.cost_model.steps import steps
from whale.cost_model.timing import Pass, Share
from whale.cost_model.transfers import Transfers
from whale.cost_model.world import World
from whale.errors import PlanError
from whale.ir.program import Phase


def simulate(chain: Chain, plan: ParallelPlan, world: World, *, timeline: bool = True) -> Estimate:
    """Runs one step of a plan on paper.

    Args:
        chain: the model.
        plan: where its blocks run.
        world: cluster, runtime and what is known of both.
        timeline: whether to keep the events.

    Raises:
        PlanError: the plan has other blocks than the model.
        ClusterError: a device of the plan does not exist or is unknown to the catalogue, or a link it needs is down.
    """
    if plan.stages[-1].stop != len(chain.blocks):
        raise PlanError(f"a plan for {plan.stages[-1].stop} blocks, and the model has {len(chain.blocks)}")
    return _Simulation(chain, plan, world, timeline).run()


@dataclasses.dataclass(frozen=True)
class StageTimes:
    """One stage of one replica."""

    forward: float
    """Seconds of one micro-batch, exchanges within the tensor-parallel group included."""
    backward: float
    update: float
    """Seconds of the update, once a step."""


class _Simulation:
    def __init__(self, chain: Chain, plan: ParallelPlan, world: World, timeline: bool) -> None:
        self.chain = chain
        self.plan = plan
        self.world = world
        self.topology = world.used_by(plan.devices).topology
        self.times = world.times(plan)
        self.events: list[Event] | None = [] if timeline else None
        self.members = [[[self.topology.device(d) for d in r] for r in stage.replicas] for stage in plan.stages]
        self.width = element_bytes(plan.precision)
        self.reduction = Reduction(chain, plan, world, self.members)

    def run(self) -> Estimate:
        replicas = self._kinds_of_replicas()
        ends: dict[int, list[float]] = {}
        busy_most, bubble = 0.0, 0.0
        stages: dict[int, list[StageTimes]] = {}
        for replica in replicas:
            stages[replica] = [self._stage(n, replica) for n in range(len(self.plan.stages))]
            ends[replica], busy = self._pipeline(replica, stages[replica])
            makespan = max(ends[replica])
            busy_most = max(busy_most, max(busy))
            if makespan > 0:
                bubble = max(bubble, 1 - sum(busy) / (makespan * len(busy)))
        step, reduce_seconds = self._finish(ends, stages)
        overhead = self.world.coefficients.get(f"runtime/{self.world.runtime.execution}/step")
        memory, limits = self._memory(replicas)
        events = tuple(sorted(self.events or (), key=lambda e: (e.start, e.end, e.kind, e.stage)))
        return Estimate(step + overhead, max(bubble, 0.0), busy_most, reduce_seconds, memory, limits, events)

    # -- what is equal is simulated once -----------------------------------------------------------------------

    def _kinds_of_replicas(self) -> dict[int, list[int]]:
        """The first of each set of replicas with equal devices, links and shares, with all of the set."""
        found: dict[tuple[object, ...], list[int]] = {}
        for replica in range(self.plan.num_replicas):
            groups = [stage[replica] for stage in self.members]
            models = tuple(tuple((d.model, d.memory_bytes) for d in group) for group in groups)
            inside = tuple(len({self.topology.machine(d) for d in group}) for group in groups)
            rings = tuple(self.topology.inside(g).bytes_per_second if n == 1 else 0 for g, n in zip(groups, inside))
            crossing = tuple(
                self.topology.machine(a[0]) == self.topology.machine(b[0]) for a, b in zip(groups, groups[1:])
            )
            machines = tuple(self.topology.machine(g[0]) for g in groups) if not self._uniform else ()
            key = (self.plan.samples(replica), models, inside, rings, crossing, machines)
            found.setdefault(key, []).append(replica)
        return {replicas[0]: replicas for replicas in found.values()}

    @functools.cached_property
    def _uniform(self) -> bool:
        """Whether one network joins all hosts."""
        networks = [link for link in self.world.cluster.links if len(link.hosts) > 1]
        return len(networks) <= 1

    # -- one replica -------------------------------------------------------------------------------------------

    def _stage(self, number: int, replica: int) -> StageTimes:
        stage = self.plan.stages[number]
        blocks = self.chain.blocks[stage.start : stage.stop]
        group = self.members[number][replica]
        samples, parts = self.plan.samples(replica), len(group)
        counts: dict[Block, int] = {}
        for block in blocks:
            counts[block] = counts.get(block, 0) + 1
        forward, backward, update = 0.0, 0.0, 0.0
        for model in dict.fromkeys(device.model for device in group):
            sums = [Pass(0.0, 0)] * 3
            for block, count in counts.items():
                shape = Share(samples, parts, self.plan.sequence_parallel)
                passes = (
                    self.times.block_pass(block, Phase.FORWARD, model, shape),
                    self.times.backward_pass(block, model, shape, self.plan.recompute),
                    self.times.block_pass(block, Phase.UPDATE, model, shape),
                )
                sums = [s + Pass(p.seconds * count, p.kernels * count) for s, p in zip(sums, passes)]
            f, b = self._exchanges(counts, group, samples)
            again = f if self.plan.recompute is Recompute.FULL else Pass(0.0, 0)
            forward = max(forward, self.times.bound(sums[0] + f))
            backward = max(backward, self.times.bound(sums[1] + b + again))
            update = max(update, self.times.bound(sums[2]))
        return StageTimes(forward, backward, update)

    def _exchanges(self, blocks: dict[Block, int], group: Sequence[Device], samples: float) -> tuple[Pass, Pass]:
        """All-reduces within the tensor-parallel group, forward and backward."""
        if len(group) < 2:
            return Pass(0.0, 0), Pass(0.0, 0)
        result = {Phase.FORWARD: Pass(0.0, 0), Phase.BACKWARD: Pass(0.0, 0)}
        for block, count in blocks.items():
            for exchange in block.exchanges:
                size = exchange.elements.at(samples) * self.width
                seconds = all_reduce_seconds(self.topology, group, size)
                result[exchange.phase] = result[exchange.phase] + Pass(seconds * count, count)
        return result[Phase.FORWARD], result[Phase.BACKWARD]

    def _pipeline(self, replica: int, stages: Sequence[StageTimes]) -> tuple[list[float], list[float]]:
        """When each row ends its last task, and how long it was busy."""
        plan = self.plan
        if len(stages) == 1 and self.events is None:
            seconds = plan.micro_batches * (stages[0].forward + stages[0].backward)
            return [seconds], [seconds]
        meeting = self.world.runtime.sending != "beside"
        tasks = steps(plan.schedule, len(stages), plan.rows, plan.micro_batches, meeting)
        end, busy, free = [0.0] * len(tasks), [0.0] * plan.rows, [0.0] * plan.rows
        links = Transfers(tasks, end, self._sends(replica), self.world.runtime.sending == "in turn")
        for place, step in enumerate(tasks):
            times = stages[step.stage]
            duration = times.forward if step.forward else times.backward
            start = free[step.row]
            if step.own >= 0:
                start = max(start, end[step.own])
            if step.other >= 0:
                start = max(start, links.arrival(step.other))
            if meeting and step.previous >= 0 and tasks[step.previous].target >= 0:
                start = max(start, links.arrival(step.previous))
            end[place] = free[step.row] = start + duration
            busy[step.row] += duration
            kind = "forward" if step.forward else "backward"
            self._note(kind, replica, step.stage, step.micro_batch, start, end[place])
        for place, seconds in links.seconds_of.items():
            if seconds:
                step, there = tasks[place], links.arrival(place)
                self._note("send", replica, step.stage, step.micro_batch, there - seconds, there, step.target)
        return free, busy

    def _sends(self, replica: int) -> list[float]:
        """Seconds to hand one micro-batch's activations from each stage to the next."""
        samples = self.plan.samples(replica)
        result: list[float] = []
        for number, stage in enumerate(self.plan.stages[:-1]):
            here, there = self.members[number][replica], self.members[number + 1][replica]
            size = self.chain.blocks[stage.stop - 1].output.at(samples) * self.width
            # All replicas of a machine send at once.
            sharing = float(self.topology.peers(here[0]))
            if self.world.runtime.scatters:
                sharing = max(1.0, sharing / len(here))
            result.append(send_seconds(self.topology, here[0], there[0], size, sharing))
        return result

    def _note(
        self, kind: str, replica: int, stage: int, micro_batch: int, start: float, end: float, target: int | None = None
    ) -> None:
        if self.events is not None:
            devices = self.plan.stages[stage].replicas[replica]
            if target is not None:
                devices = (devices[0], self.plan.stages[target].replicas[replica][0])
            self.events.append(Event(kind, devices, stage, micro_batch, start, end))

    # -- all replicas together ---------------------------------------------------------------------------------

    def _finish(self, ends: dict[int, list[float]], stages: dict[int, list[StageTimes]]) -> tuple[float, float]:
        """When the last device has updated, and how long a reduction of gradients held it up at most."""
        step, longest = 0.0, 0.0
        overlap = self.world.coefficients.get(f"communication/{self.world.runtime.communication}/overlap")
        for row in range(self.plan.rows):
            numbers = range(row, len(self.plan.stages), self.plan.rows)
            last = max(found[row] for found in ends.values())
            seconds = self.reduction.seconds(row)
            backward = max(times[row].backward for times in stages.values())
            exposed = self.reduction.exposed(row, seconds, overlap * backward) + self.reduction.handling(row)
            update = max(sum(times[n].update for n in numbers) for times in stages.values())
            replica = next(iter(ends))
            if seconds:
                self._note("reduce", replica, row, -1, last + exposed - max(seconds, exposed), last + exposed)
            self._note("update", replica, row, -1, last + exposed, last + exposed + update)
            longest = max(longest, exposed)
            step = max(step, last + exposed + update)
        return step, longest

    def _memory(self, kinds: dict[int, list[int]]) -> tuple[dict[str, MemoryUse], dict[str, int | None]]:
        memory: dict[str, MemoryUse] = {}
        limits: dict[str, int | None] = {}
        for first, replicas in kinds.items():
            for row in range(self.plan.rows):
                use = stage_memory(self.chain, self.plan, row, first, self.world.runtime, self.world.coefficients)
                for replica in replicas:
                    for device in self.members[row][replica]:
                        memory[device.name] = use
                        limits[device.name] = device.memory_bytes
        return memory, limits
