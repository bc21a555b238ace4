"""Tensors joined into one, and one taken apart: Pack, ConcatV2, Unpack, Split, SplitV.

Whole batches may follow each other in one dim (``concat(real, fake)``); a single batch is not taken apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from whale.ir import dims as D
from whale.ir.dims import Dim
from whale.ir.placement import PARTIAL, REPLICATED, Sharded
from whale.sharding.call import Call, is_partial, partial_or_zero
from whale.sharding.facts import Decision, Decline, Fact, Local, Value, Want

Rule = Callable[[Call], Decision]


def pack(call: Call) -> Decision:
    """Tensors of one shape stacked along a new dim."""
    facts = call.ins
    rank = next((f.rank for f in facts if f.rank is not None), None)
    if rank is None:
        return call.unranked()
    axis = call.attr("axis", 0) % (rank + 1)
    first = next(f.dims for f in facts if f.dims is not None)
    dims = (*first[:axis], len(facts), *first[axis:])
    zero = all(f.zero for f in facts)
    if any(is_partial(f) for f in facts) and all(partial_or_zero(f) for f in facts):
        return call.decide([PARTIAL] * len(facts), call.fact(PARTIAL, dims))
    cut = next((f.sharded for f in facts if f.sharded), None)
    iota = facts[0].iota if axis == rank else None
    if cut is None:
        return call.decide([REPLICATED] * len(facts), call.fact(REPLICATED, dims, zero=zero, iota=iota))
    out = cut.on(cut.dim + (axis <= cut.dim))
    return call.decide([call.piece(i, cut) for i in range(len(facts))], call.fact(out, dims, zero=zero, iota=iota))


def concat(call: Call) -> Decision:
    """ConcatV2. Along the batch, whole batches follow each other on every copy: the dim's outer count adds up."""
    facts = call.ins[:-1]
    rank = next((f.rank for f in facts if f.rank is not None), None)
    if rank is None or any(f.dims is None for f in facts):
        return call.unranked()
    if call.ins[-1].value is None and not any(f.sharded or is_partial(f) for f in facts):
        return call.whole()
    axis = call.axis(len(facts), rank)
    total: Dim = 0
    for fact in facts:
        total = D.add(total, (fact.dims or ())[axis])
    first = facts[0].dims or ()
    dims = (*first[:axis], total, *first[axis + 1 :])
    zero = all(f.zero for f in facts)
    if any(is_partial(f) for f in facts) and all(partial_or_zero(f) for f in facts):
        return call.decide([*([PARTIAL] * len(facts)), REPLICATED], call.fact(PARTIAL, dims))
    cut = next((f.sharded for f in facts if f.sharded), None)
    iota = facts[0].iota if axis == rank - 1 and axis else None
    if cut is None:
        return call.decide([REPLICATED] * len(call.ins), call.fact(REPLICATED, dims, zero=zero, iota=iota))
    if cut.dim != axis:
        wants = [call.piece(i, cut) for i in range(len(facts))]
        return call.decide([*wants, REPLICATED], call.fact(cut, dims, zero=zero, iota=iota))
    outer: Dim = 0
    for fact in facts:
        other = fact.sharded
        if other is None or other.dim != axis or other.inner != cut.inner:
            raise Decline("joins pieces of the batch with something that is not cut alike")
        if not call.batches.same(other.batch, cut.batch):
            raise Decline("joins two batches that are not known to be of one size")
        outer = D.add(outer, other.outer)
    out = Sharded(axis, cut.batch, outer, cut.inner)
    return call.decide([*([None] * len(facts)), REPLICATED], call.fact(out, dims, zero=zero))


def unpack(call: Call) -> Decision:
    """A dim taken apart."""
    fact = call.ins[0]
    if fact.dims is None:
        return call.unranked()
    axis = call.attr("axis", 0) % len(fact.dims)
    dims = tuple(d for i, d in enumerate(fact.dims) if i != axis)
    placement = fact.placement
    if isinstance(placement, Sharded):
        if placement.dim == axis:
            raise Decline("takes the batch apart into single samples")
        placement = placement.on(placement.dim - (axis < placement.dim))
    outputs = [
        call.fact(
            placement,
            dims,
            i,
            value=_unpacked(fact, axis, i) if placement == REPLICATED else None,
            zero=fact.zero,
        )
        for i in range(len(call.op.outputs))
    ]
    return call.decide([None], *outputs)


def _unpacked(fact: Fact, axis: int, index: int) -> Value | None:
    if fact.value is None or axis != 0:
        return None
    return np.asarray(fact.value[index], dtype=object)


def split(call: Call) -> Decision:
    """Split and SplitV along a dim that is not cut, or between whole batches of one that is."""
    data_at, axis_at = (1, 0) if call.op.type == "Split" else (0, 2)
    fact = call.ins[data_at]
    if fact.dims is None:
        return call.unranked()
    axis = call.axis(axis_at, len(fact.dims))
    parts = len(call.op.outputs)
    sizes: list[Dim | None]
    if call.op.type == "Split":
        sizes = [D.divide(fact.dims[axis], parts)] * parts
    else:
        sizes = list(call.ins[1].value) if call.ins[1].value is not None else [None] * parts
    placement = fact.placement
    wants: list[Want] = [None if i == data_at else REPLICATED for i in range(len(call.ins))]
    placements = [placement] * parts
    if isinstance(placement, Sharded) and placement.dim == axis:
        placements = [_batches_split(call, placement, sizes, i) for i in range(parts)]
        if call.op.type == "SplitV":
            wants[1] = Local(placement.batch, tuple(i for i, size in enumerate(sizes) if size != -1))
    outputs: list[Fact] = []
    for i, size in enumerate(sizes):
        dims: list[Dim | None] = [*fact.dims]
        dims[axis] = None if size is None or size == -1 else size
        outputs.append(call.fact(placements[i], dims, i, value=_part(fact, axis, sizes, i), zero=fact.zero))
    return call.decide(wants, *outputs)


def _part(fact: Fact, axis: int, sizes: Sequence[Dim | None], index: int) -> Value | None:
    """The value of one part of a vector that is split."""
    lengths = [size for size in sizes[: index + 1] if isinstance(size, int) and size >= 0]
    if fact.value is None or fact.placement != REPLICATED or axis or len(lengths) <= index:
        return None
    end = sum(lengths)
    return fact.value[end - lengths[index] : end]


def _batches_split(call: Call, cut: Sharded, sizes: Sequence[Dim | None], index: int) -> Sharded:
    """The cut of one part of a dim that is cut: whole batches, or it declines."""
    block = D.multiply(cut.inner, call.batches.size(cut.batch))
    counts = [None if size is None or size == -1 else D.divide(size, block) for size in sizes]
    count = counts[index]
    if sizes[index] == -1 and counts.count(None) == 1:
        count = D.add(cut.outer, D.negate(D.total(c for c in counts if c is not None)))
    if count is None:
        raise Decline("splits the batch")
    return Sharded(cut.dim, cut.batch, count, cut.inner)


RULES: dict[str, Rule] = {
    "Pack": pack,
    "Unpack": unpack,
    "ConcatV2": concat,
    "Split": split,
    "SplitV": split,
}
