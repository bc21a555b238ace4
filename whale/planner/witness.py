"""What to compare of a training run before its first update: whole and cut, on the same batch.

Compared is what updates read that depends on the batch: gradients, or what a user-written optimizer assigns. Held fixed
is what the run draws (batches, random numbers, results of Python functions), so that a comparison consumes nothing and
both sides see the same. A tensor that cannot be had without a side effect is left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from whale.ir.program import Op, Program, reachable, split_tensor
from whale.sharding.order import BACK_EDGES, EXITS, MERGES, SWITCHES, Order, order
from whale.sharding.rules.control import CONTAINERS
from whale.sharding.rules.source import RANDOM
from whale.sharding.rules.state import HOLDERS, READERS, writes_variable

_HARMLESS = frozenset({"Assert", "NoOp", "IteratorV2", "OneShotIterator", "AnonymousIteratorV2", "HashTableV2"})
"""Stateful ops that may run once more: nothing comes of it."""

_COMPARABLE = frozenset({"float16", "bfloat16", "float32", "float64", "complex64", "complex128"})

_COARSE = frozenset({"float16", "bfloat16"})

_HANDLES = frozenset({"resource", "variant"})

_LOOP_CONDITION = "LoopCond"
"""Decides whether a loop goes on."""


@dataclasses.dataclass(frozen=True)
class Witness:
    """The tensors of a comparison."""

    compared: tuple[str, ...]
    """What updates read; empty where nothing can be compared."""
    drawn: tuple[str, ...]
    """What the run draws: to be drawn once, and fed from then on."""
    readers: tuple[str, ...]
    """For each compared tensor: the op that reads it."""
    coarse: bool = False
    """Whether the run computes in 16 bits somewhere."""


def witness(program: Program, fetches: Sequence[str], targets: Sequence[str], feeds: Sequence[str]) -> Witness:
    """Finds what to compare in a run of the user's program.

    Args:
        program: the captured graph.
        fetches: fetched tensors.
        targets: ops that are run.
        feeds: fed tensors; what leads to them is not run.
    """
    ops = reachable(program, fetches, targets, feeds)
    ordered = order(ops, frozenset(feeds))
    return _Search(ordered, fetches, frozenset(feeds)).witness()


class _Search:
    """One pass over the ops in data-flow order."""

    def __init__(self, ordered: Order, fetches: Sequence[str], feeds: frozenset[str]) -> None:
        self.order = ordered
        self.feeds = feeds
        self.ops = {op.name: op for op in ordered.ops}
        self.read = {*fetches, *(tensor for op in ordered.ops for tensor in op.inputs)}
        self.awaited = {control for op in ordered.ops for control in op.controls}
        self.unsteady = {ordered.frame(op.name)[0] for op in ordered.ops if ordered.frame(op.name) and _acts(op)}
        """Loops in which something is drawn or done, each time anew."""
        self.drawers: set[str] = set()
        """Ops whose outputs are drawn once and fed from then on."""
        self.varying: set[str] = set()
        """Ops that depend on the batch or on something drawn."""
        self.barred: set[str] = set()
        """Ops that cannot be run without a side effect."""
        self.depth: dict[str, int] = {}
        """Conditionals around an op: what is in one may not be there to be fetched."""

    def witness(self) -> Witness:
        """The tensors to compare and to hold fixed."""
        self._classify_all()
        compared: dict[str, str] = {}
        for op in self.order.ops:
            if writes_variable(op.type):
                for tensor in op.inputs[1:]:
                    if self._comparable(tensor):
                        compared.setdefault(tensor, op.name)
        if any(op.type in RANDOM and op.name not in self.drawers for op in self.order.ops):
            # Its generator would go on in another copy of the op once the step is taken with what was drawn.
            return Witness((), (), ())
        coarse = any(kind.dtype in _COARSE for op in self.order.ops for kind in op.outputs)
        return Witness(tuple(compared), self._drawn(), tuple(compared.values()), coarse)

    def _classify_all(self) -> None:
        """Classifies until nothing changes: loops bring to their beginning what is only known at their end."""
        known = -1
        while known != len(self.varying) + len(self.barred):
            known = len(self.varying) + len(self.barred)
            self.drawers.clear()
            for op in self.order.ops:
                self._classify(op)

    def _classify(self, op: Op) -> None:
        names = [split_tensor(t)[0] for t in op.inputs if t not in self.feeds]
        around = max((self.depth.get(n, 0) for n in (*names, *op.controls)), default=0)
        self.depth[op.name] = max(around + self._step(op, names), 0)
        if len(names) < len(op.inputs) or any(n in self.varying for n in names):
            self.varying.add(op.name)
        frame = self.order.frame(op.name)
        if self._draws(op):
            self.drawers.add(op.name)
            self.varying.add(op.name)
        elif _acts(op) or (frame and frame[0] in self.unsteady) or self.barred.intersection((*names, *op.controls)):
            self.barred.add(op.name)

    def _step(self, op: Op, names: Sequence[str]) -> int:
        """How many conditionals more an op's outputs are in than its inputs; a loop's own Switch and Merge open none."""
        before = {self.ops[name].type for name in names if name in self.ops}
        if op.type in SWITCHES:
            return 0 if _LOOP_CONDITION in before else 1
        return -1 if op.type in MERGES and not before & BACK_EDGES else 0

    def _draws(self, op: Op) -> bool:
        """Whether an op's outputs can be drawn once and fed: it gives values, always, and nothing waits for it."""
        if not _acts(op) or writes_variable(op.type) or not op.outputs or self.order.frame(op.name):
            return False
        if any(kind.dtype in _HANDLES or kind.dtype.endswith("_ref") for kind in op.outputs):
            return False
        if op.type in RANDOM and any(self._varies(tensor) for tensor in op.inputs):
            return False  # parameters computed from the batch tie its generator to the run it is drawn in
        return op.name not in self.awaited and not self.depth[op.name]

    def _varies(self, tensor: str) -> bool:
        """Whether a tensor is a batch, or computed from one; the shape of a batch is not."""
        name, index = split_tensor(tensor)
        op = self.ops.get(name)
        if tensor in self.feeds:
            return True
        return op is not None and name in self.varying and op.outputs[index].dtype not in ("int32", "int64")

    def _comparable(self, tensor: str) -> bool:
        name, index = split_tensor(tensor)
        if tensor in self.feeds or name in self.drawers or name not in self.varying or name in self.barred:
            return False
        op, frames = self.ops[name], self.order.frame(name)
        inside = len(frames) > (op.type in EXITS) or self.depth[name]
        return not inside and op.outputs[index].dtype in _COMPARABLE

    def _drawn(self) -> tuple[str, ...]:
        """All outputs of drawing ops that the run reads, in data-flow order."""
        outputs = (t for op in self.order.ops if op.name in self.drawers for t in op.outputs_named())
        return tuple(t for t in outputs if t in self.read and t not in self.feeds)


def _acts(op: Op) -> bool:
    """Whether running an op once more draws something or changes something."""
    neutral = op.type in HOLDERS or op.type in READERS or op.type in CONTAINERS or op.type in _HARMLESS
    handles = bool(op.outputs) and all(kind.dtype in _HANDLES for kind in op.outputs)
    return writes_variable(op.type) or (op.stateful and not neutral and not handles)
