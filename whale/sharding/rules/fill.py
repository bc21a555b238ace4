"""Ops that make or repeat elements: Fill, Range, OneHot, Tile, BroadcastTo, DecodeRaw."""

from __future__ import annotations

from collections.abc import Callable

from whale.ir import dims as D
from whale.ir.dims import Dim
from whale.ir.placement import REPLICATED, Sharded
from whale.sharding.call import Call
from whale.sharding.facts import Decision, Decline, Local, Want

Rule = Callable[[Call], Decision]


def fill(call: Call) -> Decision:
    """Fill: the whole tensor; it is sliced where it meets pieces."""
    target = call.ins[0].value
    dims = None if target is None else tuple(target)
    value = call.op.outputs[0].dtype
    zero = call.ins[1].zero or (call.ins[1].value is not None and value != "bool" and call.ins[1].value[()] == 0)
    return call.decide([REPLICATED, REPLICATED], call.fact(REPLICATED, dims, zero=zero))


def range_(call: Call) -> Decision:
    """Range: whole; one that counts the samples is remembered as such."""
    iota = None
    values = [f.value.item() if f.value is not None else None for f in call.ins]
    dims: tuple[Dim | None, ...] = (None,)
    if values[0] == 0 and values[2] == 1 and values[1] is not None:
        dims = (values[1],)
        for batch in call.batches.roots():
            if values[1] == call.batches.size(batch):
                iota = batch
    return call.decide([REPLICATED] * 3, call.fact(REPLICATED, dims, iota=iota))


def one_hot(call: Call) -> Decision:
    """OneHot: a new dim for the classes."""
    fact = call.ins[0]
    if fact.dims is None:
        return call.unranked()
    axis = call.attr("axis", -1)
    axis = len(fact.dims) if axis == -1 else axis
    depth = None if call.ins[1].value is None else call.ins[1].value.item()
    dims = (*fact.dims[:axis], depth, *fact.dims[axis:])
    rest: list[Want] = [REPLICATED] * (len(call.ins) - 1)
    if fact.sharded is None:
        return call.decide([REPLICATED, *rest], call.fact(REPLICATED, dims))
    out = fact.sharded.on(fact.sharded.dim + (axis <= fact.sharded.dim))
    return call.decide([None, *rest], call.fact(out, dims))


def tile(call: Call) -> Decision:
    """Tile: other dims freely; repeating the batch dim repeats whole batches."""
    fact, multiples = call.ins[0], call.ins[1].value
    if fact.dims is None:
        return call.unranked()
    dims: list[Dim | None] = [None] * len(fact.dims)
    if multiples is not None:
        dims = [D.multiply(d, m) for d, m in zip(fact.dims, multiples)]
    if fact.sharded is None:
        return call.decide([None, REPLICATED], call.fact(fact.placement, dims, zero=fact.zero))
    times = call.value(1)[fact.sharded.dim]
    cut = Sharded(fact.sharded.dim, fact.sharded.batch, D.multiply(fact.sharded.outer, times), fact.sharded.inner)
    if any(D.symbols_of(m) & D.symbols_of(call.batches.size(cut.batch)) for m in call.value(1)):
        raise Decline("repeats a tensor as often as there are samples")
    return call.decide([None, REPLICATED], call.fact(cut, dims, zero=fact.zero))


def broadcast_to(call: Call) -> Decision:
    """BroadcastTo: the cut dim keeps its size, others may grow."""
    fact, target = call.ins[0], call.ins[1].value
    dims = None if target is None else tuple(target)
    if fact.sharded is None:
        return call.decide([None, REPLICATED], call.fact(fact.placement, dims, zero=fact.zero))
    if dims is None:
        raise Decline("the target shape is not known before the run")
    at = fact.sharded.on(fact.sharded.dim + len(dims) - call.rank(0))
    return call.decide([None, Local(at.batch, (at.dim,))], call.fact(at, dims, zero=fact.zero))


def decode_raw(call: Call) -> Decision:
    """DecodeRaw: a new last dim for the numbers in each string; empty pieces are told the others' width."""
    fact = call.ins[0]
    dims = None if fact.dims is None else (*fact.dims, None)
    rest: list[Want] = [REPLICATED] * (len(call.ins) - 1)
    out = call.fact(fact.placement, dims)
    told = call.op.type == "DecodeRaw" and fact.sharded is not None and not call.batches[fact.sharded.batch].static
    if not told:
        return call.decide([None, *rest], out)
    width = out.dims[-1] if out.dims and isinstance(out.dims[-1], int) else None
    return call.decide([None, *rest], out, recipe="one_width", exchanges=width is None, width=width)


RULES: dict[str, Rule] = {
    "Fill": fill,
    "Range": range_,
    "OneHot": one_hot,
    "Tile": tile,
    "BroadcastTo": broadcast_to,
    "DecodeRaw": decode_raw,
    "DecodePaddedRaw": decode_raw,
}
