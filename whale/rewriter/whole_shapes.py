"""Shapes of whole tensors, worked out from what one copy holds: Shape, ShapeN, Size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whale.errors import VerifyError
from whale.ir.dims import Dim
from whale.ir.placement import REPLICATED, Sharded
from whale.ir.program import Op
from whale.rewriter.build import Place, type_attr
from whale.sharding.facts import Decision

if TYPE_CHECKING:
    from whale.rewriter.lower import Lowering


FILLS = frozenset({"OnesLike", "ZerosLike"})
"""Ops of whose input only the shape matters."""


def global_shape(lowering: Lowering, op: Op, decision: Decision) -> None:
    """The shape of a whole tensor, completed from a piece's: at home, in loops by every copy."""
    for copy in lowering.copies_of(op.name):
        shape = _whole_shape(lowering, op.inputs[0], op.attrs.get("out_type", "int32"), copy)
        lowering.set_output(op, copy, 0, shape)


def global_shape_n(lowering: Lowering, op: Op, decision: Decision) -> None:
    """The shapes of several whole tensors."""
    for copy in lowering.copies_of(op.name):
        for i, tensor in enumerate(op.inputs):
            shape = _whole_shape(lowering, tensor, op.attrs.get("out_type", "int32"), copy)
            lowering.set_output(op, copy, i, shape)


def global_size(lowering: Lowering, op: Op, decision: Decision) -> None:
    """The number of elements of a whole tensor."""
    out, tensor = op.attrs.get("out_type", "int32"), op.inputs[0]
    for copy in lowering.copies_of(op.name):
        place = lowering.place(tensor, copy)
        shape = _whole_shape(lowering, tensor, out, copy)
        lowering.set_output(op, copy, 0, lowering.builder.reduce(place, "Prod", shape, [0], out))


def _whole_shape(lowering: Lowering, tensor: str, out: str, copy: int) -> str:
    build, fact = lowering.builder, lowering.fact(tensor)
    place, dtype = lowering.place(tensor, copy), lowering.dtype(tensor)
    cut = fact.sharded
    at_home = tensor in lowering.sources and not lowering.entries.is_draw(tensor)
    if cut is None or fact.dims is None or at_home:
        return build.shape(place, lowering.get(tensor, REPLICATED, copy), dtype, out)
    dims = fact.dims or ()
    if all(isinstance(d, int) for d in dims):
        return build.const(place, list(dims), out)
    total = _whole_dim(lowering, tensor, cut, place)
    if len(dims) == 1:
        return build.cast(place, build.pack(place, [total], "int32"), "int32", out)
    shape = ""
    if any(not isinstance(d, int) for i, d in enumerate(dims) if i != cut.dim):
        shape = build.shape(place, lowering.get(tensor, None, copy), dtype)
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
    for replica in lowering.copies:
        at = lowering.place(tensor, replica)
        shape = build.shape(at, lowering.get(tensor, None, replica), lowering.dtype(tensor))
        sizes.append(build.element(at, shape, cut.dim, "int32"))
    return build.add_n(place, sizes, "int32")


def filled_ahead(lowering: Lowering, op: Op) -> bool:
    """Ones or zeros like a piece, made from the batch's sizes alone where these say it all.

    In a pipeline, the number of samples that count is then known before any stage has run (``tf.losses`` counts ones
    like the losses). Returns whether it was possible.
    """
    fact = lowering.fact(op.output(0))
    cut, dims = fact.sharded, fact.dims
    if cut is None or dims is None or not isinstance(cut.outer, int) or not isinstance(cut.inner, int):
        return False
    entered = [None if isinstance(d, int) or i == cut.dim else _entry(lowering, d) for i, d in enumerate(dims)]
    if any(e is None and not isinstance(d, int) and i != cut.dim for i, (e, d) in enumerate(zip(entered, dims))):
        return False
    build, dtype = lowering.builder, lowering.dtype(op.output(0))
    for copy in lowering.copies:
        place = lowering.place(op.output(0), copy)
        sizes: list[str] = []
        for i, (size, entry) in enumerate(zip(dims, entered)):
            if i == cut.dim:
                share = lowering.sizes.scalar(place, cut.batch, "share")
                factor = cut.outer * cut.inner
                sizes.append(build.binary(place, "Mul", share, build.const(place, factor, "int32"), "int32"))
            elif entry is None:
                sizes.append(build.const(place, size, "int32"))
            else:
                tensor, dim = entry
                whole = lowering.fact(tensor).sharded
                if whole is not None and whole.dim == dim:  # the batch again, as in the distances of all its pairs
                    sizes.append(lowering.sizes.scalar(place, whole.batch, "count"))
                    continue
                shape = build.shape(place, lowering.get(tensor, None, copy), lowering.dtype(tensor))
                sizes.append(build.element(place, shape, dim, "int32"))
        value = build.const(place, op.type == "OnesLike", dtype)
        attrs = {"T": type_attr(dtype), "index_type": type_attr("int32")}
        shape = build.pack(place, sizes, "int32")
        lowering.set_output(op, copy, 0, build.node(place, "Fill", [shape, value], "whale/filled_ahead", attrs))
    return True


def vector_length(lowering: Lowering, tensor: str) -> int:
    """The number of entries of a vector of sizes.

    Raises:
        VerifyError: it is not known.
    """
    fact = lowering.fact(tensor)
    size = len(fact.value) if fact.value is not None else fact.dims[0] if fact.dims else None
    if not isinstance(size, int):
        raise VerifyError(f"the length of the size vector {tensor} is not known")
    return size


def entered(lowering: Lowering, place: Place, size: Dim) -> str:
    """An open size of a source tensor, from a copy's own piece of it, as an int32 scalar."""
    entry = _entry(lowering, size)
    if entry is None:
        raise VerifyError(f"the size {size} is not one of a tensor where a batch enters")
    (tensor, dim), build = entry, lowering.builder
    outside = lowering.place(tensor, place.replica)
    shape = build.shape(outside, lowering.get(tensor, None, place.replica), lowering.dtype(tensor))
    value = build.element(outside, shape, dim, "int32")
    return place.enter(value, "int32") if place.enter is not None else value


def _entry(lowering: Lowering, size: Dim) -> tuple[str, int] | None:
    """The dim of a source tensor that an open size is; None where it is more than that."""
    for tensor in (*lowering.sources, *lowering.feeds):
        dims = lowering.fact(tensor).dims or ()
        if size in dims and not isinstance(size, int):
            return tensor, dims.index(size)
    return None


RECIPES = {
    "global_shape": global_shape,
    "global_shape_n": global_shape_n,
    "global_size": global_size,
}
