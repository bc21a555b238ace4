"""Reductions and running totals along the batch: on each piece, then over the pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whale.ir.placement import REPLICATED
from whale.ir.program import Op
from whale.rewriter.build import type_attr
from whale.rewriter.counts import global_count
from whale.sharding.facts import Decision

if TYPE_CHECKING:
    from whale.rewriter.lower import Lowering


def mean(lowering: Lowering, op: Op, decision: Decision) -> None:
    """A mean over the batch: each copy's sum, divided by the global count."""
    tensor, axes = op.inputs[0], decision.params["axes"]
    fact = lowering.fact(tensor)
    cut = fact.sharded
    assert cut is not None
    dtype, build = lowering.dtype(tensor), lowering.builder
    for replica in lowering.copies:
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
    places = [lowering.place(tensor, r) for r in lowering.copies]
    sums = [build.reduce(p, "Sum", lowering.get(tensor, None, p.replica), axes, dtype, keep) for p in places]
    count = build.cast(places[0], global_count(lowering, tensor, 0, axes, "float64"), "float64", dtype)
    result = build.binary(places[0], "Div", build.add_n(places[0], sums, dtype), count, dtype)
    for replica in lowering.copies:
        lowering.set_output(op, replica, 0, result)


def reduce_pieces(lowering: Lowering, op: Op, decision: Decision) -> None:
    """A maximum or the like over the batch: of each piece, then of the pieces' results, at home."""
    pieces = [f"{lowering.copy(op, replica, [None, REPLICATED], '/piece')}:0" for replica in lowering.copies]
    place = lowering.place(op.inputs[0], 0)
    dtype = lowering.dtype(op.output(0))
    stacked = lowering.builder.pack(place, pieces, dtype)
    result = lowering.builder.reduce(place, op.type, stacked, [0], dtype)
    for replica in lowering.copies:
        lowering.set_output(op, replica, 0, result)


def cumulate_pieces(lowering: Lowering, op: Op, decision: Decision) -> None:
    """A cumulative sum or product along the batch: of each piece, with the totals of the pieces that come before.

    Where the dim holds the batch several times, a piece is several runs of samples, each followed by the other
    copies' samples of the same run: first come whole runs, then the earlier copies' part of the run.
    """
    tensor, axis = op.inputs[0], decision.params["axis"]
    build, dtype, rank = lowering.builder, lowering.dtype(tensor), len(lowering.fact(tensor).dims or ())
    cut = lowering.fact(tensor).sharded
    assert cut is not None
    total, combine = ("Sum", "AddV2") if op.type == "Cumsum" else ("Prod", "Mul")
    runs = cut.outer != 1
    start, owns, before = "", {}, {}
    for replica in reversed(lowering.copies) if op.attrs.get("reverse") else lowering.copies:
        place = lowering.place(tensor, replica)
        piece = lowering.get(tensor, None, replica)
        if runs:
            piece, _ = lowering.bridges.open(place, piece, cut, rank, dtype)
        along = build.const(place, axis + runs, str(op.attrs.get("Tidx", "int32")))
        owns[replica] = f"{lowering.copy_with(op, replica, [piece, along], '/piece')}:0"
        before[replica] = start
        reached = build.reduce(place, total, piece, [axis + runs], dtype, keep=True)
        start = build.binary(place, combine, start, reached, dtype) if start else reached
    for replica in lowering.copies:
        place, value = lowering.place(tensor, replica), owns[replica]
        if before[replica]:
            value = build.binary(place, combine, value, before[replica], dtype)
        if runs:
            attrs = {"T": type_attr(dtype), "Tidx": type_attr("int32"), "exclusive": True}
            attrs["reverse"] = bool(op.attrs.get("reverse"))
            along = build.const(place, axis, "int32")
            earlier = build.node(place, op.type, [start, along], "whale/runs", attrs)
            value = build.binary(place, combine, value, earlier, dtype)
            value = lowering.bridges.close(place, value, cut, rank, dtype)
        lowering.set_output(op, replica, 0, value)


RECIPES = {
    "mean": mean,
    "mean_of_integers": mean_of_integers,
    "reduce_pieces": reduce_pieces,
    "cumulate_pieces": cumulate_pieces,
}
