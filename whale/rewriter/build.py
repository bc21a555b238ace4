"""Making nodes: a thin layer over NodeDef that names, places and shares them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.core.framework import attr_value_pb2, node_def_pb2

from whale.rewriter.shadow import Origin, Shadow, set_attributes

if TYPE_CHECKING:
    from whale.rewriter.mesh import Mesh


def type_attr(dtype: str) -> attr_value_pb2.AttrValue:
    """An attribute holding a type."""
    return attr_value_pb2.AttrValue(type=tf.as_dtype(dtype).base_dtype.as_datatype_enum)


def shape_attr(shape: Sequence[int | None] | None) -> attr_value_pb2.AttrValue:
    """An attribute holding a shape; None for unknown rank or dim."""
    return attr_value_pb2.AttrValue(shape=tf.TensorShape(shape).as_proto())


@dataclasses.dataclass(frozen=True)
class Place:
    """Where helper nodes of one op go."""

    op: str
    """The user's op they serve."""
    replica: int
    """The copy."""
    device: str
    """Device string."""
    near: str = ""
    """Inside a loop: a node of the same frame, on which constants hang by a control edge; empty outside."""
    enter: Callable[[str, str], str] | None = None
    """Inside a loop: brings a value made outside (name, dtype) into the frame."""


class Builder:
    """Makes nodes of the shadow graph, sharing equal ones."""

    def __init__(self, shadow: Shadow, prefix: str, owner: str = "", mesh: Mesh | None = None) -> None:
        """``owner`` names the run that keeps its nodes to itself; empty where runs share equal ones."""
        self.mesh = mesh
        self.shadow = shadow
        self.prefix = prefix
        self.owner = owner

    def node(
        self,
        place: Place,
        op_type: str,
        inputs: Sequence[str],
        hint: str,
        attrs: Mapping[str, Any] | None = None,
        controls: Sequence[str] = (),
        shared: bool = True,
        key: Any = None,
    ) -> str:
        """Makes a node, or finds an equal one (or one made under the same key); returns its first output."""
        attrs = attrs or {}
        if shared and key is None:
            frozen = tuple(sorted((k, _freeze(v)) for k, v in attrs.items()))
            key = (op_type, place.device, tuple(inputs), tuple(controls), frozen)
        if key is not None and self.owner:
            key = (key, self.owner)
        earlier = self.shadow.earlier(key) if key is not None else None
        if earlier is not None:
            return f"{earlier}:0"
        node = node_def_pb2.NodeDef(op=op_type, device=place.device)
        label = self.mesh.label(place.replica) if self.mesh is not None else f"replica_{place.replica}"
        node.name = self.shadow.unique(f"{self.prefix}{label}/{hint}")
        node.input.extend(inputs)
        node.input.extend(f"^{c}" for c in controls)
        set_attributes(node, attrs)
        self.shadow.add(node, self._origin(place, op_type), key)
        return f"{node.name}:0"

    def named(self, place: Place, name: str, op_type: str, inputs: Sequence[str], attrs: Mapping[str, Any]) -> None:
        """Makes a node under a name that ``unique`` gave out before."""
        node = node_def_pb2.NodeDef(op=op_type, device=place.device, name=name)
        node.input.extend(inputs)
        set_attributes(node, attrs)
        self.shadow.add(node, self._origin(place, op_type))

    def _origin(self, place: Place, op_type: str) -> Origin:
        if self.mesh is None:
            return Origin(place.op, place.replica, own=op_type)
        return self.mesh.origin(place.op, place.replica, op_type)

    def const(self, place: Place, value: Any, dtype: str) -> str:
        """A small constant."""
        array = np.asarray(value, dtype=tf.as_dtype(dtype).as_numpy_dtype)
        proto = attr_value_pb2.AttrValue(tensor=tf.make_tensor_proto(array, dtype=tf.as_dtype(dtype)))
        controls = [place.near] if place.near else []
        return self.node(place, "Const", [], "whale/const", {"dtype": type_attr(dtype), "value": proto}, controls)

    def binary(self, place: Place, op_type: str, a: str, b: str, dtype: str) -> str:
        """An element-wise op of two operands."""
        return self.node(place, op_type, [a, b], f"whale/{op_type.lower()}", {"T": type_attr(dtype)})

    def cast(self, place: Place, value: str, source: str, target: str) -> str:
        """A cast, or the value itself where the types agree."""
        if source == target:
            return value
        attrs = {"SrcT": type_attr(source), "DstT": type_attr(target)}
        return self.node(place, "Cast", [value], "whale/cast", attrs)

    def shape(self, place: Place, value: str, dtype: str, out: str = "int32") -> str:
        """The shape of a tensor."""
        return self.node(place, "Shape", [value], "whale/shape", {"T": type_attr(dtype), "out_type": type_attr(out)})

    def element(self, place: Place, vector: str, index: int, dtype: str) -> str:
        """One element of a vector, as a scalar."""
        bounds = [self.const(place, [index], "int32"), self.const(place, [index + 1], "int32")]
        step = self.const(place, [1], "int32")
        attrs = {"T": type_attr(dtype), "Index": type_attr("int32"), "shrink_axis_mask": 1}
        attrs.update(begin_mask=0, end_mask=0, ellipsis_mask=0, new_axis_mask=0)
        return self.node(place, "StridedSlice", [vector, *bounds, step], "whale/element", attrs)

    def pack(self, place: Place, items: Sequence[str], dtype: str) -> str:
        """Scalars as a vector, or tensors of one shape stacked on a new first dim."""
        attrs = {"T": type_attr(dtype), "N": len(items), "axis": 0}
        return self.node(place, "Pack", list(items), "whale/pack", attrs)

    def concat(self, place: Place, items: Sequence[str], axis: int, dtype: str) -> str:
        """Tensors joined along a dim."""
        if len(items) == 1:
            return items[0]
        attrs = {"T": type_attr(dtype), "N": len(items), "Tidx": type_attr("int32")}
        return self.node(place, "ConcatV2", [*items, self.const(place, axis, "int32")], "whale/concat", attrs)

    def add_n(self, place: Place, items: Sequence[str], dtype: str) -> str:
        """The sum of tensors."""
        if len(items) == 1:
            return items[0]
        return self.node(place, "AddN", list(items), "whale/sum", {"T": type_attr(dtype), "N": len(items)})

    def reshape(self, place: Place, value: str, shape: str, dtype: str) -> str:
        """A reshape to an int32 shape vector."""
        attrs = {"T": type_attr(dtype), "Tshape": type_attr("int32")}
        return self.node(place, "Reshape", [value, shape], "whale/reshape", attrs)

    def slice(self, place: Place, value: str, begin: str, size: str, dtype: str) -> str:
        """A slice by int32 begin and size vectors."""
        attrs = {"T": type_attr(dtype), "Index": type_attr("int32")}
        return self.node(place, "Slice", [value, begin, size], "whale/slice", attrs)

    def reduce(
        self, place: Place, op_type: str, value: str, axes: Sequence[int], dtype: str, keep: bool = False
    ) -> str:
        """A reduction over constant axes."""
        attrs: dict[str, Any] = {"Tidx": type_attr("int32"), "keep_dims": keep}
        if op_type not in ("All", "Any"):
            attrs["T"] = type_attr(dtype)
        axis = self.const(place, list(axes), "int32")
        return self.node(place, op_type, [value, axis], f"whale/{op_type.lower()}", attrs)


def _freeze(value: Any) -> Any:
    if hasattr(value, "SerializeToString"):
        return value.SerializeToString(deterministic=True)
    return tuple(value) if isinstance(value, (list, tuple)) else value
