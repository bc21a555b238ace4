"""Draws of one step that are padded to lengths of their own."""

from __future__ import annotations

from whale.ir.placement import REPLICATED, Placement, Sharded
from whale.ir.program import Op, split_tensor
from whale.sharding.propagate import Analysis
from whale.sharding.residence import Residence


def cut_again(analysis: Analysis, residence: Residence) -> Op | None:
    """The first op that takes samples of several draws, put together, apart again by a length that each draw has of
    its own: where one ends and the next begins is then not known."""
    ops = {op.name: op for op in analysis.order.ops}

    def by_own_length(placement: object) -> bool:
        cut = placement if isinstance(placement, Sharded) else None
        counted = cut is None or (isinstance(cut.outer, int) and isinstance(cut.inner, int))
        return cut is not None and not counted and analysis.is_drawn(cut.batch)

    for op in analysis.order.ops:
        for tensor, want in zip(op.inputs, analysis.decisions[op.name].wants):
            name, have = split_tensor(tensor)[0], analysis.facts[tensor].placement
            again = tensor in analysis.recut and by_own_length(have)
            if again or (_is_joined(name, have, ops, residence) and by_own_length(want)):
                return ops.get(name, op)
    return None


def _is_joined(name: str, have: Placement, ops: dict[str, Op], residence: Residence) -> bool:
    """Whether a tensor is whole at home; a copy's own would be of its own length."""
    return have == REPLICATED and name in ops and not residence.all(name)
