"""The shadow graph: the user's graph as it is, and beside it the nodes that rewriting adds.

Nodes are collected and imported together. A node made from the same op, device and inputs as an earlier one is that
earlier one, so runs with other fetches share all they agree on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf
from tensorflow.core.framework import graph_pb2, node_def_pb2

from whale import _tf
from whale.ir.program import Program, split_tensor
from whale.rewriter import streams


@dataclasses.dataclass(frozen=True)
class Origin:
    """Where a node of the shadow graph comes from."""

    op: str
    """The user's op, or the one it serves."""
    replica: int
    """The copy it belongs to."""
    micro_batches: int = 1
    """Copies that a replica has: one per micro-batch of a pipeline."""
    own: str = ""
    """The type of a node of Whale's own, which serves the op; empty for a copy of the op."""

    def __str__(self) -> str:
        replica, micro_batch = divmod(self.replica, self.micro_batches)
        return f"replica {replica}" + (f", micro-batch {micro_batch}" if self.micro_batches > 1 else "")


class Shadow:
    """A C graph without Python ops, and a note of what each added node is for."""

    def __init__(self) -> None:
        self.graph = tf.Graph()
        self.handles: dict[str, Any] = {}
        self.origins: dict[str, Origin] = {}
        self.integers: dict[str, int] = {}
        """Values of the added scalar int32 constants, of which keys of collectives are some."""
        self._pending: list[node_def_pb2.NodeDef] = []
        self._names: set[str] = set()
        self._made: dict[Any, str] = {}
        self._mirrors: dict[tuple[str, int], str] = {}
        self._imported_user_ops = 0
        self.streams: dict[str, tuple[str, ...]] = {}
        """By random op that receives its inputs: the nodes that send it those of the user's graph."""

    # -- the user's graph --------------------------------------------------------------------------------------

    def extend_user_graph(self, program: Program, device: Callable[[str], str] | None = None) -> None:
        """Adds the user's ops that are not there yet, under their own names.

        ``device`` says where an op goes that has a stage; else ops go where the script pins them.
        """
        names = list(program.ops)[self._imported_user_ops :]
        if not names:
            return
        graph_def = graph_pb2.GraphDef()
        graph_def.versions.ParseFromString(program.versions)
        graph_def.library.ParseFromString(program.library)
        late = self._imported_user_ops > 0
        receivers = streams.receiving(program)
        for name in names:
            if name in receivers:
                self._add_receiver(graph_def, program, name)
            else:
                graph_def.node.add().ParseFromString(program.ops[name].node)
        if device is not None:
            for node in graph_def.node:
                if node.name in program.ops:
                    node.device = device(node.name)
        if late:
            for node in graph_def.node:
                if "_class" in node.attr:
                    del node.attr["_class"]
        self._import(graph_def, [node.name for node in graph_def.node])
        self._imported_user_ops += len(names)
        self._names.update(node.name for node in graph_def.node)

    def _add_receiver(self, graph_def: graph_pb2.GraphDef, program: Program, name: str) -> None:
        op = program.ops[name]
        sending = [streams.sender(op, program, index) for index in range(len(op.inputs))]
        graph_def.node.extend([*streams.receiver(op, program), *sending])
        self.streams[name] = tuple(node.name for node in sending)

    # -- added nodes -------------------------------------------------------------------------------------------

    def unique(self, name: str) -> str:
        """A node name nobody has yet."""
        candidate, number = name, 0
        while candidate in self._names:
            number += 1
            candidate = f"{name}_{number}"
        self._names.add(candidate)
        return candidate

    def earlier(self, key: Any) -> str | None:
        """The name of a node made under the same key before."""
        return self._made.get(key)

    def add(self, node: node_def_pb2.NodeDef, origin: Origin, key: Any = None) -> str:
        """Adds a node; its name must come from ``unique``."""
        self._pending.append(node)
        self.origins[node.name] = origin
        if node.op == "Const" and len(node.attr["value"].tensor.int_val) == 1:
            self.integers[node.name] = node.attr["value"].tensor.int_val[0]
        if key is not None:
            self._made[key] = node.name
        return node.name

    @property
    def pending(self) -> Sequence[node_def_pb2.NodeDef]:
        """The nodes collected since the last import."""
        return self._pending

    def replace_pending(self, nodes: Sequence[node_def_pb2.NodeDef]) -> None:
        """Puts others in the place of the nodes collected since the last import."""
        self._pending = list(nodes)

    def discard(self) -> None:
        """Forgets the nodes collected since the last import."""
        gone = {n.name for n in self._pending}  # their names stay taken: an import may have failed half way
        self._pending = []
        self._made = {k: v for k, v in self._made.items() if v not in gone}
        self.origins = {k: v for k, v in self.origins.items() if k not in gone}

    def mirror(self, variable: str, replica: int) -> str:
        """The node that holds a variable on another device."""
        return self._mirrors[variable, replica]

    def note_mirror(self, variable: str, replica: int, node: str) -> None:
        """Notes the node that holds a variable on a device."""
        self._mirrors[variable, replica] = node

    def flush(self) -> int:
        """Imports the nodes collected since the last call; returns how many."""
        if not self._pending:
            return 0
        graph_def = graph_pb2.GraphDef()
        graph_def.versions.producer = _tf.graph_producer()
        graph_def.node.extend(self._pending)
        names = [n.name for n in self._pending]
        self._import(graph_def, names)
        self._pending = []
        return len(names)

    def _import(self, graph_def: graph_pb2.GraphDef, names: Sequence[str]) -> None:
        new = set(names)
        inputs: dict[tuple[str, int], Any] = {}
        controls: dict[str, Any] = {}
        for node in graph_def.node:
            for text in node.input:
                if text.startswith("^"):
                    if text[1:] not in new:
                        controls[text[1:]] = self.handles[text[1:]]
                    continue
                name, index = split_tensor(text if ":" in text else f"{text}:0")
                if name not in new and (name, index) not in inputs:
                    inputs[name, index] = _tf.tensor_output(self.handles[name], index)
        self.handles.update(_tf.import_nodes(self.graph, graph_def.SerializeToString(), inputs, controls, names))

    def output(self, tensor: str) -> Any:
        """The TF_Output of a tensor name."""
        name, index = split_tensor(tensor)
        return _tf.tensor_output(self.handles[name], index)


def set_attributes(node: node_def_pb2.NodeDef, attributes: Mapping[str, Any]) -> None:
    """Sets attributes of a node from plain values; types and shapes come as AttrValue."""
    for key, value in attributes.items():
        attr = node.attr[key]
        if hasattr(value, "SerializeToString"):
            attr.CopyFrom(value)
        elif isinstance(value, bool):
            attr.b = value
        elif isinstance(value, int):
            attr.i = value
        elif isinstance(value, float):
            attr.f = value
        elif isinstance(value, str):
            attr.s = value.encode()
        else:
            attr.list.i.extend(value)
