"""Batches that a graph holds itself: rows of its data, and synthetic data in variables.

A script may keep its data in a constant or a variable, and take a batch out of it by a counter, by numbers from a queue
or by a permutation; a benchmark keeps one batch in a local variable. Neither is fed or drawn, and both are the batch.
A table of parameters looks alike; so only data that is not trained is taken, only in a run that trains, and only where
nothing is fed or drawn that may be a batch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable

from whale.ir.program import Op, split_tensor
from whale.sharding.branches import branches
from whale.sharding.order import Order
from whale.sharding.propagate import Source
from whale.sharding.rules.source import RANDOM
from whale.sharding.rules.state import HOLDERS, holder_of, written

_PICKS = {"StridedSlice": (1, 2), "Slice": (1,), "Gather": (1,), "GatherV2": (1,), "ResourceGather": (1,)}
"""Ops that take rows out of their first input, with the inputs that say which rows."""

_READS = frozenset({"Identity", "ReadVariableOp"})


@dataclasses.dataclass(frozen=True)
class Variables:
    """What the script's collections say of its variables, by the names of the ops that hold them."""

    trainable: frozenset[str] = frozenset()
    """Those that are trained."""
    local: frozenset[str] = frozenset()
    """Those that belong to this process and are in no checkpoint; trained ones are not among them."""


def held(order: Order, feeds: frozenset[str], variables: Variables) -> list[Source]:
    """Sources in data that the graph holds, in data-flow order.

    Args:
        order: the ops of the run.
        feeds: tensors that are fed.
        variables: which of the variables are trained.
    """
    ops = {op.name: op for op in order.ops}
    changed = {variable for op in order.ops for variable in written(ops, op)}
    apart = branches(order)
    outside = [op for op in order.ops if op.name not in apart and not order.frame(op.name)]
    fixed = _fixed(order, feeds, {*changed, *variables.trainable})
    learned = _learned(order, feeds, variables.trainable)
    picks = [op for op in outside if _picks_rows(op, feeds, fixed, learned) and op.output() not in feeds]
    used = {holder_of(ops, op.inputs[0]) for op in picks}
    reads = [op for op in outside if _reads(op, ops) in variables.local - changed - used and op.output() not in feeds]
    chosen = {op.name for op in [*picks, *reads]}
    return _sources(op for op in outside if op.name in chosen)


def held_alike(order: Order, feeds: frozenset[str], cut: Collection[str]) -> list[Source]:
    """Those of the tensors that another run cut which are data that the graph holds, whatever this run writes."""
    kinds = {*_PICKS, *_READS}
    return _sources(op for op in order.ops if op.type in kinds and op.output() in cut and op.output() not in feeds)


def _sources(ops: Iterable[Op]) -> list[Source]:
    """The first outputs of some ops, where their first size is written in the script and may be a number of samples."""
    found: list[Source] = []
    for op in ops:
        kind = op.outputs[0]
        if kind.shape and kind.shape[0] not in (None, 0, 1) and kind.dtype not in ("resource", "variant"):
            found.append(Source(op.output(), 0, kind.shape[0], kind.shape[0], True))
    return found


def _fixed(order: Order, feeds: frozenset[str], changing: set[str | None]) -> set[str]:
    """Ops whose value is the same in every run: of constants and of variables that are not trained nor written."""
    found: set[str] = set()
    for op in order.ops:
        if op.type in HOLDERS:
            known = op.name not in changing
        elif op.type in RANDOM or (op.stateful and op.type not in _READS):
            known = False
        else:
            known = op.type == "Const" or bool(op.inputs)
        if known and all(_among(t, feeds, found) for t in op.inputs):
            found.add(op.name)
    return found


def _learned(order: Order, feeds: frozenset[str], trainable: frozenset[str]) -> set[str]:
    """Ops whose value depends on what is trained."""
    found: set[str] = set()
    for op in order.ops:
        if op.name in trainable or any(_among(t, feeds, found) for t in op.inputs):
            found.add(op.name)
    return found


def _picks_rows(op: Op, feeds: frozenset[str], fixed: set[str], learned: set[str]) -> bool:
    """Whether an op takes rows out of fixed data, others in every run, and not as the model says."""
    if op.type not in _PICKS or not _among(op.inputs[0], feeds, fixed):
        return False
    where = [op.inputs[i] for i in _PICKS[op.type]]
    if all(_among(t, feeds, fixed) for t in where) or any(_among(t, feeds, learned) for t in where):
        return False
    return op.type != "StridedSlice" or not int(op.attrs.get("shrink_axis_mask", 0)) & 1


def _among(tensor: str, feeds: frozenset[str], ops: set[str]) -> bool:
    """Whether a tensor comes from one of some ops; a fed one does not."""
    return tensor not in feeds and split_tensor(tensor)[0] in ops


def _reads(op: Op, ops: dict[str, Op]) -> str | None:
    """The variable of which an op gives the value; None where it does not."""
    if op.type not in _READS:
        return None
    name = split_tensor(op.inputs[0])[0]
    return name if name in ops and ops[name].type in HOLDERS else None
