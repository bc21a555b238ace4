"""Which nodes of a lowering run only where a branch of a conditional is taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whale.ir.placement import REPLICATED
from whale.ir.program import Op, split_tensor
from whale.rewriter.build import type_attr
from whale.rewriter.loop_checks import Unloopable
from whale.sharding.branches import branches
from whale.sharding.order import EXITS, SWITCHES

if TYPE_CHECKING:
    from whale.rewriter.lower import Lowering


class BranchLife:
    """The branches of a run, and the nodes that live and die with them."""

    def __init__(self, lowering: Lowering) -> None:
        self.low = lowering
        self.of = branches(lowering.analysis.order)
        """By op in a conditional: the Switch output that brings it to life."""
        self._of_node: dict[str, str] = {}

    def note(self, node: str, branch: str) -> None:
        """Notes that a node runs only where a branch is taken."""
        self._of_node[node] = branch

    @property
    def nodes(self) -> frozenset[str]:
        """The nodes that run only where a branch is taken."""
        return frozenset(self._of_node)

    def dies(self, tensor: str, value: str, branch: str) -> bool:
        """Whether the node output that a copy reads for a tensor is there only where a branch is taken."""
        if tensor == branch:
            return any(value == self.low.tensors.get((tensor, copy)) for copy in self.low.copies)
        return self._of_node.get(value.rpartition(":")[0]) == branch

    def alive(self, branch: str, copy: int, op: str) -> str:
        """A node that runs only where a branch is taken: what a copy of an op in it works on may come from outside."""
        low = self.low
        if self._is_around(branch, op):
            return self._live(branch, copy).rpartition(":")[0]
        dtype = {"T": type_attr(low.dtype(branch))}
        value = low.get(branch, None, copy)
        made = low.builder.node(low.place(branch, copy), "Identity", [value], "whale/alive", dtype).rpartition(":")[0]
        self.note(made, branch)
        return made

    # -- beside a loop over micro-batches ----------------------------------------------------------------------

    def _is_around(self, branch: str, op: str) -> bool:
        """Whether an op is once for all micro-batches, and its branch passes values of each of them.

        A wait for one of these would be a wait for the loop, which ends whether a branch in it was taken or not.
        """
        return bool(self.low.micro_batch) and op not in self.low.divided and split_tensor(branch)[0] in self.low.divided

    def life(self, tensor: str, copy: int) -> tuple[str, str]:
        """Two outputs beside the loop: one that is there only where the branch that a tensor is in is taken, and one
        only where it is not. Empty for what is in no branch."""
        name = split_tensor(tensor)[0]
        op = self.low.ops.get(name)
        if op is None or len(self.low.analysis.order.frame(name)) > (op.type in EXITS):
            return "", ""
        branch = tensor if op.type in SWITCHES and self.is_conditional(op) else self.of.get(name)
        if branch is None:
            return "", ""
        absent: list[str] = []
        around: str | None = branch
        while around is not None:
            absent.append(self._passed(around, copy, taken=False))
            around = self.of.get(split_tensor(around)[0])
        if len(absent) > 1:
            place, attrs = self.low.place(branch, copy), {"T": type_attr("bool"), "N": len(absent)}
            absent = [self.low.builder.node(place, "Merge", absent, "whale/absent", attrs)]
        return self._live(branch, copy), absent[0]

    def is_conditional(self, switch: Op) -> bool:
        """Whether a Switch is that of a conditional, not of a loop."""
        predicate = self.low.ops.get(split_tensor(switch.inputs[1])[0])
        return predicate is None or predicate.type != "LoopCond"

    def _live(self, branch: str, copy: int) -> str:
        """A node's output that is there only where a branch is taken."""
        made = self._passed(branch, copy, taken=True)
        self.note(made.rpartition(":")[0], branch)
        return made

    def _passed(self, branch: str, copy: int, taken: bool) -> str:
        """What passes a Switch of a conditional to one side: its predicate, or what tells that the one around lives."""
        low = self.low
        name, side = split_tensor(branch)
        predicate = low.ops[name].inputs[1]
        if split_tensor(predicate)[0] in low.divided:
            raise Unloopable(f"the predicate of '{name}' is found in each micro-batch")
        value = low.get(predicate, REPLICATED, copy)
        around = self.of.get(name)
        data = value if around is None else self._live(around, copy)
        place, kind = low.place(branch, copy), {"T": type_attr("bool")}
        switch = low.builder.node(place, "Switch", [data, value], "whale/branch", kind).rpartition(":")[0]
        output = f"{switch}:{side if taken else 1 - side}"
        return low.builder.node(place, "Identity", [output], "whale/alive" if taken else "whale/absent", kind)
