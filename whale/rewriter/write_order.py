"""What a write of a variable waits for on its copy, beside what the script made it wait for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from whale.ir.program import Op, split_tensor
from whale.sharding.rules.state import HOLDERS, written

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
        self._before: dict[str, str] = {}
        self._later_reads: list[tuple[str, str]] = []
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
        readers = self._read()
        position = self._position[op.name]
        found = []
        for reader in (r for variable in variables for r in readers.get(variable, ())):
            if self._position[reader] < position and not low.analysis.order.frame(reader):
                indices = dict.fromkeys(low.index(reader, copy) for copy in low.served(op.name, replica))
                found.extend(low.names[reader, index] for index in indices if (reader, index) in low.names)
        return found

    def earlier_write(self, op: Op, replica: int, frame: tuple[str, ...]) -> list[str]:
        """The write that comes before an update of a variable's own value, on a copy.

        Two ``apply_gradients`` of one Adam multiply the powers of its decay rates in one run, each when its updates are
        done. TensorFlow leaves the two unordered; on one device one has written before the other reads. Over several
        all updates may be done at once, and both would read the same value.
        """
        if frame:
            return []
        self._read()
        first = self._before.get(op.name)
        if first is None or self.lowering.analysis.order.frame(first):
            return []
        low = self.lowering
        indices = dict.fromkeys(low.index(first, copy) for copy in low.served(op.name, replica))
        return [low.names[first, index] for index in indices if (first, index) in low.names]

    def hold(self) -> None:
        """Lets updates of a variable's own value wait for other reads that the script made after them, on each copy.

        The second ``apply_gradients`` of an Adam reads the powers that the first one multiplies. TensorFlow leaves the
        two unordered. Copies that ran them in different orders would part.
        """
        low = self.lowering
        nodes = {node.name: node for node in low.shadow.pending} if self._later_reads else {}
        for write, reader in self._later_reads:
            for copy in low.copies_of(write):
                node = nodes.get(low.names.get((write, copy), ""))
                read = low.names.get((reader, low.index(reader, copy)))
                if node is not None and read is not None and f"^{read}" not in node.input:
                    node.input.append(f"^{read}")

    def _read(self) -> dict[str, list[str]]:
        if self._readers is None:
            self._readers = self._find_readers()
            self._before = self._find_updates(self._readers)
        return self._readers

    def _find_updates(self, readers: Mapping[str, list[str]]) -> dict[str, str]:
        """By op: the write that it comes after. Ops are updates of a variable's own value, and their reads of it.

        Only reads that the script made wait for an update are meant: others come at the start of a run.
        """
        low = self.lowering
        before: dict[str, str] = {}
        last: dict[str, str] = {}
        behind: set[str] = set()
        waiting: set[str] = set()
        for op in low.analysis.order.ops:
            sources = {split_tensor(tensor)[0] for tensor in op.inputs}
            variables = written(low.ops, op)
            if not behind.isdisjoint(sources) or not behind.isdisjoint(op.controls):
                waiting.add(op.name)
            if variables or op.name in waiting:
                behind.add(op.name)
            for variable in variables:
                first = last.get(variable)
                last[variable] = op.name
                if first is None:
                    continue
                values = [low.ops[name] for name in sources if name in low.ops]
                near = sources.union(split_tensor(tensor)[0] for value in values for tensor in value.inputs)
                for reader in near.intersection(readers.get(variable, ())):
                    late = not behind.isdisjoint(low.ops[reader].controls)
                    if late and self._position[first] < self._position[reader]:
                        before[reader] = before[op.name] = first
        frame = low.analysis.order.frame
        for write in dict.fromkeys(first for name, first in before.items() if not frame(first) and not frame(name)):
            for reader in (r for variable in written(low.ops, low.ops[write]) for r in readers.get(variable, ())):
                free = reader not in waiting and reader not in before and reader not in low.divided
                if free and not frame(reader) and self._position[reader] > self._position[write]:
                    self._later_reads.append((write, reader))
        return before

    def _find_readers(self) -> dict[str, list[str]]:
        """By variable: the ops that read its value, through identities too."""
        alias: dict[str, str] = {}
        readers: dict[str, list[str]] = {}
        for op in self.lowering.analysis.order.ops:
            self._position[op.name] = len(self._position)
            if op.type in HOLDERS:
                alias[op.output(0)] = op.name
                continue
            updated = written(self.lowering.ops, op)
            for tensor in op.inputs:
                holder = alias.get(tensor)
                if holder is None or holder in updated:
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
