"""Types of the inputs of a node, from its attributes and the definition of its op."""

from __future__ import annotations

from tensorflow.core.framework import node_def_pb2, types_pb2

from whale import _tf


def input_types(node: node_def_pb2.NodeDef) -> list[tuple[int, bool]]:
    """For each data input of a node: its type as TensorFlow numbers it, and whether it is a reference."""
    found: list[tuple[int, bool]] = []
    definition = _tf.op_definition(node.op)
    assert definition is not None, f"an op of type {node.op} that TensorFlow does not know"
    for arg in definition.input_arg:
        if arg.type_list_attr:
            found.extend((kind, arg.is_ref) for kind in node.attr[arg.type_list_attr].list.type)
            continue
        kind = arg.type if arg.type != types_pb2.DT_INVALID else node.attr[arg.type_attr].type
        count = node.attr[arg.number_attr].i if arg.number_attr else 1
        found.extend([(kind, arg.is_ref)] * count)
    return found
