"""Shapes of whole tensors, worked out from what one copy holds: Shape, ShapeN, Size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whale.ir.placement import REPLICATED, Sharded
from whale.ir.program import Op
from whale.rewriter.build import Place
from whale.sharding.facts import Decision

if TYPE_CHECKING:
    from whale.rewriter.lower import Lowering


def global_shape(lowering: Lowering, op: Op, decision: Decision) -> None:
    """The shape of a whole tensor, completed at home from a piece's."""
    lowering.set_output(op, 0, 0, _whole_shape(lowering, op, op.inputs[0], op.attrs.get("out_type", "int32")))


def global_shape_n(lowering: Lowering, op: Op, decision: Decision) -> None:
    """The shapes of several whole tensors."""
    for i, tensor in enumerate(op.inputs):
        lowering.set_output(op, 0, i, _whole_shape(lowering, op, tensor, op.attrs.get("out_type", "int32")))


def global_size(lowering: Lowering, op: Op, decision: Decision) -> None:
    """The number of elements of a whole tensor."""
    out = op.attrs.get("out_type", "int32")
    shape = _whole_shape(lowering, op, op.inputs[0], out)
    lowering.set_output(op, 0, 0, lowering.builder.reduce(lowering.place(op.inputs[0], 0), "Prod", shape, [0], out))


def _whole_shape(lowering: Lowering, op: Op, tensor: str, out: str) -> str:
    build, fact = lowering.builder, lowering.fact(tensor)
    place, dtype = lowering.place(tensor, 0), lowering.dtype(tensor)
    cut = fact.sharded
    if cut is None or fact.dims is None or tensor in lowering.sources:
        return build.shape(place, lowering.get(tensor, REPLICATED, 0), dtype, out)
    dims = fact.dims or ()
    if all(isinstance(d, int) for d in dims):
        return build.const(place, list(dims), out)
    total = _whole_dim(lowering, tensor, cut, place)
    if len(dims) == 1:
        return build.cast(place, build.pack(place, [total], "int32"), "int32", out)
    shape = build.shape(place, lowering.get(tensor, None, 0), dtype)
    sizes = [
        total
        if i == cut.dim
        else build.const(place, d, "int32")
        if isinstance(d, int)
        else build.element(place, shape, i, "int32")
        for i, d in enumerate(dims)
    ]
    return build.cast(place, build.pack(place, sizes, "int32"), "int32", out)


def _whole_dim(lowering: Lowering, tensor: str, cut: Sharded, place: Place) -> str:
    build = lowering.builder
    if isinstance(cut.outer, int) and isinstance(cut.inner, int):
        count = lowering.sizes.scalar(place, cut.batch, "count")
        factor = cut.outer * cut.inner
        if factor == 1:
            return count
        return build.binary(place, "Mul", count, build.const(place, factor, "int32"), "int32")
    sizes = []
    for replica in lowering.replicas:
        at = lowering.place(tensor, replica)
        shape = build.shape(at, lowering.get(tensor, None, replica), lowering.dtype(tensor))
        sizes.append(build.element(at, shape, cut.dim, "int32"))
    return build.add_n(place, sizes, "int32")


RECIPES = {
    "global_shape": global_shape,
    "global_shape_n": global_shape_n,
    "global_size": global_size,
}
