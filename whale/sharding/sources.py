"""Where batches enter a run."""

from __future__ import annotations

from collections.abc import Mapping

from whale.ir.program import Op, TensorType, split_tensor
from whale.sharding.branches import branches
from whale.sharding.order import MERGES, Order
from whale.sharding.propagate import Source

DRAWS = frozenset(
    [
        "IteratorGetNext",
        "IteratorGetNextSync",
        "QueueDequeueV2",
        "QueueDequeueManyV2",
        "QueueDequeueUpToV2",
        "QueueDequeue",
        "QueueDequeueMany",
        "QueueDequeueUpTo",
        "ReaderReadUpToV2",
        "Unstage",
        "PyFunc",
        "EagerPyFunc",
        "PyFuncStateless",
        "ParseExample",
        "ParseExampleV2",
        "InfeedDequeue",
        "InfeedDequeueTuple",
    ]
)
"""Ops whose outputs are drawn from outside of the graph and may be batches."""


_PYTHON = frozenset({"PyFunc", "EagerPyFunc", "PyFuncStateless"})


def candidates(
    order: Order, feeds: Mapping[str, TensorType], counts: Mapping[str, tuple[int, ...]], local: bool = False
) -> list[Source]:
    """Tensors that may be cut on their first dim, in data-flow order, fed ones first.

    Args:
        order: the ops of the run.
        feeds: fed tensors with their types as the script declares them.
        counts: shapes of the fed values.
        local: whether every copy draws its own batch. What a Python function makes of a batch is then no other one.
    """
    found: list[Source] = []
    for tensor, kind in feeds.items():
        shape = counts[tensor]
        if shape and shape[0] > 1:
            static = kind.shape[0] if kind.shape else None
            found.append(Source(tensor, 0, static, shape[0]))
    inside = branches(order)
    drawing = _drawing(order, inside)
    made = _made_of(order, {source.tensor for source in found}) if local else set[str]()
    for op in order.ops:
        if op.name in made:
            continue
        chosen = op.type in MERGES and op.name not in inside and any(_name(t) in drawing for t in op.inputs)
        drawn = op.type in DRAWS and op.name not in inside
        if (drawn or chosen) and not order.frame(op.name):
            found.extend(_drawn(op, feeds, 1 if chosen else len(op.outputs)))
    return found


def _drawing(order: Order, inside: Mapping[str, str]) -> set[str]:
    """Ops whose value depends on a draw that is made in a branch: what comes out of the conditional is the batch."""
    found: set[str] = set()
    for op in order.ops:
        if op.name in inside and (op.type in DRAWS or any(_name(t) in found for t in op.inputs)):
            found.add(op.name)
    return found


def _made_of(order: Order, fed: set[str]) -> set[str]:
    """Python functions whose inputs depend on a batch that is fed or drawn."""
    depends: set[str] = set()
    found: set[str] = set()
    for op in order.ops:
        if any(tensor in fed or _name(tensor) in depends for tensor in op.inputs):
            depends.add(op.name)
            if op.type in _PYTHON:
                found.add(op.name)
        elif op.type in DRAWS:
            depends.add(op.name)
    return found


def _name(tensor: str) -> str:
    return split_tensor(tensor)[0]


def _drawn(op: Op, feeds: Mapping[str, TensorType], outputs: int) -> list[Source]:
    result: list[Source] = []
    for index, kind in enumerate(op.outputs[:outputs]):
        tensor = op.output(index)
        if tensor in feeds or not kind.shape or kind.shape[0] == 1 or kind.dtype in ("resource", "variant"):
            continue
        result.append(Source(tensor, 0, kind.shape[0], kind.shape[0]))
    return result
