"""Blocks of space moved into the batch dim and back, as around a dilated convolution.

``SpaceToBatchND`` makes ``[B, height, width]`` into ``[blocks * B, height / b, width / b]``: every block holds the
whole batch, in its order. A cut of the batch stays one; it repeats once more for each block.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from whale.ir import dims as D
from whale.ir.dims import Dim
from whale.ir.placement import PARTIAL, REPLICATED, Placement, Sharded
from whale.sharding.call import Call, is_partial
from whale.sharding.facts import Decision, Decline, Want

Rule = Callable[[Call], Decision]


def space_to_batch(call: Call) -> Decision:
    """SpaceToBatch and SpaceToBatchND: every block has a batch of its own, one after the other."""
    block, amounts = _block(call), _amounts(call)
    dims: list[Dim | None] | None = None
    if call.ins[0].dims is not None and block is not None:
        dims = list(call.ins[0].dims)
        dims[0] = _times(dims[0], math.prod(block))
        for at, (size, padding) in enumerate(zip(block, amounts or [None] * len(block)), 1):
            dims[at] = _divided(_plus(dims[at], padding), size)

    def moved(cut: Sharded, blocks: int) -> Sharded:
        return dataclasses.replace(cut, outer=D.multiply(cut.outer, blocks))

    return _decide(call, block, dims, moved)


def batch_to_space(call: Call) -> Decision:
    """BatchToSpace and BatchToSpaceND: each block's batch goes back into space."""
    block, amounts = _block(call), _amounts(call)
    dims: list[Dim | None] | None = None
    if call.ins[0].dims is not None and block is not None:
        dims = list(call.ins[0].dims)
        dims[0] = _divided(dims[0], math.prod(block))
        for at, (size, crop) in enumerate(zip(block, amounts or [None] * len(block)), 1):
            dims[at] = _plus(_times(dims[at], size), None if crop is None else -crop)

    def moved(cut: Sharded, blocks: int) -> Sharded:
        outer = D.divide(cut.outer, blocks)
        if outer is None:
            raise Decline("takes blocks of space out of the samples of one batch")
        return dataclasses.replace(cut, outer=outer)

    return _decide(call, block, dims, moved)


def _decide(
    call: Call, block: list[int] | None, dims: list[Dim | None] | None, moved: Callable[[Sharded, int], Sharded]
) -> Decision:
    """The op on pieces of dim 0, or of dims behind those of space; ``moved`` is what becomes of a cut of dim 0."""
    fact = call.ins[0]
    rest: list[Want] = [REPLICATED] * (len(call.ins) - 1)
    cut = fact.sharded
    if cut is None:
        placement: Placement = PARTIAL if is_partial(fact) else REPLICATED
        return call.decide([None if is_partial(fact) else REPLICATED, *rest], call.fact(placement, dims))
    if block is None:
        raise Decline("the sizes of its blocks are not known before the run")
    if 0 < cut.dim <= len(block):
        raise Decline("the batch is a dim of space")
    at = moved(cut, math.prod(block)) if cut.dim == 0 else cut
    return call.decide([None, *rest], call.fact(at, dims))


def _block(call: Call) -> list[int] | None:
    """Sizes of a block, one per dim of space; None where they are not constant."""
    size = call.attr("block_size")
    if size is not None:
        return [int(size)] * 2
    try:
        return call.numbers(1)
    except Decline:
        return None


def _amounts(call: Call) -> list[int] | None:
    """What each dim of space is padded or cropped by, both ends together; None where it is not constant."""
    try:
        ends = call.numbers(len(call.ins) - 1)
    except Decline:
        return None
    return [before + after for before, after in zip(ends[::2], ends[1::2])]


def _plus(size: Dim | None, amount: int | None) -> Dim | None:
    return None if size is None or amount is None else D.add(size, amount)


def _times(size: Dim | None, factor: int) -> Dim | None:
    return None if size is None else D.multiply(size, factor)


def _divided(size: Dim | None, divisor: int) -> Dim | None:
    return None if size is None else D.divide(size, divisor)


RULES: dict[str, Rule] = {
    "SpaceToBatch": space_to_batch,
    "SpaceToBatchND": space_to_batch,
    "BatchToSpace": batch_to_space,
    "BatchToSpaceND": batch_to_space,
}
