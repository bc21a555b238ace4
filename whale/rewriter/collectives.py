"""What a run that is about to be imported does with its collectives, for ``whale.ir.verify``."""

from __future__ import annotations

from collections.abc import Iterable

from whale.ir.verify import check_groups
from whale.rewriter.shadow import Shadow


def check_collectives(shadow: Shadow, roots: Iterable[str]) -> None:
    """Checks that a run reaches every member of each collective that was collected for it, and no device holds two.

    Args:
        shadow: with the run's nodes collected and not yet imported. Nodes imported earlier belong to other runs: none
            of them reads a new node, and no new node reads a collective of theirs.
        roots: the nodes that the run fetches and targets, tensor names allowed.

    Raises:
        VerifyError: it would hang.
    """
    nodes = {node.name: node for node in shadow.pending}
    members: dict[int, list[str]] = {}
    devices: dict[str, str] = {}
    for node in nodes.values():
        if node.op.startswith("Collective"):
            members.setdefault(shadow.integers[_producer(node.input[3])], []).append(node.name)
            devices[node.name] = node.device
    asked = {_producer(root) for root in roots}
    reads: dict[str, list[str]] = {}
    if not devices.keys() <= asked:  # else all are reached, and there is no need to look for ways to them
        reads = {name: [_producer(text) for text in node.input] for name, node in nodes.items()}
    check_groups(reads, list(members.values()), devices, asked)


def _producer(text: str) -> str:
    return text[1:] if text.startswith("^") else text.partition(":")[0]
