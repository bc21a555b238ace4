"""What to compare of a training run before its first update: whole and cut, on the same batch.

Compared is what updates read that depends on the batch: gradients, or what a user-written optimizer assigns. Held fixed
is what the run draws (batches, random numbers, results of Python functions), so that a comparison consumes nothing and
both sides see the same. A tensor that cannot be had without a side effect is left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from whale.ir.program import Op, Program, reachable, split_tensor
from whale.planner.guards import Guards
from whale.sharding.order import EXITS, Order, order
from whale.sharding.rules.control import CONTAINERS
from whale.sharding.rules.source import RANDOM
from whale.sharding.rules.state import HOLDERS, READERS, writes_variable

_HARMLESS = frozenset({"Assert", "NoOp", "IteratorV2", "OneShotIterator", "AnonymousIteratorV2", "HashTableV2"})
"""Stateful ops that may run once more: nothing comes of it."""

_COMPARABLE = frozenset({"float16", "bfloat16", "float32", "float64", "complex64", "complex128"})

_COARSE = frozenset({"float16", "bfloat16"})

_SUMS = frozenset({"BiasAddGrad", "Sum"})
"""Ops whose first input is added up, each element of it into one of theirs."""

_SCALED = frozenset({"Identity", "Reshape", "Mul", "RealDiv", "Neg"})
"""Ops of which the first output is the first input but for its shape and a factor."""

_HANDLES = frozenset({"resource", "variant"})


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
    barred: str = ""
    """Why nothing is compared, though there may be something to compare."""
    sums: tuple[tuple[str, str] | None, ...] = ()
    """For each compared tensor that is a sum, up to a factor: that sum and what it adds up. None for others."""


def witness(
    program: Program,
    fetches: Sequence[str],
    targets: Sequence[str],
    feeds: Sequence[str],
    is_function: Callable[[Op], bool] = lambda op: False,
    held: Sequence[str] = (),
) -> Witness:
    """Finds what to compare in a run of the user's program.

    Args:
        program: the captured graph.
        fetches: fetched tensors.
        targets: ops that are run.
        feeds: fed tensors; what leads to them is not run.
        is_function: whether an op runs a function of the graph's library.
        held: tensors that are a batch though nothing is fed or drawn for them.
    """
    ops = reachable(program, fetches, targets, feeds)
    ordered = order(ops, frozenset(feeds))
    return _Search(ordered, fetches, frozenset(feeds), is_function, frozenset(held)).witness()


class _Search:
    """One pass over the ops in data-flow order."""

    def __init__(
        self,
        ordered: Order,
        fetches: Sequence[str],
        feeds: frozenset[str],
        is_function: Callable[[Op], bool],
        held: frozenset[str],
    ) -> None:
        self.held = held
        self.is_function = is_function
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
        self.guards = Guards(ordered, feeds)
        """Branches around a tensor: what is in one may not be there to be fetched."""

    def witness(self) -> Witness:
        """The tensors to compare and to hold fixed."""
        self._classify_all()
        compared: dict[str, str] = {}
        for op in self.order.ops:
            if writes_variable(op.type):
                for tensor in op.inputs[1:]:
                    if self._comparable(tensor):
                        compared.setdefault(tensor, op.name)
        again = next((op for op in self.order.ops if op.type in RANDOM and op.name not in self.drawers), None)
        if again is not None:
            return Witness((), (), (), barred=f"{again.described()} would draw for the check and again for the step")
        coarse = any(kind.dtype in _COARSE for op in self.order.ops for kind in op.outputs)
        sums = tuple(self._sum(tensor) for tensor in compared)
        return Witness(tuple(compared), self._drawn(), tuple(compared.values()), coarse, sums=sums)

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
        if len(names) < len(op.inputs) or any(n in self.varying for n in names) or self._is_held(op):
            self.varying.add(op.name)
        frame = self.order.frame(op.name)
        if self._draws(op):
            self.drawers.add(op.name)
            self.varying.add(op.name)
        elif _acts(op) or (frame and frame[0] in self.unsteady) or self.barred.intersection((*names, *op.controls)):
            self.barred.add(op.name)

    def _is_held(self, op: Op) -> bool:
        return bool(self.held) and not self.held.isdisjoint(op.outputs_named())

    def _draws(self, op: Op) -> bool:
        """Whether an op's outputs can be drawn once and fed: it gives values, always, and nothing waits for it."""
        if not _acts(op) or writes_variable(op.type) or not op.outputs or self.order.frame(op.name):
            return False
        if self.is_function(op):
            return False  # it is written out to be cut: what draws is not the op but something in it
        if any(kind.dtype in _HANDLES or kind.dtype.endswith("_ref") for kind in op.outputs):
            return False
        return op.name not in self.awaited and not self.guards.op(op.name)

    def _comparable(self, tensor: str) -> bool:
        name, index = split_tensor(tensor)
        if tensor in self.feeds or name in self.drawers or name not in self.varying or name in self.barred:
            return False
        op = self.ops[name]
        inside = len(self.order.frame(name)) > (op.type in EXITS) or self.guards.tensor(tensor)
        return not inside and op.outputs[index].dtype in _COMPARABLE

    def _sum(self, tensor: str) -> tuple[str, str] | None:
        """The sum that a tensor is, up to its shape and a factor, and what it adds up."""
        name, index = split_tensor(tensor)
        while self._comparable(tensor) and index == 0:
            op = self.ops[name]
            if op.type in _SUMS:
                summands = op.inputs[0]
                return (tensor, summands) if self._comparable(summands) else None
            if op.type not in _SCALED:
                return None
            tensor = op.inputs[0]
            name, index = split_tensor(tensor)
        return None

    def _drawn(self) -> tuple[str, ...]:
        """All outputs of drawing ops that the run reads, in data-flow order."""
        outputs = (t for op in self.order.ops if op.name in self.drawers for t in op.outputs_named())
        return tuple(t for t in outputs if t in self.read and t not in self.feeds)


def _acts(op: Op) -> bool:
    """Whether running an op once more draws something or changes something."""
    neutral = op.type in HOLDERS or op.type in READERS or op.type in CONTAINERS or op.type in _HARMLESS
    handles = bool(op.outputs) and all(kind.dtype in _HANDLES for kind in op.outputs)
    return writes_variable(op.type) or (op.stateful and not neutral and not handles)
