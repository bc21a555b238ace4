"""Which operators of a stage are divided over its group of devices, and how.

A plan's tensor-parallel group divides every block that can be divided. Here each block of a stage chooses for itself
among a few layouts, as an integer programme:

Variables: ``x[b, l]``: block b has layout l; ``y[b, l, m]``: blocks b and b + 1 have the layouts l and m.
Minimise ``sum x[b, l] seconds[b, l] + sum y[b, l, m] change[b, l, m]``
subject to one layout for each block; ``sum_m y[b, l, m] = x[b, l]`` and ``sum_l y[b, l, m] = x[b + 1, m]``; and
``sum x[b, l] bytes[b, l] <= memory``.

Without the memory limit this is a shortest path and its linear relaxation is integral. With it, the relaxation gives
the bound that certifies what ``scipy.optimize.milp`` (HiGHS) finds. The form is Alpa's (Zheng et al., OSDI 2022), for a
chain.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from whale.errors import PlanError
from whale.planner.search.tables import Array

LAYOUTS = ("whole", "batch", "tensor")
"""Every device runs the block on all samples; on its part of the samples; on its part of the weights."""


@dataclasses.dataclass(frozen=True)
class Costs:
    """What the layouts of each block cost."""

    seconds: Sequence[Sequence[float]]
    """``[block][layout]``: forward and backward pass, with the exchanges that the layout needs."""
    bytes: Sequence[Sequence[float]]
    """``[block][layout]``: memory on each device."""
    changes: Sequence[Sequence[Sequence[float]]]
    """``[block][layout][next layout]``: seconds to bring what a block hands on into the layout of the next block."""


@dataclasses.dataclass(frozen=True)
class Sharding:
    """The layouts of a stage's blocks."""

    layouts: tuple[int, ...]
    seconds: float
    bound: float
    """Of the linear relaxation: no choice of layouts takes less."""

    @property
    def gap(self) -> float:
        """How much more it takes than the bound, as a part of it: 0 is a proof that it is the best."""
        return self.seconds / self.bound - 1 if self.bound else 0.0


def shard(costs: Costs, memory: float) -> Sharding:
    """The fastest layouts that fit.

    Args:
        costs: of each block and layout.
        memory: bytes of a device.

    Raises:
        PlanError: no choice of layouts fits; the message has the least memory that one needs.
    """
    least = sum(min(row) for row in costs.bytes)
    if least > memory:
        raise PlanError(
            f"the blocks of the stage need {least:.0f} bytes in their smallest layouts, and a device has {memory:.0f}",
            fix="give the stage more devices or fewer blocks",
        )
    programme = _programme(costs, memory)
    relaxed = _solve(programme, whole=False)
    found = _solve(programme, whole=True)
    blocks, count = len(costs.seconds), len(costs.seconds[0])
    chosen = np.asarray(found.x[: blocks * count], dtype=np.float64).reshape(blocks, count).argmax(axis=1)
    layouts = tuple(int(layout) for layout in chosen)
    return Sharding(layouts, total_seconds(costs, layouts), min(float(relaxed.fun), total_seconds(costs, layouts)))


def total_seconds(costs: Costs, layouts: Sequence[int]) -> float:
    """What a choice of layouts takes."""
    own = sum(row[layout] for row, layout in zip(costs.seconds, layouts))
    return own + sum(change[a][b] for change, a, b in zip(costs.changes, layouts, layouts[1:]))


@dataclasses.dataclass(frozen=True, eq=False)
class _Programme:
    objective: Array
    equal: Array
    """Rows of coefficients whose sum over the variables is ``target``."""
    target: Array
    weights: Array
    """Bytes of each variable."""
    memory: float
    choices: int
    """Variables from the first that are whole numbers; the others then are whole as well."""


def _programme(costs: Costs, memory: float) -> _Programme:
    blocks, count = len(costs.seconds), len(costs.seconds[0])
    choices = blocks * count
    pairs = count * count
    size = choices + (blocks - 1) * pairs
    objective, weights = np.zeros(size), np.zeros(size)
    objective[:choices] = np.asarray(costs.seconds, dtype=np.float64).ravel()
    weights[:choices] = np.asarray(costs.bytes, dtype=np.float64).ravel()
    rows: list[Array] = []
    target: list[float] = []
    for block in range(blocks):
        row = np.zeros(size)
        row[block * count : (block + 1) * count] = 1.0
        rows.append(row)
        target.append(1.0)
    for block in range(blocks - 1):
        start = choices + block * pairs
        objective[start : start + pairs] = np.asarray(costs.changes[block], dtype=np.float64).ravel()
        for layout in range(count):
            leaving, entering = np.zeros(size), np.zeros(size)
            leaving[start + layout * count : start + (layout + 1) * count] = 1.0
            leaving[block * count + layout] = -1.0
            entering[start + layout : start + pairs : count] = 1.0
            entering[(block + 1) * count + layout] = -1.0
            rows += [leaving, entering]
            target += [0.0, 0.0]
    return _Programme(objective, np.array(rows), np.array(target), weights, memory, choices)


def _solve(programme: _Programme, whole: bool) -> Any:
    # SciPy has no types, and takes long to load: plans without tensor parallelism do without it.
    optimize: Any = importlib.import_module("scipy.optimize")
    integrality = np.zeros(len(programme.objective))
    integrality[: programme.choices] = 1.0 if whole else 0.0
    scale = max(float(programme.weights.max()), 1.0)
    return optimize.milp(
        programme.objective,
        integrality=integrality,
        bounds=optimize.Bounds(0.0, 1.0),
        constraints=[
            optimize.LinearConstraint(programme.equal, programme.target, programme.target),
            optimize.LinearConstraint(programme.weights[None, :] / scale, -np.inf, programme.memory / scale),
        ],
    )
