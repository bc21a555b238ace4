"""Ops that are not copied one to one: what replaces each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from whale.ir.placement import REPLICATED, Sharded
from whale.ir.program import Op
from whale.rewriter import batch_norm
from whale.rewriter.build import Place, type_attr
from whale.rewriter.counts import global_count
from whale.sharding.facts import Decision

if TYPE_CHECKING:
    from whale.rewriter.lower import Lowering

Recipe = Callable[["Lowering", Op, Decision], None]


def mean(lowering: Lowering, op: Op, decision: Decision) -> None:
    """A mean over the batch: each copy's sum, divided by the global count."""
    tensor, axes = op.inputs[0], decision.params["axes"]
    fact = lowering.fact(tensor)
    cut = fact.sharded
    assert cut is not None
    dtype, build = lowering.dtype(tensor), lowering.builder
    for replica in lowering.replicas:
        place = lowering.place(tensor, replica)
        value = lowering.get(tensor, None, replica)
        total = build.reduce(place, "Sum", value, axes, dtype, bool(op.attrs.get("keep_dims")))
        count = global_count(lowering, tensor, replica, axes, dtype)
        lowering.set_output(op, replica, 0, build.binary(place, "RealDiv", total, count, dtype))


def mean_of_integers(lowering: Lowering, op: Op, decision: Decision) -> None:
    """A mean of integers over the batch, rounded once: the global sum over the global count, at home."""
    tensor, axes = op.inputs[0], decision.params["axes"]
    dtype, build = lowering.dtype(tensor), lowering.builder
    keep = bool(op.attrs.get("keep_dims"))
    places = [lowering.place(tensor, r) for r in lowering.replicas]
    sums = [build.reduce(p, "Sum", lowering.get(tensor, None, p.replica), axes, dtype, keep) for p in places]
    count = build.cast(places[0], global_count(lowering, tensor, 0, axes, "float64"), "float64", dtype)
    result = build.binary(places[0], "Div", build.add_n(places[0], sums, dtype), count, dtype)
    for replica in lowering.replicas:
        lowering.set_output(op, replica, 0, result)


def reduce_pieces(lowering: Lowering, op: Op, decision: Decision) -> None:
    """A maximum or the like over the batch: of each piece, then of the pieces' results, at home."""
    pieces = [f"{lowering.copy(op, replica, [None, REPLICATED], '/piece')}:0" for replica in lowering.replicas]
    place = lowering.place(op.inputs[0], 0)
    dtype = lowering.dtype(op.output(0))
    stacked = lowering.builder.pack(place, pieces, dtype)
    result = lowering.builder.reduce(place, op.type, stacked, [0], dtype)
    for replica in lowering.replicas:
        lowering.set_output(op, replica, 0, result)


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


def rebased(lowering: Lowering, op: Op, decision: Decision) -> None:
    """Indices whose first coordinate counts the samples: each copy counts from its own first sample."""
    at = decision.params["index"]
    tensor = op.inputs[at]
    dtype, build = lowering.dtype(tensor), lowering.builder
    for replica in lowering.replicas:
        place = lowering.place(tensor, replica)
        piece = lowering.get(tensor, decision.wants[at], replica)
        cut = decision.wants[at] or lowering.fact(tensor).placement
        assert isinstance(cut, Sharded)
        offset = build.cast(place, lowering.sizes.scalar(place, cut.batch, "offset"), "int32", dtype)
        zero = build.const(place, 0, dtype)
        width = build.element(
            place, build.shape(place, piece, dtype), len(lowering.fact(tensor).dims or ()) - 1, "int32"
        )
        attrs = {"T": type_attr(dtype), "TI": type_attr("int32"), "axis": -1}
        first = build.const(place, 0, "int32")
        row = build.node(place, "OneHot", [first, width, offset, zero], "whale/one_hot", attrs)
        inputs = [
            build.binary(place, "Sub", piece, row, dtype) if i == at else lowering.get(t, w, replica)
            for i, (t, w) in enumerate(zip(op.inputs, decision.wants))
        ]
        lowering.copy_with(op, replica, inputs)


def zero_if_empty(lowering: Lowering, op: Op, decision: Decision) -> None:
    """A sum over samples by a kernel that leaves its output unwritten when there is no sample: then zeros."""
    build, dtype = lowering.builder, lowering.dtype(op.output(0))
    batch = decision.params["batch"]
    for replica in lowering.replicas:
        place = lowering.place(op.inputs[0], replica)
        value = f"{lowering.copy(op, replica, decision.wants, '/kernel')}:0"
        share = lowering.sizes.scalar(place, batch, "share")
        some = build.binary(place, "Greater", share, build.const(place, 0, "int32"), "int32")
        zeros = lowering.bridges.zeros_like(place, value, dtype)
        attrs = {"T": type_attr(dtype)}
        chosen = build.node(place, "SelectV2", [some, value, zeros], "whale/select", attrs)
        lowering.set_output(op, replica, 0, chosen)


RECIPES: Mapping[str, Recipe] = {
    "mean": mean,
    "mean_of_integers": mean_of_integers,
    "reduce_pieces": reduce_pieces,
    "global_shape": global_shape,
    "global_shape_n": global_shape_n,
    "global_size": global_size,
    "rebased": rebased,
    "zero_if_empty": zero_if_empty,
    **batch_norm.RECIPES,
}
