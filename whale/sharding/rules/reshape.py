"""Ops that give the elements of a tensor another shape or order: Reshape, ExpandDims, Squeeze, Transpose, ReverseV2.

The target shape of a reshape is each copy's own: the elements that scale with the batch are replaced by its share. A
-1 in it cannot be inferred from a piece without samples: that size is read where the batch enters, or from all pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from whale.ir import dims as D
from whale.ir.dims import Dim
from whale.ir.placement import REPLICATED, Sharded
from whale.sharding.call import Call
from whale.sharding.facts import Decision, Decline, Local

Rule = Callable[[Call], Decision]


def split_cut(call: Call, cut: Sharded, dims: Sequence[Dim], target: Sequence[Dim]) -> Sharded:
    """Where the cut of a tensor is after a reshape.

    The batch has stride ``R`` (in elements) in the input, row-major. The one output dim whose interval of strides
    holds ``[R, R * batch)`` is cut, with what is left on either side as its inner and outer counts. The number of
    elements stays the same, so what comes before the batch tells as much as what comes after it, where one of the
    two is not known.
    """
    stride = D.multiply(cut.inner, D.product(dims[cut.dim + 1 :]))
    size = call.batches.size(cut.batch)
    found = _match(cut, stride, size, target)
    if found is None:
        found = _match_before(cut, D.multiply(cut.outer, D.product(dims[: cut.dim])), size, target)
    if found is None:
        found = _match_numbers(call, cut, stride, target)
    if found is None:
        call.batches.equate_products(D.product(dims), D.product(target))
        raise Decline(f"the reshape to {[str(t) for t in target]} does not keep the batch in one dim")
    return found


def _match(cut: Sharded, stride: Dim, size: Dim, target: Sequence[Dim]) -> Sharded | None:
    below: Dim = 1
    for dim in range(len(target) - 1, -1, -1):
        inner = D.divide(stride, below)
        outer = None if inner is None else D.divide(target[dim], D.multiply(size, inner))
        if inner is not None and outer is not None:
            return Sharded(dim, cut.batch, outer, inner)
        below = D.multiply(below, target[dim])
    return None


def _match_before(cut: Sharded, repeats: Dim, size: Dim, target: Sequence[Dim]) -> Sharded | None:
    above: Dim = 1
    for dim, length in enumerate(target):
        outer = D.divide(repeats, above)
        inner = None if outer is None else D.divide(length, D.multiply(size, outer))
        if outer is not None and inner is not None:
            return Sharded(dim, cut.batch, outer, inner)
        above = D.multiply(above, length)
    return None


def _match_numbers(call: Call, cut: Sharded, stride: Dim, target: Sequence[Dim]) -> Sharded | None:
    """The script wrote the batch size as a number into the target: compare with the size of this run."""
    if not isinstance(stride, int) or not all(isinstance(t, int) for t in target):
        return None
    count = call.batches.pin(cut.batch)
    return None if count is None else _match(cut, stride, count, target)


def resolve(call: Call, target: Sequence[Dim], dims: Sequence[Dim]) -> tuple[Dim, ...]:
    """A reshape target with its -1 worked out."""
    if -1 not in target:
        return tuple(target)
    at = list(target).index(-1)
    known = D.product(t for i, t in enumerate(target) if i != at)
    missing = D.divide(D.product(dims), known)
    if missing is None:
        static = call.op.outputs[0].shape
        missing = static[at] if static is not None and at < len(static) else None
    if missing is None:
        missing = D.opaque("reshape", D.product(dims), known)
    return tuple(missing if i == at else t for i, t in enumerate(target))


def reshape(call: Call) -> Decision:
    """Reshape, by the stride rule."""
    fact, target = call.ins[0], call.ins[1].value
    out: tuple[Dim, ...] | None = None
    if target is not None and fact.dims is not None:
        out = resolve(call, list(target), fact.dims)
    if fact.sharded is None:
        placement = fact.placement
        value = None
        return call.decide([None, REPLICATED], call.fact(placement, out, value=value, zero=fact.zero))
    if out is None:
        out = _from_static(call)
    cut = split_cut(call, fact.sharded, call.dims(0), out)
    explicit = target is None or target[cut.dim] != -1
    result = call.fact(cut, out, zero=fact.zero)
    if not explicit:
        return call.decide([None, REPLICATED], result)
    if target is None or -1 not in target:
        return call.decide([None, Local(cut.batch, (cut.dim,))], result)
    at = list(target).index(-1)
    if isinstance(out[at], int) or call.batches.enters(out[at]):
        return call.decide([None, Local(cut.batch, (cut.dim,), ((at, out[at]),))], result)
    want = Local(cut.batch, (cut.dim,))
    if call.batches.surely_filled(cut.batch):
        return call.decide([None, want], result)
    return call.decide([None, want], result, recipe="inferred", exchanges=True, index=at)


def _from_static(call: Call) -> tuple[Dim, ...]:
    static = call.op.outputs[0].shape
    dims = call.dims(0)
    if static is None or sum(d is None for d in static) > 1:
        raise Decline("the target of the reshape is not known before the run")
    return resolve(call, [-1 if d is None else d for d in static], dims)


def expand_dims(call: Call) -> Decision:
    """A dim of size one is put in."""
    fact = call.ins[0]
    if fact.dims is None:
        return call.unranked()
    axis = call.axis(1, len(fact.dims) + 1)
    dims = (*fact.dims[:axis], 1, *fact.dims[axis:])
    placement = fact.placement
    if isinstance(placement, Sharded):
        placement = placement.on(placement.dim + (axis <= placement.dim))
    return call.decide([None, REPLICATED], call.fact(placement, dims, zero=fact.zero))


def squeeze(call: Call) -> Decision:
    """Dims of size one are taken out."""
    fact = call.ins[0]
    if fact.dims is None:
        return call.unranked()
    rank = len(fact.dims)
    axes = {a % rank for a in call.attr("squeeze_dims", ())}
    if not axes:
        static = call.op.outputs[0].shape
        axes = {i for i, d in enumerate(fact.dims) if d == 1}
        if static is None or len(static) != rank - len(axes):
            if fact.sharded:
                raise Decline("squeezes dims whose size is not known before the run")
            return call.whole()
    if fact.sharded and fact.sharded.dim in axes:
        raise Decline("squeezes the batch dim")
    dims = tuple(d for i, d in enumerate(fact.dims) if i not in axes)
    placement = fact.placement
    params: dict[str, Any] = {}
    if isinstance(placement, Sharded):
        placement = placement.on(placement.dim - sum(a < placement.dim for a in axes))
        params = {"attrs": {"squeeze_dims": sorted(axes)}}
    return call.decide([None], call.fact(placement, dims, zero=fact.zero), **params)


def transpose(call: Call) -> Decision:
    """Dims change places."""
    fact = call.ins[0]
    if fact.dims is None or call.ins[1].value is None:
        if fact.sharded:
            raise Decline("the permutation is not known before the run")
        return call.decide([None, REPLICATED], call.fact(fact.placement, None, zero=fact.zero))
    permutation = call.numbers(1)
    dims = tuple(fact.dims[p] for p in permutation)
    placement = fact.placement
    if isinstance(placement, Sharded):
        placement = placement.on(permutation.index(placement.dim))
    return call.decide([None, REPLICATED], call.fact(placement, dims, zero=fact.zero))


def reverse(call: Call) -> Decision:
    """ReverseV2 over dims that are not cut."""
    fact = call.ins[0]
    if fact.sharded:
        rank = call.rank(0)
        if fact.sharded.dim in {a % rank for a in call.numbers(1)}:
            raise Decline("reverses the batch")
    return call.decide([None, REPLICATED], call.fact(fact.placement, fact.dims, zero=fact.zero))


RULES: dict[str, Rule] = {
    "Reshape": reshape,
    "ExpandDims": expand_dims,
    "Squeeze": squeeze,
    "Transpose": transpose,
    "ReverseV2": reverse,
}
