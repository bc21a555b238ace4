"""Units: the runs of blocks that a cut never goes through.

The cost model's chain is cut at single-tensor frontiers and its repeated blocks are one object, so most models have few
enough blocks to take each as a unit. Longer chains are merged: again and again the two neighbours whose sum of work is
least, which keeps the largest unit small, and so the best cut at hand. Where a script names its stages, these are the
units.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from whale.cost_model import Chain
from whale.errors import PlanError
from whale.ir.program import Phase


def make_units(chain: Chain, limit: int, stages: Sequence[int] = ()) -> tuple[int, ...]:
    """Boundaries of units: block numbers from 0 to the chain's length.

    Args:
        chain: the model.
        limit: the most units.
        stages: the first block of each stage, where the script names them.

    Raises:
        PlanError: a stage begins behind the last block.
    """
    count = len(chain.blocks)
    if stages:
        if stages[-1] >= count:
            raise PlanError(
                f"a stage begins at block {stages[-1]}, and the model has {count} blocks",
                fix="fewer stages, or stages that each hold a layer",
            )
        return (*stages, count)
    if count <= limit:
        return tuple(range(count + 1))
    return merge([b.flops(Phase.FORWARD, 1) + b.flops(Phase.BACKWARD, 1) for b in chain.blocks], limit)


def merge(work: Sequence[float], limit: int) -> tuple[int, ...]:
    """Boundaries of at most ``limit`` runs of neighbours; merges the lightest pair first, the foremost of equals."""
    weight = list(work)
    following = list(range(1, len(weight) + 1))
    before = list(range(-1, len(weight) - 1))
    alive = [True] * len(weight)
    left = len(weight)
    heap = [(weight[i] + weight[i + 1], i, i + 1) for i in range(len(weight) - 1)]
    heapq.heapify(heap)
    while left > limit and heap:
        total, a, b = heapq.heappop(heap)
        if not (alive[a] and alive[b] and following[a] == b and weight[a] + weight[b] == total):
            continue
        weight[a], alive[b], following[a] = total, False, following[b]
        left -= 1
        if following[a] < len(weight):
            before[following[a]] = a
            heapq.heappush(heap, (weight[a] + weight[following[a]], a, following[a]))
        if before[a] >= 0:
            heapq.heappush(heap, (weight[before[a]] + weight[a], before[a], a))
    return (*(i for i in range(len(weight)) if alive[i]), len(weight))
