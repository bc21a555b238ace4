"""What tensor parallelism divides, found from the graph.

Weights are cut so that as little as possible is exchanged, as Megatron-LM does by hand (Shoeybi et al., 2019): a
product whose input is whole cuts its weight by columns and makes a split result; a product whose input is split cuts
its weight by rows, and its result is summed over the group. What lies between works on pieces. A lookup in a table
cuts the table by rows and sums. Where the rule would have to cut something else, the op stays whole.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from whale.cost_model.curve import Curve
from whale.cost_model.tensors import SHAPES, VIEWS, Tensors
from whale.ir.cost import Kind
from whale.ir.program import Op, Phase, split_tensor

SMALLEST = 1 << 16
"""Weights of fewer elements are not cut."""

_LOOKUPS = frozenset({"Gather", "GatherV2", "ResourceGather"})
_ROWS = frozenset({"SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits", "L2Loss", "ArgMax"})
"""Ops that reduce the last dim although their output may be as large as their input."""


@dataclasses.dataclass(frozen=True)
class Split:
    """How tensor parallelism goes through a program."""

    ops: frozenset[str]
    """Ops whose work is divided."""
    tensors: frozenset[str]
    """Tensors (of the forward pass) of which each device has a piece."""
    variables: frozenset[str]
    """Variables that are cut."""
    exchanges: Mapping[str, tuple[tuple[Phase, Curve], ...]]
    """By forward op: all-reduces it brings, with their floating-point elements."""


def find_split(tensors: Tensors) -> Split:
    """Follows the rule through the forward pass; backward ops do as their forward ops."""
    return _Splitting(tensors).run()


class _Splitting:
    def __init__(self, tensors: Tensors) -> None:
        self.tensors = tensors
        self.split: set[str] = set()
        self.ops: set[str] = set()
        self.variables: set[str] = set()
        self.exchanges: dict[str, list[tuple[Phase, Curve]]] = {}
        self.entered: set[str] = set()
        """Whole tensors whose gradients are summed already."""

    def run(self) -> Split:
        forward = [op for op in self.tensors.ops if op.phase is Phase.FORWARD]
        for op in forward:
            if op.name in self.tensors.flowing:
                self._visit(op)
        for op in self.tensors.ops:
            if op.phase is Phase.BACKWARD and op.forward in self.ops:
                self.ops.add(op.name)
        exchanges = {name: tuple(found) for name, found in self.exchanges.items()}
        return Split(frozenset(self.ops), frozenset(self.split), frozenset(self.variables), exchanges)

    def _visit(self, op: Op) -> None:
        inputs = [t for t in op.inputs if self.tensors.root(t) in self.split]
        if op.type in VIEWS:
            if inputs:
                self._mark(op)
            return
        if op.type in SHAPES:
            return
        weight = self.tensors.weight_operand(op)
        kind = self.tensors.costs[op.name].kind
        if weight is not None and (kind is Kind.MATMUL or op.type in _LOOKUPS):
            self._product(op, weight, bool(inputs))
        elif inputs and (kind is Kind.REDUCTION and self._reduces(op)):
            self.ops.add(op.name)
            self._exchange(op, Phase.FORWARD, self.tensors.elements(op.output()))
            self.split.update(t for t in op.outputs_named()[1:])
        elif inputs:
            self._mark(op)
            for tensor in op.inputs:
                holder = self.tensors.holder(tensor)
                if holder is not None:
                    self.variables.add(holder)

    def _mark(self, op: Op) -> None:
        self.ops.add(op.name)
        self.split.update(self.tensors.root(t) for t in op.outputs_named())
        for tensor in op.inputs:
            # Random numbers, masks and the like that only this op reads are made in pieces as well.
            self._mark_sources(tensor)

    def _mark_sources(self, tensor: str) -> None:
        name = split_tensor(tensor)[0]
        op = self.tensors.program.ops[name]
        if name in self.tensors.flowing or op.phase is not Phase.FORWARD or name in self.ops or op.type in SHAPES:
            return
        size = self.tensors.elements(tensor) + self.tensors.other_bytes(tensor)
        if len(size.coefficients) > 1 and self.tensors.holder(tensor) is None:
            self.ops.add(name)
            self.split.update(self.tensors.root(t) for t in op.outputs_named())
            for source in op.inputs:
                self._mark_sources(source)

    def _product(self, op: Op, weight: int, split_input: bool) -> None:
        holder = self.tensors.holder(op.inputs[weight])
        count = self.tensors.elements(op.inputs[weight]).at(1)
        lookup = op.type in _LOOKUPS
        if holder is None or (count < SMALLEST and not split_input):
            if split_input:
                self.ops.add(op.name)
            return
        self.ops.add(op.name)
        self.variables.add(holder)
        if split_input or lookup:
            self._exchange(op, Phase.FORWARD, self.tensors.elements(op.output()))
            return
        self.split.update(self.tensors.root(t) for t in op.outputs_named())
        entering = self.tensors.root(op.inputs[1 - weight])
        if entering not in self.entered:
            self.entered.add(entering)
            self._exchange(op, Phase.BACKWARD, self.tensors.elements(entering))

    def _reduces(self, op: Op) -> bool:
        """Whether a reduction runs over the dim that is split: it makes fewer elements, or is known to."""
        before, after = self.tensors.elements(op.inputs[0]), self.tensors.elements(op.output())
        return op.type in _ROWS or before.at(64) > 1.5 * after.at(64)

    def _exchange(self, op: Op, phase: Phase, elements: Curve) -> None:
        self.exchanges.setdefault(op.name, []).append((phase, elements))
