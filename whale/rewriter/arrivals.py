"""A count of the runs whose input is there.

One node counts up when everything has come that a run waits for from outside. Another run can read the count, so that
it is known of a run that does not go on whether it waits for its input.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping

from tensorflow.core.framework.node_def_pb2 import NodeDef

from whale.rewriter.build import Builder, Place, shape_attr, type_attr
from whale.rewriter.frames import producer
from whale.rewriter.outside import outside
from whale.rewriter.shadow import Shadow

_LEAVES = frozenset({"Exit", "RefExit", "Merge", "RefMerge"})
_WITHIN = frozenset({"Enter", "RefEnter", "Switch", "RefSwitch"})


@dataclasses.dataclass(frozen=True)
class Arrival:
    """The nodes that count."""

    awaited: frozenset[str]
    """Names of the nodes that have finished when the count goes up."""
    count: str
    """Target of the run whose input is counted."""
    reset: str
    """Target that makes the count 0."""
    read: str
    """Tensor that holds the count."""


def count_arrivals(shadow: Shadow, roots: Iterable[str], fed: Collection[str], device: str) -> Arrival | None:
    """Collects the nodes that count the arrivals of a run's input.

    Args:
        shadow: with the run's nodes imported.
        roots: nodes and tensors that are run.
        fed: tensors that are fed.
        device: where it counts.

    Returns:
        None where nothing is awaited, or something of it in a loop or a conditional, which may not run or run often.
    """
    graph = shadow.graph.as_graph_def()
    nodes = {node.name: node for node in graph.node}
    awaited = sorted(node.name for node in outside(graph, roots, fed))
    if not awaited or any(_is_within(name, nodes) for name in awaited):
        return None
    return _emit(shadow, awaited, device)


def _emit(shadow: Shadow, awaited: list[str], device: str) -> Arrival:
    place = Place(shadow.origins[awaited[0]].op if awaited[0] in shadow.origins else awaited[0], 0, device)
    build = Builder(shadow, "")
    kind = {"dtype": type_attr("int64")}
    name = shadow.unique("whale/arrivals")
    attrs = {**kind, "shape": shape_attr([]), "shared_name": name, "container": ""}
    build.named(place, name, "VarHandleOp", [], attrs)
    zero, one = build.const(place, 0, "int64"), build.const(place, 1, "int64")
    reset = build.node(place, "AssignVariableOp", [f"{name}:0", zero], "whale/arrivals/reset", kind, shared=False)
    count = build.node(
        place, "AssignAddVariableOp", [f"{name}:0", one], "whale/arrivals/count", kind, awaited, shared=False
    )
    read = build.node(place, "ReadVariableOp", [f"{name}:0"], "whale/arrivals/read", kind, shared=False)
    return Arrival(frozenset(awaited), producer(count), producer(reset), read)


def _is_within(name: str, nodes: Mapping[str, NodeDef]) -> bool:
    """Whether a node is in a loop or a branch of a conditional."""
    seen, stack = {name}, [name]
    while stack:
        node = nodes[stack.pop()]
        if node.op in _WITHIN:
            return True
        if node.op not in _LEAVES:
            new = {producer(text) for text in node.input} - seen
            seen |= new
            stack.extend(new)
    return False
