"""Ops that pick or scatter rows by index."""

from __future__ import annotations

from collections.abc import Callable

from whale.ir.dims import Dim
from whale.ir.placement import PARTIAL, REPLICATED, Sharded
from whale.sharding.call import Call, is_partial
from whale.sharding.facts import Decision, Decline, Fact, Local, Want

Rule = Callable[[Call], Decision]


def gather(call: Call) -> Decision:
    """Gather and GatherV2: pieces of the indices pick from whole parameters, or from pieces on other dims."""
    params, indices = call.ins[0], call.ins[1]
    rank, index_rank = call.rank(0), call.rank(1)
    lead = call.attr("batch_dims", 0)
    lead = lead + index_rank if lead < 0 else lead
    axis = call.axis(2, rank) if len(call.ins) > 2 else 0
    dims = (*call.dims(0)[:axis], *call.dims(1)[lead:], *call.dims(0)[axis + 1 :])
    rest: list[Want] = [REPLICATED] * (len(call.ins) - 2)
    shift = index_rank - lead - 1
    if lead:
        return _gather_rows(call, axis, lead, shift, dims)
    if params.sharded and not indices.sharded:
        cut = params.sharded
        if cut.dim == axis and _counts(call, 1, cut):
            return call.decide([None, REPLICATED, *rest], call.fact(cut, dims), recipe="input", index=0)
        if cut.dim == axis:
            raise Decline("picks samples of the batch by index")
        at = cut.on(cut.dim if cut.dim < axis else cut.dim + shift)
        return call.decide([None, REPLICATED, *rest], call.fact(at, dims))
    if indices.sharded:
        out = indices.sharded.on(axis + indices.sharded.dim)
        if indices.iota is not None and params.sharded and params.sharded.dim == axis:
            raise Decline("picks samples of the batch by index")
        return call.decide([REPLICATED, None, *rest], call.fact(out, dims))
    if is_partial(params):
        return call.decide([None, REPLICATED, *rest], call.fact(PARTIAL, dims))
    return call.decide([REPLICATED, REPLICATED, *rest], call.fact(REPLICATED, dims))


def _counts(call: Call, index: int, cut: Sharded) -> bool:
    """Whether a vector of indices counts the samples of a cut, which so stay in their order."""
    fact = call.ins[index]
    return fact.iota is not None and fact.rank == 1 and cut.plain and call.batches.meet(fact.iota, cut.batch)


def _gather_rows(call: Call, axis: int, lead: int, shift: int, dims: tuple[Dim, ...]) -> Decision:
    """With batch dims: the two operands are cut on the same leading dim."""
    params, indices = call.ins[0].sharded, call.ins[1].sharded
    cut = params if params and params.dim < lead else indices if indices and indices.dim < lead else None
    rest: list[Want] = [REPLICATED] * (len(call.ins) - 2)
    if cut is not None:
        return call.decide([call.piece(0, cut), call.piece(1, cut), *rest], call.fact(cut, dims))
    if indices and not params:
        return call.decide([REPLICATED, None, *rest], call.fact(indices.on(indices.dim - lead + axis), dims))
    if params and params.dim != axis and not indices:
        at = params.on(params.dim if params.dim < axis else params.dim + shift)
        return call.decide([None, REPLICATED, *rest], call.fact(at, dims))
    if params or indices:
        raise Decline("picks along the batch")
    return call.decide(call.settled(), call.fact(REPLICATED, dims))


def resource_gather(call: Call) -> Decision:
    """Rows of a resource variable."""
    indices = call.ins[1]
    if indices.sharded is None:
        return call.whole()
    return call.decide([REPLICATED, None], call.fact(indices.sharded, None))


