"""What decides whether a tensor is computed at all: the branches of conditionals that it is in.

A conditional of TensorFlow 1 passes each of its inputs on to one branch by a Switch, and takes the result of the branch
that ran by a Merge. Loops are made of the same two ops, which decide nothing there: a loop always ends.
"""

from __future__ import annotations

from collections.abc import Mapping

from whale.ir.program import Op, split_tensor
from whale.sharding.order import BACK_EDGES, ENTERS, MERGES, SWITCHES, Order

Guard = tuple[str, int]
"""The tensor that decides, and the output of a Switch that it must choose."""

_NONE: frozenset[Guard] = frozenset()

_LOOP_CONDITION = "LoopCond"
"""Decides whether a loop goes on."""

_SAME = ENTERS | {"Identity"}
"""Ops that hand a decision on."""


class Guards:
    """The branches around each tensor of a run."""

    def __init__(self, ordered: Order, feeds: frozenset[str]) -> None:
        self._ops: Mapping[str, Op] = {op.name: op for op in ordered.ops}
        self._feeds = feeds
        self._around: dict[str, frozenset[Guard]] = {}
        for op in ordered.ops:
            self._around[op.name] = self._find(op)

    def op(self, name: str) -> frozenset[Guard]:
        """Branches that must be taken for an op to run; empty for one that always does."""
        return self._around.get(name, _NONE)

    def tensor(self, tensor: str) -> frozenset[Guard]:
        """Branches that must be taken for a tensor to be there; empty for one that always is."""
        name, index = split_tensor(tensor)
        op = self._ops.get(name)
        if tensor in self._feeds or op is None:
            return _NONE
        decides = self._decision(op.inputs[1]) if op.type in SWITCHES else ""
        return self.op(name) | {(decides, index)} if decides else self.op(name)

    def _find(self, op: Op) -> frozenset[Guard]:
        inputs = [self.tensor(tensor) for tensor in op.inputs if not self._goes_back(tensor)]
        waited = _NONE.union(*(self.op(name) for name in op.controls))
        if op.type in MERGES and inputs:
            return waited | inputs[0].intersection(*inputs[1:])
        return waited.union(*inputs)

    def _goes_back(self, tensor: str) -> bool:
        """Whether a tensor comes from the turn before of a loop."""
        op = self._ops.get(split_tensor(tensor)[0])
        return op is not None and op.type in BACK_EDGES

    def _decision(self, tensor: str) -> str:
        """The tensor that a Switch's predicate stands for; empty where it is a loop's own."""
        while tensor not in self._feeds and (op := self._ops.get(split_tensor(tensor)[0])) is not None:
            if op.type == _LOOP_CONDITION:
                return ""
            if op.type not in _SAME:
                break
            tensor = op.inputs[0]
        return tensor
