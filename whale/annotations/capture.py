"""``tf.Graph`` to ``Program``.

Reads the user's graph and changes nothing. A capture can be extended: ops that a script adds after its session first
ran are read on their own and appended.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from whale import _tf
from whale.annotations.site import site_of
from whale.ir.program import Op, Program, TensorType

SMALL_CONSTANT = 1024
"""Constants of at most this many elements carry their value in the program; rules read shapes, axes and zeros."""

SCOPE_ATTRIBUTE = "_whale_scope"
"""Attribute stamped on ops made inside an annotation scope: the index of the scope."""

_DTYPE_NAMES: dict[int, str] = {}


def capture(graph: tf.Graph, base: Program | None = None) -> Program:
    """Reads a graph.

    Args:
        graph: the user's graph; not changed.
        base: an earlier capture of the same graph; only ops added since are read.
    """
    known: Mapping[str, Op] = base.ops if base is not None else {}
    graph_def = graph.as_graph_def()
    operations = {op.name: op for op in graph.get_operations()}
    ops = dict(known)
    for node in graph_def.node:
        if node.name not in ops:
            ops[node.name] = _read(node, operations[node.name])
    return Program(
        ops=ops,
        library=graph_def.library.SerializeToString(),
        versions=graph_def.versions.SerializeToString(),
    )


def _read(node: Any, operation: tf.Operation) -> Op:
    inputs = []
    controls = []
    for name in node.input:
        if name.startswith("^"):
            controls.append(name[1:])
        else:
            inputs.append(name if ":" in name else f"{name}:0")
    attrs = {key: value for key, value in ((k, attribute(a)) for k, a in node.attr.items()) if value is not None}
    original = _tf.original_op(operation)
    return Op(
        name=node.name,
        type=node.op,
        inputs=tuple(inputs),
        controls=tuple(controls),
        outputs=tuple(_tensor_type(t) for t in operation.outputs),
        attrs=attrs,
        node=node.SerializeToString(),
        device=node.device,
        value=constant(node) if node.op == "Const" else None,
        stateful=_tf.op_is_stateful(node.op),
        state=_tf.state_inputs(node.op),
        scope=attrs.get(SCOPE_ATTRIBUTE),
        forward=original.name if original is not None else None,
        site=site_of(operation),
    )


def _tensor_type(tensor: tf.Tensor) -> TensorType:
    shape = tensor.shape
    return TensorType(tensor.dtype.name, None if shape.rank is None else tuple(shape.as_list()))


def attribute(attr: Any) -> Any:
    """A plain value for an AttrValue; None for what no pass reads."""
    kind = attr.WhichOneof("value")
    if kind in ("i", "f", "b"):
        return getattr(attr, kind)
    if kind == "s":
        return attr.s.decode("utf-8", "replace")
    if kind == "type":
        return _dtype_name(attr.type)
    if kind == "shape":
        return _shape(attr.shape)
    if kind == "func":
        return attr.func.name
    if kind == "list":
        values = attr.list
        if values.i:
            return tuple(values.i)
        if values.s:
            return tuple(v.decode("utf-8", "replace") for v in values.s)
        if values.type:
            return tuple(_dtype_name(t) for t in values.type)
        if values.shape:
            return tuple(_shape(s) for s in values.shape)
        if values.f:
            return tuple(values.f)
        if values.b:
            return tuple(values.b)
        return ()
    return None


def _dtype_name(number: int) -> str:
    name = _DTYPE_NAMES.get(number)
    if name is None:
        name = _DTYPE_NAMES[number] = tf.as_dtype(number).name
    return name


def _shape(proto: Any) -> tuple[int | None, ...] | None:
    if proto.unknown_rank:
        return None
    return tuple(None if d.size < 0 else d.size for d in proto.dim)


def constant(node: Any) -> np.ndarray | None:
    """Value of a Const's NodeDef; None for more than ``SMALL_CONSTANT`` elements."""
    tensor = node.attr["value"].tensor
    count = 1
    for dim in tensor.tensor_shape.dim:
        count *= dim.size
    if count > SMALL_CONSTANT:
        return None
    return tf.make_ndarray(tensor)


def replace_ops(program: Program, ops: Mapping[str, Op]) -> Program:
    """The program with other ops, in the order given."""
    return dataclasses.replace(program, ops=ops)
