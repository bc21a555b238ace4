"""Which nodes of a lowering run only where a branch of a conditional is taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whale.rewriter.build import type_attr
from whale.sharding.branches import branches

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

    def holds(self, node: str) -> bool:
        """Whether a node runs only where a branch is taken."""
        return node in self._of_node

    def dies(self, tensor: str, value: str, branch: str) -> bool:
        """Whether the node output that a copy reads for a tensor is there only where a branch is taken."""
        if tensor == branch:
            return any(value == self.low.tensors.get((tensor, copy)) for copy in self.low.copies)
        return self._of_node.get(value.rpartition(":")[0]) == branch

    def alive(self, branch: str, copy: int) -> str:
        """A node that runs only where a branch is taken: what a copy in it works on may come from outside."""
        low = self.low
        dtype = {"T": type_attr(low.dtype(branch))}
        value = low.get(branch, None, copy)
        made = low.builder.node(low.place(branch, copy), "Identity", [value], "whale/alive", dtype)
        return made.rpartition(":")[0]
