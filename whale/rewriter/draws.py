"""Local batches: every copy draws its own from the input pipeline.

The draws of a step are made in order, the first by the user's own op. It alone raises OutOfRange, when nothing is
left; a later draw that finds nothing gives its copy an empty batch. Where the pipeline always gives batches of one
size (``drop_remainder``), an empty batch would not fit the script's shapes, and a step for which draws are missing
raises OutOfRange.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tensorflow.core.framework import attr_value_pb2

from whale.ir.program import Op
from whale.rewriter.build import Place, shape_attr, type_attr

if TYPE_CHECKING:
    from whale.rewriter.lower import Lowering


def draw(lowering: Lowering, op: Op) -> list[list[str]]:
    """Emits the draws of all copies, at home; for each draw, the node outputs that hold the components."""
    draws = [[lowering.tensors[op.output(i), 0] for i in range(len(op.outputs))]]
    before = lowering.names[op.name, 0]
    for replica in range(1, len(lowering.copies) * lowering.mesh.micro_batches):
        place = Place(op.name, replica, lowering.mesh.device(op.name, 0))
        open_ended = op.type.startswith("IteratorGetNext") and all(_is_open(kind.shape) for kind in op.outputs)
        if open_ended:
            components, before = _optional(lowering, op, place, before)
        else:
            components, before = _again(lowering, op, place, before)
        draws.append(components)
    return draws


def _is_open(shape: Sequence[int | None] | None) -> bool:
    return shape is None or (bool(shape) and shape[0] is None)


def _again(lowering: Lowering, op: Op, place: Place, before: str) -> tuple[list[str], str]:
    """The same op once more; it raises when nothing is left."""
    inputs = [lowering.get(t, None, 0) for t in op.inputs]
    attrs = lowering.attributes(op)
    hint = f"{op.name}/draw"
    first = lowering.builder.node(place, op.type, inputs, hint, attrs, [before], shared=False)
    name = first.rpartition(":")[0]
    return [f"{name}:{i}" for i in range(len(op.outputs))], name


def _optional(lowering: Lowering, op: Op, place: Place, before: str) -> tuple[list[str], str]:
    """The next element, or an empty one shaped like the first draw's."""
    build = lowering.builder
    types = attr_value_pb2.AttrValue.ListValue(type=[type_attr(k.dtype).type for k in op.outputs])
    shapes = attr_value_pb2.AttrValue.ListValue(shape=[shape_attr(k.shape).shape for k in op.outputs])
    kinds = {
        "output_types": attr_value_pb2.AttrValue(list=types),
        "output_shapes": attr_value_pb2.AttrValue(list=shapes),
    }
    iterator = lowering.get(op.inputs[0], None, 0)
    hint = f"{op.name}/draw"
    optional = build.node(place, "IteratorGetNextAsOptional", [iterator], hint, kinds, [before], shared=False)
    has = build.node(place, "OptionalHasValue", [optional], f"{hint}/has", {}, shared=False)
    variant = {"T": type_attr("variant")}
    switched = build.node(place, "Switch", [optional, has], f"{hint}/if", variant, shared=False).rpartition(":")[0]
    value = build.node(place, "OptionalGetValue", [f"{switched}:1"], f"{hint}/value", kinds, shared=False)
    name = value.rpartition(":")[0]
    components = []
    for i, kind in enumerate(op.outputs):
        empty = _empty(lowering, place, lowering.tensors[op.output(i), 0], kind.dtype)
        of_kind = {"T": type_attr(kind.dtype)}
        gate = build.node(place, "Switch", [empty, has], f"{hint}/empty", of_kind, shared=False)
        merged = build.node(place, "Merge", [gate, f"{name}:{i}"], f"{hint}/{i}", {**of_kind, "N": 2}, shared=False)
        components.append(merged)
    return components, optional.rpartition(":")[0]


def _empty(lowering: Lowering, place: Place, like: str, dtype: str) -> str:
    """No rows of a tensor."""
    build = lowering.builder
    zero, one = build.const(place, [0], "int32"), build.const(place, [1], "int32")
    masks = {"begin_mask": 0, "end_mask": 0, "ellipsis_mask": 0, "new_axis_mask": 0, "shrink_axis_mask": 0}
    attrs = {"T": type_attr(dtype), "Index": type_attr("int32"), **masks}
    return build.node(place, "StridedSlice", [like, zero, zero, one], "whale/empty", attrs)
