"""Reductions.

A sum over the batch is partial: the value is the sum of what the copies hold. A mean is a sum over the global count.
Maxima and the like are taken on each piece and then over the pieces. Arg-reductions over the batch need it whole.
"""

from __future__ import annotations

from collections.abc import Callable

from whale.ir import dims as D
from whale.ir.dims import Dim
from whale.ir.placement import EACH, PARTIAL, REPLICATED
from whale.sharding.call import Call, is_partial
from whale.sharding.facts import Decision, Decline, Want

Rule = Callable[[Call], Decision]


def _kept(axes: list[int], rank: int, dims: tuple[Dim, ...], keep: bool) -> tuple[Dim, ...]:
    return tuple(1 if i in axes else d for i, d in enumerate(dims) if keep or i not in axes)


def _axes(call: Call) -> tuple[list[int], bool]:
    """Axes of a reduction, and whether every copy has its own list (from BroadcastGradientArgs on its piece)."""
    rank = call.rank(0)
    axes_fact = call.ins[1]
    own = axes_fact.placement == EACH
    return sorted({a % rank for a in call.numbers(1)} if rank else set()), own


def reduce(call: Call) -> Decision:
    """Sum, Mean, Max, Min, Prod, All, Any over constant axes."""
    fact = call.ins[0]
    keep = bool(call.attr("keep_dims"))
    own = call.ins[1].placement == EACH
    linear = call.op.type in ("Sum", "Mean")
    axes_want: Want = None if own and fact.sharded else REPLICATED
    if fact.sharded is None:
        dims = None
        if fact.dims is not None and call.ins[1].value is not None:
            try:
                axes, _ = _axes(call)
                dims = _kept(axes, len(fact.dims), fact.dims, keep)
            except Decline:
                dims = None
        if is_partial(fact) and linear:
            return call.decide([None, REPLICATED], call.fact(PARTIAL, dims))
        value = None
        return call.decide([REPLICATED, REPLICATED], call.fact(REPLICATED, dims, value=value, zero=fact.zero))
    cut = fact.sharded
    axes, own = _axes(call)
    dims = call.dims(0)
    out_dims = _kept(axes, len(dims), dims, keep)
    if cut.dim not in axes:
        at = cut.dim if keep else cut.dim - sum(a < cut.dim for a in axes)
        return call.decide([None, axes_want], call.fact(cut.on(at), out_dims))
    if call.op.type == "Sum":
        return call.decide([None, axes_want], call.fact(PARTIAL, out_dims))
    if own:
        raise Decline("takes a mean or a maximum over axes that differ by copy")
    if call.op.type == "Mean" and call.op.outputs[0].dtype.startswith(("int", "uint")):
        out = call.fact(REPLICATED, out_dims)
        return call.decide([None, REPLICATED], out, recipe="mean_of_integers", exchanges=True, axes=tuple(axes))
    if call.op.type == "Mean":
        count = D.product(dims[a] for a in axes)
        counted = not isinstance(count, int) and not (isinstance(cut.outer, int) and isinstance(cut.inner, int))
        out = call.fact(PARTIAL, out_dims)
        return call.decide([None, REPLICATED], out, recipe="mean", exchanges=counted, count=count, axes=tuple(axes))
    return call.decide([None, REPLICATED], call.fact(REPLICATED, out_dims), recipe="reduce_pieces", exchanges=True)


def l2_loss(call: Call) -> Decision:
    """Half the sum of squares: partial over pieces."""
    fact = call.ins[0]
    if fact.sharded:
        return call.decide([None], call.fact(PARTIAL, ()))
    return call.decide([REPLICATED], call.fact(REPLICATED, ()))


def arg_reduce(call: Call) -> Decision:
    """ArgMax and ArgMin over a dim that is not cut."""
    fact = call.ins[0]
    rank = call.rank(0)
    axis = call.axis(1, rank)
    dims = tuple(d for i, d in enumerate(call.dims(0)) if i != axis)
    if fact.sharded is None:
        return call.decide([REPLICATED, REPLICATED], call.fact(REPLICATED, dims))
    if fact.sharded.dim == axis:
        raise Decline("searches along the batch")
    at = fact.sharded.on(fact.sharded.dim - (axis < fact.sharded.dim))
    return call.decide([None, REPLICATED], call.fact(at, dims))


def cumulative(call: Call) -> Decision:
    """Cumsum and Cumprod. Along the batch, every copy starts from what the copies before it came to."""
    fact = call.ins[0]
    if fact.sharded is None:
        if is_partial(fact) and call.op.type == "Cumsum":
            return call.decide([None, REPLICATED], call.fact(PARTIAL, fact.dims))
        return call.decide([REPLICATED, REPLICATED], call.fact(REPLICATED, fact.dims))
    out = call.fact(fact.sharded, fact.dims)
    axis = call.axis(1, call.rank(0))
    if fact.sharded.dim != axis:
        return call.decide([None, REPLICATED], out)
    if not isinstance(fact.sharded.outer, int):
        raise Decline("accumulates along a dim that holds the batch an unknown number of times")
    return call.decide([None, REPLICATED], out, recipe="cumulate_pieces", exchanges=True, axis=axis)


RULES: dict[str, Rule] = {
    **{name: reduce for name in ("Sum", "Mean", "Max", "Min", "Prod", "All", "Any")},
    "L2Loss": l2_loss,
    "ArgMax": arg_reduce,
    "ArgMin": arg_reduce,
    "Cumsum": cumulative,
    "Cumprod": cumulative,
}
