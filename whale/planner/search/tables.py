"""Costs of every run of units on one kind of device, as arrays: what the searches over cuts look up.

Legend: i, j boundaries of units from 0 to n; an entry [i, j] is that of the stage from unit i up to unit j, and what is
no stage (j <= i) is endless. Seconds and bytes are of one micro-batch on each device of a tensor-parallel group.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from whale.cluster import Device
from whale.cost_model import (
    Block,
    BlockTimes,
    Chain,
    MemoryUse,
    ParallelPlan,
    Pass,
    Recompute,
    Share,
    StagePlan,
    Topology,
    World,
    all_reduce_seconds,
    stage_memory,
    state_bytes,
)
from whale.cost_model.runtimes import Precision, element_bytes
from whale.cost_model.timing import ROUNDING, block_times
from whale.ir.program import Phase

Array = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Setting:
    """How a stage runs."""

    samples: int
    """Of a micro-batch."""
    parts: int = 1
    """Devices of a tensor-parallel group."""
    recompute: Recompute = Recompute.NONE
    sequence_parallel: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class StageTable:
    """Every stage of one kind of device under one setting."""

    forward: Array
    backward: Array
    update: Array
    state: Array
    """Bytes of parameters, gradients and optimizer state."""
    held: Array
    """Bytes of activations of one micro-batch."""
    transient: Array
    """Bytes of the largest op's tensors, and of what is recomputed."""
    gradient: Array
    """Bytes of gradients that replicas reduce."""
    fixed: float
    """Bytes of the framework."""

    @functools.cached_property
    def work(self) -> Array:
        """Seconds of forward and backward pass."""
        return self.forward + self.backward

    def need(self, live: int, micro_batches: int, separate: bool) -> Array:
        """Bytes of each stage that holds ``live`` micro-batches."""
        doubled = 2.0 if separate and micro_batches > 1 else 1.0
        return self.state + live * self.held + doubled * self.transient + self.fixed


