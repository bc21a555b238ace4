"""The entries of a sparse tensor that belong to a copy's own samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whale.ir.placement import REPLICATED
from whale.ir.program import Op
from whale.rewriter.build import Place, type_attr
from whale.rewriter.fillers import drop, missing, padded
from whale.sharding.facts import Decision

if TYPE_CHECKING:
    from whale.rewriter.lower import Lowering


def own_labels(lowering: Lowering, op: Op, decision: Decision) -> None:
    """CTCLoss: every copy reads the labels of its own samples.

    Its kernel refuses an empty batch. A copy that may have no sample has one row more then, with one label.
    """
    batch = decision.params["batch"]
    for replica in lowering.copies:
        inputs = [lowering.get(t, w, replica) for t, w in zip(op.inputs, decision.wants)]
        inputs[1:3] = _picked(lowering, op.inputs[1], op.inputs[2], replica, batch)
        if lowering.sizes.number(batch, "share", replica):
            lowering.copy_with(op, replica, inputs)
            continue
        name = lowering.copy_with(op, replica, _filled(lowering, op, replica, inputs, batch), "/filled")
        for index in range(len(op.outputs)):
            lowering.set_output(op, replica, index, drop(lowering, op, replica, name, index, batch))


def _filled(lowering: Lowering, op: Op, replica: int, inputs: list[str], batch: int) -> list[str]:
    """The inputs of a copy of CTCLoss with one sample, as long as the longest may be and of label 0, if it has none."""
    place, build = lowering.place(op.inputs[0], replica), lowering.builder
    types = [lowering.dtype(t) for t in op.inputs]
    logits = padded(lowering, place, inputs[0], 1, 3, types[0], batch)
    indices = padded(lowering, place, inputs[1], 0, 2, types[1], batch)
    labels = padded(lowering, place, inputs[2], 0, 1, types[2], batch)
    lengths = padded(lowering, place, inputs[3], 0, 1, types[3], batch)
    time = build.element(place, build.shape(place, logits, types[0]), 0, "int32")
    time = build.binary(place, "Mul", time, missing(lowering, place, batch), "int32")
    return [logits, indices, labels, build.binary(place, "AddV2", lengths, time, "int32")]


def _picked(lowering: Lowering, indices: str, values: str, replica: int, batch: int) -> list[str]:
    """Indices, counted from the copy's first sample, and values of the entries whose sample is the copy's."""
    build, place = lowering.builder, lowering.place(indices, replica)
    everything = lowering.get(indices, REPLICATED, replica)
    offset = build.cast(place, lowering.sizes.scalar(place, batch, "offset"), "int32", "int64")
    share = build.cast(place, lowering.sizes.scalar(place, batch, "share"), "int32", "int64")
    sample = build.binary(place, "Sub", _first_column(lowering, place, everything), offset, "int64")
    begun = build.binary(place, "GreaterEqual", sample, build.const(place, 0, "int64"), "int64")
    ended = build.binary(place, "Less", sample, share, "int64")
    mine = build.node(place, "LogicalAnd", [begun, ended], "whale/own", {})
    where = build.node(place, "Where", [mine], "whale/own", {"T": type_attr("bool")})
    rows = build.reshape(place, _first_column(lowering, place, where), build.const(place, [-1], "int32"), "int64")
    start = build.pack(place, [offset, build.const(place, 0, "int64")], "int64")
    kept = build.binary(place, "Sub", _rows(lowering, place, everything, rows, "int64"), start, "int64")
    return [kept, _rows(lowering, place, lowering.get(values, REPLICATED, replica), rows, lowering.dtype(values))]


def _first_column(lowering: Lowering, place: Place, matrix: str) -> str:
    """The first column of an int64 matrix, as one."""
    build = lowering.builder
    return build.slice(
        place, matrix, build.const(place, [0, 0], "int32"), build.const(place, [-1, 1], "int32"), "int64"
    )


def _rows(lowering: Lowering, place: Place, value: str, rows: str, dtype: str) -> str:
    build = lowering.builder
    attrs = {"Tparams": type_attr(dtype), "Tindices": type_attr("int64"), "Taxis": type_attr("int32")}
    return build.node(place, "GatherV2", [value, rows, build.const(place, 0, "int32")], "whale/own", attrs)
