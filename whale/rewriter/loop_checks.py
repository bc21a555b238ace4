"""What cannot go through a loop over micro-batches, or cannot be taken apart into micro-batches at all."""

from __future__ import annotations

from whale.errors import PlanError
from whale.ir.program import Op
from whale.sharding.propagate import Analysis
from whale.sharding.residence import Residence
from whale.sharding.rules.source import RANDOM
from whale.sharding.rules.state import writes_variable


class Unloopable(Exception):
    """A step that cannot be taken apart into iterations; says why."""


_ACROSS = frozenset(
    {"batch_norm", "batch_norm_grad", "mean_of_integers", "reduce_pieces", "cumulate_pieces", "one_width"}
)
"""Recipes in which the pieces of all micro-batches meet."""


def check_loopable(analysis: Analysis) -> None:
    """Checks that no op of a step needs the pieces of all micro-batches at once, or would be run for each of them.

    Raises:
        Unloopable: one does; the message names it.
    """
    for op in analysis.order.ops:
        decision = analysis.decisions[op.name]
        if (
            decision.exchanges
            or decision.recipe in _ACROSS
            or (decision.recipe.startswith("global_") and _counts(analysis, op))
        ):
            raise Unloopable(f"{op.described()} takes all micro-batches together")
        if op.type in RANDOM and analysis.order.frame(op.name) and not decision.distributed:
            raise Unloopable(f"{op.described()} draws for all micro-batches at once, in a loop of the script")


def _counts(analysis: Analysis, op: Op) -> bool:
    """Whether the size of a whole tensor is known from its pieces alone."""
    cuts = [analysis.facts[tensor].sharded for tensor in op.inputs]
    return any(cut and not (isinstance(cut.outer, int) and isinstance(cut.inner, int)) for cut in cuts)


def check_updates(analysis: Analysis, residence: Residence, divided: frozenset[str]) -> None:
    """Checks that no loop of the script which micro-batches go through one by one writes a variable.

    Args:
        analysis: of the run.
        residence: on which copies its ops run.
        divided: the ops that run once per micro-batch.

    Raises:
        PlanError: one does; every micro-batch would make an update of its own.
    """
    for op in analysis.order.ops:
        inside = op.name in divided and analysis.order.frame(op.name)
        if inside and writes_variable(op.type) and residence.all(op.name):
            raise PlanError(
                f"{op.type} '{op.name}' writes a variable inside of a loop of the script, for the whole batch: "
                "its gradients cannot be added up over micro-batches",
                site=op.site,
                fix="update variables outside of the loop, or do without micro-batches",
            )