class Tables:
    """Makes tables, each once."""

    def __init__(self, chain: Chain, units: Sequence[int], world: World, precision: Precision) -> None:
        self.chain = chain
        self.units = tuple(units)
        self.count = len(units) - 1
        self.world = world
        self.precision: Precision = precision
        self.times: BlockTimes = block_times(world.runtime, precision, world.catalogue, world.coefficients)
        self.width = element_bytes(precision)
        self._tables: dict[tuple[str, Setting, float], StageTable] = {}
        self._work: dict[tuple[str, Setting, float], tuple[Array, Array, Array]] = {}
        self._memory: dict[Setting, tuple[Array, Array, float]] = {}
        self._states: dict[int, tuple[Array, Array]] = {}
        self._wholes: dict[tuple[str, Setting, float], float] = {}

    def output_bytes(self, boundary: int, samples: int) -> float:
        """Bytes of activations that cross a boundary of units, for a micro-batch."""
        return self.chain.blocks[self.units[boundary] - 1].output.at(samples) * self.width

    def table(self, model: str, setting: Setting, group: Sequence[Device], topology: Topology) -> StageTable:
        """The costs of all stages on groups like ``group`` of a device model."""
        speed = self._group_speed(group, topology)
        key = (model, setting, speed)
        found = self._tables.get(key)
        if found is None:
            found = self._tables[key] = self._make(model, setting, group, topology, speed)
        return found

    def whole(self, model: str, setting: Setting, group: Sequence[Device], topology: Topology) -> float:
        """Forward and backward seconds of the whole model, without the table of its stages."""
        key = (model, setting, self._group_speed(group, topology))
        found = self._wholes.get(key)
        if found is None:
            found = self._wholes[key] = float(self.work(model, setting, group, topology, (0, self.count))[0])
        return found

    def work(
        self, model: str, setting: Setting, group: Sequence[Device], topology: Topology, cuts: Sequence[int]
    ) -> Array:
        """Forward and backward seconds of some stages in a row, without the table of all.

        Between 1, 2, 3, 4, 6, 8, 12, ... samples they are interpolated: shares ask for many numbers, and the time of a
        kernel is linear but for one corner. Plans are judged without this.
        """
        forward, backward = self._between(model, setting, group, topology)
        dispatch = self.times.dispatch_seconds
        return sum(
            (_bound(np.add.reduceat(part, cuts[:-1], axis=0), dispatch) for part in (forward, backward)),
            np.zeros(len(cuts) - 1),
        )

    def _between(
        self, model: str, setting: Setting, group: Sequence[Device], topology: Topology
    ) -> tuple[Array, Array]:
        """(seconds, kernels) of the forward and backward passes of each unit."""
        low, high = _grid(setting.samples)
        forward, backward, _ = self._unit_work(model, dataclasses.replace(setting, samples=low), group, topology)
        if low == high:
            return forward, backward
        more = self._unit_work(model, dataclasses.replace(setting, samples=high), group, topology)
        part = (setting.samples - low) / (high - low)
        return forward + part * (more[0] - forward), backward + part * (more[1] - backward)

    def gradient_bytes(self, parts: int) -> float:
        """Bytes of all gradients on each device of a group."""
        return float(self._state(parts)[1][0, self.count])

    def need(self, setting: Setting, cuts: Sequence[int], live: Sequence[int], doubled: bool) -> Array:
        """Bytes of some stages in a row that hold so many micro-batches each."""
        low, high = _grid(setting.samples)
        held, transient, fixed = self._unit_memory(dataclasses.replace(setting, samples=low))
        if low < high:
            more = self._unit_memory(dataclasses.replace(setting, samples=high))
            part = (setting.samples - low) / (high - low)
            held, transient = held + part * (more[0] - held), transient + part * (more[1] - transient)
        state = self._state(setting.parts)[0][cuts[:-1], cuts[1:]]
        kept = np.asarray(live, dtype=np.float64) * np.add.reduceat(held, cuts[:-1])
        moment = np.maximum.reduceat(transient, cuts[:-1]) * (2.0 if doubled else 1.0)
        return state + kept + moment + fixed

    def _group_speed(self, group: Sequence[Device], topology: Topology) -> float:
        return topology.inside(group).bytes_per_second if len(group) > 1 else 0.0

    # -- tables ------------------------------------------------------------------------------------------------

    def _make(
        self, model: str, setting: Setting, group: Sequence[Device], topology: Topology, speed: float
    ) -> StageTable:
        del speed  # part of the key alone
        dispatch = self.times.dispatch_seconds
        forward, backward, update = (
            _bound(_ranges(part), dispatch) for part in self._unit_work(model, setting, group, topology)
        )
        held, transient, fixed = self._unit_memory(setting)
        state, gradient = self._state(setting.parts)
        empty = np.tril(np.ones((self.count + 1, self.count + 1), dtype=bool))[: self.count]
        for part in (forward, backward, update):
            part[empty] = np.inf
        return StageTable(forward, backward, update, state, _ranges(held), _range_max(transient), gradient, fixed)

    def _unit_work(
        self, model: str, setting: Setting, group: Sequence[Device], topology: Topology
    ) -> tuple[Array, Array, Array]:
        """(seconds, kernels) of the passes of each unit."""
        key = (model, setting, self._group_speed(group, topology))
        found = self._work.get(key)
        if found is not None:
            return found
        share = Share(setting.samples, setting.parts, setting.sequence_parallel)
        by_block: dict[int, tuple[Pass, Pass, Pass]] = {}
        rows: list[tuple[Pass, Pass, Pass]] = []
        for start, stop in zip(self.units, self.units[1:]):
            sums = (Pass(0.0, 0), Pass(0.0, 0), Pass(0.0, 0))
            for block in self.chain.blocks[start:stop]:
                one = by_block.get(id(block))
                if one is None:
                    one = by_block[id(block)] = self._block_work(block, model, share, setting, group, topology)
                sums = (sums[0] + one[0], sums[1] + one[1], sums[2] + one[2])
            rows.append(sums)
        f, b, u = (np.array([[r[k].seconds, r[k].kernels] for r in rows], dtype=np.float64) for k in range(3))
        self._work[key] = (f, b, u)
        return f, b, u

    def _block_work(
        self, block: Block, model: str, share: Share, setting: Setting, group: Sequence[Device], topology: Topology
    ) -> tuple[Pass, Pass, Pass]:
        forward = self.times.block_pass(block, Phase.FORWARD, model, share)
        backward = self.times.backward_pass(block, model, share, setting.recompute)
        update = self.times.block_pass(block, Phase.UPDATE, model, share)
        if setting.parts < 2:
            return forward, backward, update
        exchanged = {Phase.FORWARD: Pass(0.0, 0), Phase.BACKWARD: Pass(0.0, 0)}
        for exchange in block.exchanges:
            size = exchange.elements.at(setting.samples) * self.width
            exchanged[exchange.phase] += Pass(all_reduce_seconds(topology, group, size), 1)
        again = exchanged[Phase.FORWARD] if setting.recompute is Recompute.FULL else Pass(0.0, 0)
        return forward + exchanged[Phase.FORWARD], backward + exchanged[Phase.BACKWARD] + again, update

    # -- memory ------------------------------------------------------------------------------------------------

    def _unit_memory(self, setting: Setting) -> tuple[Array, Array, float]:
        """(bytes held, bytes for a moment) of each unit, and the framework's."""
        found = self._memory.get(setting)
        if found is not None:
            return found
        by_block: dict[tuple[int, int], MemoryUse] = {}
        held, transient, fixed = np.zeros(self.count), np.zeros(self.count), 0.0
        for unit, (start, stop) in enumerate(zip(self.units, self.units[1:])):
            for at in range(start, stop):
                pair = self.chain.blocks[max(at - 1, 0) : at + 1]
                key = (id(pair[0]), id(pair[-1]))
                use = by_block.get(key)
                if use is None:
                    use = by_block[key] = self._block_memory(pair, setting)
                held[unit] += use.activations
                transient[unit] = max(transient[unit], use.workspace)
                fixed = use.runtime
        result = self._memory[setting] = (held, transient, fixed)
        return result

    def _block_memory(self, pair: tuple[Block, ...], setting: Setting) -> MemoryUse:
        """The memory of the last of one or two blocks, each a stage of its own."""
        stages = tuple(
            StagePlan(k, k + 1, (tuple(f"{k}/{part}" for part in range(setting.parts)),)) for k in range(len(pair))
        )
        # State is worked out elsewhere, for variables that several blocks share.
        bare = tuple(self._bare(block) for block in pair)
        plan = ParallelPlan(
            stages,
            global_batch=setting.samples,
            recompute=setting.recompute,
            sequence_parallel=setting.sequence_parallel,
            precision=self.precision,
        )
        return stage_memory(Chain(bare), plan, len(pair) - 1, 0, self.world.runtime, self.world.coefficients)

    @functools.cache  # noqa: B019 - lives as long as one search
    def _bare(self, block: Block) -> Block:
        return dataclasses.replace(block, parameters=())

    def _state(self, parts: int) -> tuple[Array, Array]:
        """(bytes of all state, bytes of gradients) of each stage; a variable of several blocks counts once."""
        found = self._states.get(parts)
        if found is not None:
            return found
        own = np.zeros((self.count, 2))
        shared: dict[str, tuple[Array, Array]] = {}
        by_block: dict[int, tuple[float, float]] = {}
        for unit, (start, stop) in enumerate(zip(self.units, self.units[1:])):
            for block in self.chain.blocks[start:stop]:
                if id(block) not in by_block:
                    by_block[id(block)] = self._state_of(block, "", parts)
                own[unit] += by_block[id(block)]
                for name in dict.fromkeys(p.shared for p in block.parameters if p.shared):
                    where, size = shared.setdefault(name, (np.zeros(self.count), np.zeros(2)))
                    where[unit] = 1.0
                    size[:] = np.maximum(size, self._state_of(block, name, parts))
        state, gradient = _ranges(own[:, 0]), _ranges(own[:, 1])
        for where, size in shared.values():
            inside = _ranges(where) > 0
            state += inside * size[0]
            gradient += inside * size[1]
        self._states[parts] = (state, gradient)
        return state, gradient

    def _state_of(self, block: Block, shared: str, parts: int) -> tuple[float, float]:
        chosen = tuple(p for p in block.parameters if p.shared == shared)
        only = dataclasses.replace(block, parameters=chosen)
        parameters, gradients, slots = state_bytes([only], parts, self.precision, self.world.runtime)
        return parameters + gradients + slots, gradients


