"""Types and static shapes of nodes that inlining made, as TensorFlow's shape inference finds them.

The nodes are imported into a scratch graph in which placeholders stand for what comes from the rest of the graph. A
loop's back edge is a placeholder too: its shape is what the loop op says its variables have after an iteration.
"""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow.compat.v1 as tf
from tensorflow.core.framework import graph_pb2, node_def_pb2, tensor_shape_pb2

from whale import _tf
from whale.annotations.inline_attributes import of_bool, of_type
from whale.ir.program import Op, TensorType, split_tensor

ShapeProto = tensor_shape_pb2.TensorShapeProto

_PASSES_HANDLES = frozenset({"Identity", "Switch", "Enter", "Exit", "Merge", "NextIteration"})

_BEFORE = "before"
"""Node of the scratch graph that stands for every op outside that a new node waits for."""


def infer(
    nodes: Mapping[str, node_def_pb2.NodeDef],
    turns: Mapping[str, ShapeProto | None],
    ops: Mapping[str, Op],
    library: bytes,
) -> dict[str, tuple[TensorType, ...]]:
    """Types of the outputs of the nodes, by node name.

    Args:
        nodes: the new nodes.
        turns: the Merges among them at which a loop variable turns, with its shape after an iteration.
        ops: the ops that are there already.
        library: functions that nodes still call; empty when none does.

    Raises:
        tf.errors.OpError: TensorFlow refuses a node.
    """
    scratch = _Scratch(ops)
    body = dict(nodes)
    for name, shape in turns.items():
        merge = nodes[name]
        enter = split_tensor(merge.input[0])[0]
        body[name] = scratch.open_loop(merge, shape)
        # Inference gives up at an Enter, except at one that is the same value in all iterations. Of the latter's shape
        # this Merge takes only what holds after an iteration too.
        body[enter] = _changed(nodes[enter])
        body[enter].attr["is_constant"].CopyFrom(of_bool(True))
    controls: set[str] = set()
    for node in body.values():
        for text in node.input:
            if text.startswith("^"):
                controls.add(text[1:])
            elif split_tensor(text)[0] not in nodes:
                scratch.stand_in(text)

    graph = tf.Graph()
    names = [n.name for n in scratch.made.node]
    handles = _tf.import_nodes(graph, scratch.made.SerializeToString(), {}, {}, names)
    inputs = {split_tensor(t): _tf.tensor_output(handles[n], 0) for t, n in scratch.inputs.items()}
    before = {name: handles[_BEFORE] for name in controls if name not in nodes}
    graph_def = graph_pb2.GraphDef(node=body.values())
    graph_def.versions.producer = _tf.graph_producer()
    graph_def.library.ParseFromString(library)
    handles = _tf.import_nodes(graph, graph_def.SerializeToString(), inputs, before, list(body))
    rows = _tf.inferred_types(graph, handles.values())
    return {name: tuple(TensorType(dtype, shape) for dtype, shape in row) for name, row in zip(handles, rows)}


def _changed(node: node_def_pb2.NodeDef) -> node_def_pb2.NodeDef:
    """A copy that may be changed."""
    copy = node_def_pb2.NodeDef()
    copy.CopyFrom(node)
    return copy


class _Scratch:
    """What the scratch graph holds beside the new nodes."""

    def __init__(self, ops: Mapping[str, Op]) -> None:
        self.ops = ops
        self.made = graph_pb2.GraphDef()
        self.made.versions.producer = _tf.graph_producer()
        self.made.node.add(name=_BEFORE, op="NoOp")
        self.inputs: dict[str, str] = {}
        """By tensor: the node of the scratch graph whose only output stands for it."""

    def open_loop(self, merge: node_def_pb2.NodeDef, shape: ShapeProto | None) -> node_def_pb2.NodeDef:
        """The Merge of a loop variable, reading a placeholder in place of the back edge."""
        tensor = f"after/{merge.name}:0"
        self._placeholder(tensor, merge.attr["T"].type, shape)
        copy = _changed(merge)
        copy.input[1] = tensor
        return copy

    def stand_in(self, tensor: str) -> None:
        """For a tensor of the graph: its op where its value or its handle's shape matters, else a placeholder."""
        if tensor in self.inputs:
            return
        source = self._source(tensor)
        if source is not None:
            node = self._add(source.type, tensor)
            name = node.name
            node.ParseFromString(source.node)
            node.name = name
            node.device = ""
            node.attr.pop("_class", None)
            del node.input[:]
            return
        name, index = split_tensor(tensor)
        kind = self.ops[name].outputs[index]
        shape = None if kind.shape is None else tf.TensorShape(kind.shape).as_proto()
        self._placeholder(tensor, tf.as_dtype(kind.dtype).base_dtype.as_datatype_enum, shape)

    def _placeholder(self, tensor: str, dtype: int, shape: ShapeProto | None) -> None:
        node = self._add("Placeholder", tensor)
        node.attr["dtype"].CopyFrom(of_type(dtype))
        if shape is None:
            node.attr["shape"].shape.unknown_rank = True
        else:
            node.attr["shape"].shape.CopyFrom(shape)

    def _add(self, op_type: str, tensor: str) -> node_def_pb2.NodeDef:
        self.inputs[tensor] = f"input_{len(self.inputs)}"
        return self.made.node.add(name=self.inputs[tensor], op=op_type)

    def _source(self, tensor: str) -> Op | None:
        """The small constant that a tensor is, or the op that made the handle it holds."""
        name, index = split_tensor(tensor)
        op = self.ops[name]
        if op.value is not None:
            return op
        if op.outputs[index].dtype != "resource":
            return None
        while op.type in _PASSES_HANDLES:
            op = self.ops[split_tensor(op.inputs[0])[0]]
        return op if not op.inputs and len(op.outputs) == 1 else None
