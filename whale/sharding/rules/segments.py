"""Sums over segments of rows that are picked by index, as in a lookup of bags of words, and their gradients."""

from __future__ import annotations

from collections.abc import Callable

from whale.ir.dims import Dim
from whale.ir.placement import PARTIAL, REPLICATED
from whale.sharding.call import Call, is_partial
from whale.sharding.facts import Decision, Decline, Want

Rule = Callable[[Call], Decision]


def sparse_segment(call: Call) -> Decision:
    """SparseSegmentSum and its kin, with or without a number of segments, and their gradients.

    All are linear in the first input. Pieces of indices and segments give sums to be added up, where the number of
    rows that come of them is told and rows are not divided by the size of their segment.
    """
    rows, indices, segments = call.ins[:3]
    rest: list[Want] = [REPLICATED] * (len(call.ins) - 1)
    told = len(call.ins) > 3
    dims: tuple[Dim | None, ...] | None = None
    if rows.dims is not None:
        value = call.ins[3].value if told else None
        dims = (None if value is None else value.item(), *rows.dims[1:])
    picked = indices.sharded or segments.sharded
    if rows.sharded and rows.sharded.dim > 0:
        return call.decide([None, *rest], call.fact(rows.sharded, dims))
    if rows.sharded:
        raise Decline("picks samples of the batch by index")
    if picked is None:
        kept = is_partial(rows)
        return call.decide([None if kept else REPLICATED, *rest], call.fact(PARTIAL if kept else REPLICATED, dims))
    if not told:
        raise Decline("how many segments each piece has depends on their values")
    if not call.op.type.startswith("SparseSegmentSum"):
        raise Decline("divides by sizes of segments that may lie in several pieces")
    wants: list[Want] = [REPLICATED, call.piece(1, picked), call.piece(2, picked), REPLICATED]
    # The kernel of the gradient leaves its output as it is where there is nothing to add.
    return call.decide(wants, call.fact(PARTIAL, dims), recipe="zero_if_empty", batch=picked.batch)


RULES: dict[str, Rule] = {
    f"SparseSegment{how}{end}": sparse_segment
    for how in ("Sum", "Mean", "SqrtN")
    for end in ("", "WithNumSegments", "Grad")
}