def _grid(samples: int) -> tuple[int, int]:
    """The numbers of the form 2^k or 3 2^k around a number; itself twice where it is one."""
    low = 1 << (samples.bit_length() - 1)
    if samples == low:
        return low, low
    middle = low + low // 2
    if samples == middle:
        return middle, middle
    return (low, middle) if samples < middle else (middle, 2 * low)


def _ranges(values: Array) -> Array:
    """[i, j, ...]: the sum of the values from i up to j; zero where j <= i."""
    sums = np.concatenate([np.zeros((1, *values.shape[1:])), np.cumsum(values, axis=0)])
    return np.maximum(sums[None, :] - sums[:-1, None], 0.0)


def _range_max(values: Array) -> Array:
    """[i, j]: the largest of the values from i up to j; zero where j <= i."""
    count = len(values)
    found = np.zeros((count, count + 1))
    for i in range(count):
        found[i, i + 1 :] = np.maximum.accumulate(values[i:])
    return found


def _bound(passes: Array, dispatch: float) -> Array:
    """Seconds of passes [..., (seconds, kernels)]: the rounded maximum of both, as ``BlockTimes.bound``."""
    work, handed = passes[..., 0], passes[..., 1] * dispatch
    largest = np.maximum(work, handed)
    safe = np.where(largest > 0, largest, 1.0)
    return largest * ((work / safe) ** ROUNDING + (handed / safe) ** ROUNDING) ** (1 / ROUNDING)
