"""The loops of a rewritten graph: which frame each node runs in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorflow.core.framework.node_def_pb2 import NodeDef

from whale.sharding.order import BACK_EDGES, ENTERS, EXITS, MERGES

Frame = tuple[str, ...]
"""Names of the loops around a node, the outermost first."""


def producer(text: str) -> str:
    """The node that an input of a NodeDef, or a tensor's name, speaks of."""
    return text[1:] if text.startswith("^") else text.partition(":")[0]


def frames(nodes: Mapping[str, NodeDef]) -> dict[str, Frame]:
    """The frame of every node in a loop. An Enter counts as inside, and so does an Exit.

    Args:
        nodes: by name; what they read besides is in no loop.
    """
    # An inner loop's Enter is reached again from the outer one's, with the longer frame.
    stack: list[tuple[str, Frame]] = [(name, ()) for name in _of_types(nodes, ENTERS)]
    if not stack:
        return {}
    readers: dict[str, list[str]] = {}
    for node in nodes.values():
        for text in node.input:
            name = producer(text)
            if name in nodes and not (node.op in MERGES and nodes[name].op in BACK_EDGES):
                readers.setdefault(name, []).append(node.name)
    found: dict[str, Frame] = {}
    while stack:
        name, around = stack.pop()
        node = nodes[name]
        frame = (*around, node.attr["frame_name"].s.decode()) if node.op in ENTERS else around
        if len(found.get(name, ())) >= len(frame):
            continue
        found[name] = frame
        after = frame[:-1] if node.op in EXITS else frame
        if after:
            stack.extend((reader, after) for reader in readers.get(name, ()))
    return found


def turns(nodes: Mapping[str, NodeDef], framed: Mapping[str, Frame]) -> dict[str, Sequence[str]]:
    """By Exit: the back edges of its loop, which end before it does.

    Args:
        nodes: by name.
        framed: their frames.
    """
    back: dict[Frame, list[str]] = {}
    for name in _of_types(nodes, BACK_EDGES):
        back.setdefault(framed.get(name, ()), []).append(name)
    return {name: back.get(framed.get(name, ()), ()) for name in _of_types(nodes, EXITS)}


def _of_types(nodes: Mapping[str, NodeDef], types: frozenset[str]) -> list[str]:
    return [name for name, node in nodes.items() if node.op in types]