def gather_nd(call: Call) -> Decision:
    """GatherNd: pieces of indices pick from whole parameters; indices that count the samples pick from pieces."""
    params, indices = call.ins[0], call.ins[1]
    dims = None
    if params.dims is not None and indices.dims is not None and isinstance(indices.dims[-1], int):
        dims = (*indices.dims[:-1], *params.dims[indices.dims[-1] :])
    cut = params.sharded
    counted = indices.iota if cut and cut.dim == 0 and cut.plain else None
    if cut and counted is not None and call.batches.meet(counted, cut.batch):
        return call.decide([None, call.piece(1, cut)], call.fact(cut, dims), recipe="rebased", index=1)
    if indices.sharded:
        if indices.sharded.dim == (indices.rank or 0) - 1:
            raise Decline("its coordinates are cut")
        return call.decide([REPLICATED, None], call.fact(indices.sharded, dims))
    if cut:
        raise Decline("picks samples of the batch by index")
    return call.decide(call.settled(), call.fact(REPLICATED, dims))


def scatter_nd(call: Call) -> Decision:
    """ScatterNd adds updates at indices: over pieces the result is partial, or cut where the indices count samples."""
    indices, updates, shape = call.ins
    dims = None if shape.value is None else tuple(shape.value)
    cut = updates.sharded
    if cut is None and not indices.sharded:
        if is_partial(updates):
            return call.decide([REPLICATED, None, REPLICATED], call.fact(PARTIAL, dims))
        return call.decide([REPLICATED] * 3, call.fact(REPLICATED, dims))
    lead = cut or indices.sharded
    assert lead is not None
    if lead.dim >= (indices.rank or 1) - 1:
        raise Decline("its updates are cut on a dim of their own")
    rows = [call.piece(0, lead), call.piece(1, lead)]
    if indices.iota is not None and lead.dim == 0 and lead.plain and call.batches.meet(indices.iota, lead.batch):
        wants: list[Want] = [*rows, Local(lead.batch, (0,))]
        return call.decide(wants, call.fact(lead, dims), recipe="rebased", index=0)
    return call.decide([*rows, REPLICATED], call.fact(PARTIAL, dims))


def segment_sum(call: Call) -> Decision:
    """UnsortedSegmentSum: over pieces the result is partial."""
    data, ids, count = call.ins
    dims: tuple[Dim | None, ...] | None = None
    if data.dims is not None and ids.dims is not None:
        size = None if count.value is None else count.value.item()
        dims = (size, *data.dims[len(ids.dims) :])
    cut = data.sharded
    if cut is None and not ids.sharded:
        if is_partial(data):
            return call.decide([None, REPLICATED, REPLICATED], call.fact(PARTIAL, dims))
        return call.decide([REPLICATED] * 3, call.fact(REPLICATED, dims))
    lead = cut or ids.sharded
    assert lead is not None
    if cut and cut.dim == 0 and _counts(call, 1, cut) and dims and call.batches.size(cut.batch) == dims[0]:
        return call.decide([None, REPLICATED, REPLICATED], call.fact(cut, dims), recipe="input", index=0)
    if lead.dim >= call.rank(1):
        at = lead.on(lead.dim - call.rank(1) + 1)
        return call.decide([None, REPLICATED, REPLICATED], call.fact(at, dims))
    return call.decide([call.piece(0, lead), call.piece(1, lead), REPLICATED], call.fact(PARTIAL, dims))


def iota_through(rule: Rule) -> Rule:
    """A rule of an op that keeps a count of samples in place: its output counts them too."""

    def wrapped(call: Call) -> Decision:
        decision = rule(call)
        if call.ins[0].iota is None:
            return decision
        out = decision.outputs[0]
        counted = Fact(out.placement, out.dims, out.value, out.zero, call.ins[0].iota)
        return Decision(decision.wants, (counted, *decision.outputs[1:]), decision.recipe, decision.params)

    return wrapped


RULES: dict[str, Rule] = {
    "Gather": gather,
    "GatherV2": gather,
    "ResourceGather": resource_gather,
    "GatherNd": gather_nd,
    "ScatterNd": scatter_nd,
    "UnsortedSegmentSum": segment_sum,
}
