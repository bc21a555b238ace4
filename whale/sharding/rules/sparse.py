"""Ops that read a sparse tensor of the whole batch, whose first coordinates are numbers of samples."""

from __future__ import annotations

from collections.abc import Callable

from whale.ir.placement import REPLICATED
from whale.sharding.call import Call
from whale.sharding.facts import Decision, Decline, Want

Rule = Callable[[Call], Decision]


def ctc_loss(call: Call) -> Decision:
    """CTCLoss of ``[time, batch, classes]``: every copy picks the labels of its own samples out of all labels."""
    inputs, indices, labels, lengths = call.ins
    dims = None if inputs.dims is None or len(inputs.dims) != 3 else inputs.dims
    losses = None if dims is None else dims[1:2]
    cut = inputs.sharded or (lengths.sharded.on(1) if lengths.sharded else None)
    if cut is None:
        return call.whole(outputs=[call.fact(REPLICATED, losses), call.fact(REPLICATED, dims, 1)])
    if cut.dim != 1 or not cut.plain:
        raise Decline("the batch is not its second dim")
    own = call.is_drawn(cut)
    if own and not all(f.sharded and call.is_drawn(f.sharded) for f in (indices, labels)):
        raise Decline("its labels are not drawn together with its samples")
    sparse: list[Want] = [None, None] if own else [REPLICATED, REPLICATED]
    wants = [call.piece(0, cut), *sparse, call.piece(3, cut.on(0))]
    facts = call.fact(cut.on(0), losses), call.fact(cut, dims, 1)
    if own:
        return call.decide(wants, *facts)
    return call.decide(wants, *facts, recipe="own_labels", batch=cut.batch)


RULES: dict[str, Rule] = {"CTCLoss": ctc_loss, "CTCLossV2": ctc_loss}
