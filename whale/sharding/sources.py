"""Where batches enter a run."""

from __future__ import annotations

from collections.abc import Mapping

from whale.ir.program import Op, TensorType
from whale.sharding.order import Order
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


def candidates(order: Order, feeds: Mapping[str, TensorType], counts: Mapping[str, tuple[int, ...]]) -> list[Source]:
    """Tensors that may be cut on their first dim, in data-flow order, fed ones first.

    Args:
        order: the ops of the run.
        feeds: fed tensors with their types as the script declares them.
        counts: shapes of the fed values.
    """
    found: list[Source] = []
    for tensor, kind in feeds.items():
        shape = counts[tensor]
        if shape and shape[0] > 1:
            static = kind.shape[0] if kind.shape else None
            found.append(Source(tensor, 0, static, shape[0]))
    for op in order.ops:
        if op.type in DRAWS and not order.frame(op.name):
            found.extend(_drawn(op, feeds))
    return found


def _drawn(op: Op, feeds: Mapping[str, TensorType]) -> list[Source]:
    result: list[Source] = []
    for index, kind in enumerate(op.outputs):
        tensor = op.output(index)
        if tensor in feeds or not kind.shape or kind.shape[0] == 1 or kind.dtype in ("resource", "variant"):
            continue
        result.append(Source(tensor, 0, kind.shape[0], kind.shape[0]))
    return result
