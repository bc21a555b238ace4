"""What a run that is about to be imported waits for: a proof that it comes to its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from tensorflow.core.framework.node_def_pb2 import NodeDef

from whale.ir.program import Op
from whale.ir.verify import check_groups
from whale.ir.waits import check_waits
from whale.rewriter.frames import frames, producer
from whale.rewriter.shadow import Shadow


def check_collectives(shadow: Shadow, roots: Iterable[str], ops: Mapping[str, Op]) -> None:
    """Checks that a run reaches every member of each collective collected for it, and that nothing waits for itself.

    Args:
        shadow: with the run's nodes collected and not yet imported. Nodes imported earlier belong to other runs: none
            of them reads a new node, and no new node reads a collective of theirs.
        roots: the nodes that the run fetches and targets, tensor names allowed.
        ops: the script's, by name: a message names those that the nodes are copies of or serve.

    Raises:
        VerifyError: it would hang, since a member is missing, or a node, a collective or a loop waits for its result.
    """
    nodes = {node.name: node for node in shadow.pending}
    members: dict[int, list[str]] = {}
    devices: dict[str, str] = {}
    for node in nodes.values():
        if node.op.startswith("Collective"):
            members.setdefault(shadow.integers[producer(node.input[3])], []).append(node.name)
            devices[node.name] = node.device
    asked = {producer(root) for root in roots}
    reads = {name: [producer(text) for text in node.input] for name, node in nodes.items()}
    check_groups(reads, list(members.values()), devices, asked)
    for reader, waited in (*_stacks(nodes), *_streams(nodes)):
        reads.setdefault(reader, []).append(waited)
    loops = {name: frame[0] for name, frame in frames(nodes).items()}
    check_waits(reads, list(members.values()), loops, in_words(shadow, ops))


def in_words(shadow: Shadow, ops: Mapping[str, Op]) -> Callable[[str], str]:
    """What messages call the nodes of a rewritten graph: the script's op that each is a copy of or serves.

    Args:
        shadow: with the nodes.
        ops: the script's, by name.
    """

    def shown(name: str) -> str:
        op = ops.get(shadow.origins[name].op) if name in shadow.origins else ops.get(name)
        return op.described() if op is not None else name

    return shown


def _stacks(nodes: Mapping[str, NodeDef]) -> Iterator[tuple[str, str]]:
    """By stack: what takes a value waits for what puts it there, in the loop before."""
    pushed: dict[str, list[str]] = {}
    for node in nodes.values():
        if node.op == "StackPushV2":
            pushed.setdefault(_stack(nodes, node), []).append(node.name)
    for node in nodes.values():
        if node.op == "StackPopV2":
            for name in pushed.get(_stack(nodes, node), ()):
                yield node.name, name


def _stack(nodes: Mapping[str, NodeDef], node: NodeDef) -> str:
    """The stack whose handle an op reads, through what brings it into a loop."""
    name = producer(node.input[0])
    while name in nodes and nodes[name].op != "StackV2" and nodes[name].input:
        name = producer(nodes[name].input[0])
    return name


def _streams(nodes: Mapping[str, NodeDef]) -> Iterator[tuple[str, str]]:
    """A random op of the script's own waits for the nodes that send it its inputs."""
    for node in nodes.values():
        if node.op == "_HostSend":
            yield node.attr["tensor_name"].s.decode().rpartition(":input_")[0], node.name
