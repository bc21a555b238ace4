"""Attribute values of the nodes that inlining makes, and attributes of those it reads."""

from __future__ import annotations

from collections.abc import Sequence

from tensorflow.core.framework import attr_value_pb2, node_def_pb2, tensor_pb2, tensor_shape_pb2, types_pb2

AttrValue = attr_value_pb2.AttrValue

BOOL = AttrValue(type=types_pb2.DT_BOOL)
INT32 = AttrValue(type=types_pb2.DT_INT32)


def of_type(dtype: int) -> AttrValue:
    """A type, by its enum number."""
    return AttrValue(type=dtype)  # type: ignore[arg-type]


def of_int(value: int) -> AttrValue:
    """An integer."""
    return AttrValue(i=value)


def of_bool(value: bool) -> AttrValue:
    """A boolean."""
    return AttrValue(b=value)


def of_text(value: str) -> AttrValue:
    """A string."""
    return AttrValue(s=value.encode())


def of_scalar(value: int) -> AttrValue:
    """An int32 scalar tensor."""
    shape = tensor_shape_pb2.TensorShapeProto()
    return AttrValue(tensor=tensor_pb2.TensorProto(dtype=types_pb2.DT_INT32, tensor_shape=shape, int_val=[value]))


def flag(node: node_def_pb2.NodeDef, name: str) -> bool:
    """A boolean attribute; False where it is absent. (Indexing an attribute map would add the attribute.)"""
    return name in node.attr and node.attr[name].b


def integer(node: node_def_pb2.NodeDef, name: str, default: int) -> int:
    """An integer attribute."""
    return node.attr[name].i if name in node.attr else default


def shapes(node: node_def_pb2.NodeDef, name: str) -> Sequence[tensor_shape_pb2.TensorShapeProto]:
    """A list of shapes; empty where it is absent."""
    return node.attr[name].list.shape if name in node.attr else ()
