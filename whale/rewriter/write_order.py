"""What a write of a variable waits for on its copy, beside what the script made it wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whale.ir.program import Op, split_tensor
from whale.sharding.rules.state import HOLDERS, writes_variable, written

if TYPE_CHECKING:
    from whale.rewriter.lower import Lowering

_ALIASES = frozenset(
    {"Identity", "ReadVariableOp", "StopGradient", "PreventGradient", "Reshape", "ExpandDims", "Squeeze"}
)
"""Ops whose output may be the very memory of their input, so that whoever reads it reads the variable."""


class WriteOrder:
    """Control edges that keep a copy's updates behind its own reads."""

    def __init__(self, lowering: Lowering) -> None:
        self.lowering = lowering
        self._readers: dict[str, list[str]] | None = None
        self._position: dict[str, int] = {}
        self._frontiers: dict[str, frozenset[str]] = {}

    def earlier_reads(self, op: Op, replica: int, frame: tuple[str, ...]) -> list[str]:
        """The reads of a variable that the script made before a write of it, on a copy.

        TensorFlow leaves them unordered where the written value does not depend on them (the output of a last linear
        layer, a loss fetched beside the update); on one device they come first in practice, over several they need not.
        """
        low = self.lowering
        variables = () if frame else written(low.ops, op)
        if not variables:
            return []
        if self._readers is None:
            self._readers = self._find_readers()
        position = self._position[op.name]
        found = []
        for reader in (r for variable in variables for r in self._readers.get(variable, ())):
            if self._position[reader] < position and not low.analysis.order.frame(reader):
                indices = dict.fromkeys(low.index(reader, copy) for copy in low.served(op.name, replica))
                found.extend(low.names[reader, index] for index in indices if (reader, index) in low.names)
        return found

    def _find_readers(self) -> dict[str, list[str]]:
        """By variable: the ops that read its value, through identities too."""
        alias: dict[str, str] = {}
        readers: dict[str, list[str]] = {}
        for op in self.lowering.analysis.order.ops:
            self._position[op.name] = len(self._position)
            if op.type in HOLDERS:
                alias[op.output(0)] = op.name
                continue
            for tensor in op.inputs:
                holder = alias.get(tensor)
                if holder is None or writes_variable(op.type):
                    continue
                readers.setdefault(holder, []).append(op.name)
                if op.type in _ALIASES:
                    alias.update((t, holder) for t in op.outputs_named())
        return readers

    def own_reads(self, op: Op, replica: int, frame: tuple[str, ...]) -> list[str]:
        """What a write on a copy must wait for there although the value it writes comes from home.

        On one device the write follows every op that led to its value, reads of the variable among them. Where the
        way leads over ops that run at home alone, the copy's own ops on it are waited for by control edges.
        """
        low = self.lowering
        found: set[str] = set()
        for tensor in op.inputs:
            found |= self._frontier(split_tensor(tensor)[0])
        for control in op.controls:
            found |= self._frontier(control)
        beside = [name for name in found if low.analysis.order.frame(name) == frame]
        own = {(name, low.index(name, copy)) for name in beside for copy in low.served(op.name, replica)}
        return sorted(low.names[key] for key in own if key in low.names)

    def _frontier(self, name: str) -> frozenset[str]:
        """Going back from an op over ops that run at home alone: the first ops that run on every copy."""
        low = self.lowering
        if name in self._frontiers:
            return self._frontiers[name]
        stack = [name]
        while stack:
            top = stack[-1]
            op = low.ops.get(top)
            if op is None or low.residence.all(top) or top in self._frontiers:
                self._frontiers.setdefault(top, frozenset())
                stack.pop()
                continue
            before = [split_tensor(t)[0] for t in op.inputs if t not in low.feeds] + list(op.controls)
            missing = [
                n
                for n in before
                if n in low.ops and not low.residence.all(n) and n not in self._frontiers and n not in stack
            ]
            if missing:
                stack.extend(missing)
                continue
            union = {n for n in before if n in low.ops and low.residence.all(n)}
            for n in before:
                union |= self._frontiers.get(n, frozenset())
            self._frontiers[top] = frozenset(union)
            stack.pop()
        return self._frontiers[name]
