"""Ops that are not copied one to one: what replaces each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from whale.ir.placement import PARTIAL, REPLICATED, Sharded
from whale.ir.program import Op
from whale.rewriter import batch_norm, reductions, whole_shapes
from whale.rewriter.build import Place, type_attr
from whale.rewriter.own_labels import own_labels
from whale.sharding.facts import Decision, Local

if TYPE_CHECKING:
    from whale.rewriter.lower import Lowering

Recipe = Callable[["Lowering", Op, Decision], None]


def padded(lowering: Lowering, op: Op, decision: Decision) -> None:
    """Whole batches of padding before or after those that are there: every copy pads with its own share of each."""
    tensor, paddings, batch = op.inputs[0], op.inputs[1], decision.params["batch"]
    build, dtype = lowering.builder, lowering.dtype(paddings)
    rank = len(lowering.fact(tensor).dims or ())
    value = lowering.fact(paddings).value
    assert value is not None
    at = 2 * decision.params["dim"]
    for replica in lowering.copies:
        place = lowering.place(paddings, replica)
        flat = build.const(place, [-1], "int32")
        flat = build.reshape(place, lowering.get(paddings, REPLICATED, replica), flat, dtype)
        local = lowering.bridges.localize(place, flat, Local(batch, (at, at + 1)), 2 * rank, dtype, list(value.ravel()))
        rows = build.reshape(place, local, build.const(place, [rank, 2], "int32"), dtype)
        rest = [lowering.get(t, w, replica) for t, w in zip(op.inputs[2:], decision.wants[2:])]
        lowering.copy_with(op, replica, [lowering.get(tensor, decision.wants[0], replica), rows, *rest])


def inferred(lowering: Lowering, op: Op, decision: Decision) -> None:
    """A reshape whose target leaves a size open: it follows from all pieces, one of which may be empty."""
    (tensor, target), at, build = op.inputs, decision.params["index"], lowering.builder
    dtype, length = lowering.dtype(target), whole_shapes.vector_length(lowering, target)
    home = lowering.place(tensor, 0)
    sizes = {"T": type_attr(lowering.dtype(tensor)), "out_type": type_attr(dtype)}
    pieces = [
        build.node(lowering.place(tensor, copy), "Size", [lowering.get(tensor, None, copy)], "whale/size", sizes)
        for copy in lowering.copies
    ]
    # The product of the target's sizes is minus that of the known ones.
    known = build.reduce(home, "Prod", lowering.get(target, REPLICATED, 0), [0], dtype)
    one = build.const(home, 1, dtype)
    known = build.binary(
        home, "Maximum", build.node(home, "Neg", [known], "whale/neg", {"T": type_attr(dtype)}), one, dtype
    )
    missing = build.binary(home, "FloorDiv", build.add_n(home, pieces, dtype), known, dtype)
    for copy in lowering.copies:
        place = lowering.place(target, copy)
        own = lowering.get(target, decision.wants[1], copy)
        zero = build.const(place, 0, dtype)
        entries = [missing if i == at else zero for i in range(length)]
        keep = build.const(place, [int(i != at) for i in range(length)], dtype)
        own = build.binary(place, "Mul", own, keep, dtype)
        own = build.binary(place, "AddV2", own, build.pack(place, entries, dtype), dtype)
        lowering.copy_with(op, copy, [lowering.get(tensor, None, copy), own])


def own_elements(lowering: Lowering, op: Op, decision: Decision) -> None:
    """An array with one element per sample, written or read all at once: every copy's holds its own samples."""
    indices, batch = op.inputs[1], decision.params["batch"]
    build, dtype = lowering.builder, lowering.dtype(indices)
    for replica in lowering.copies:
        place = lowering.place(indices, replica)
        share = build.pack(place, [lowering.sizes.scalar(place, batch, "share")], "int32")
        numbers = lowering.get(indices, REPLICATED, replica)
        own = build.slice(place, numbers, build.const(place, [0], "int32"), share, dtype)
        inputs = [lowering.get(t, w, replica) for t, w in zip(op.inputs, decision.wants)]
        lowering.copy_with(op, replica, [inputs[0], own, *inputs[2:]])


def own_end(lowering: Lowering, op: Op, decision: Decision) -> None:
    """Whether a loop over samples goes on: every copy's ends after its own."""
    counter, batch = op.inputs[0], decision.params["batch"]
    for replica in lowering.copies:
        place = lowering.place(counter, replica)
        share = lowering.sizes.scalar(place, batch, "share")
        end = lowering.builder.cast(place, share, "int32", lowering.dtype(counter))
        lowering.copy_with(op, replica, [lowering.get(counter, None, replica), end])


def input_as_it_is(lowering: Lowering, op: Op, decision: Decision) -> None:
    """An op whose output is one of its inputs, by what is known of the others."""
    tensor = op.inputs[decision.params["index"]]
    for replica in lowering.copies:
        lowering.set_output(op, replica, 0, lowering.get(tensor, None, replica))


def rebased(lowering: Lowering, op: Op, decision: Decision) -> None:
    """Indices that count the samples, or whose first coordinate does: each copy counts from its own first sample."""
    at = decision.params["index"]
    tensor = op.inputs[at]
    dtype, build = lowering.dtype(tensor), lowering.builder
    for replica in lowering.copies:
        place = lowering.place(tensor, replica)
        piece = lowering.get(tensor, decision.wants[at], replica)
        cut = decision.wants[at] or lowering.fact(tensor).placement
        assert isinstance(cut, Sharded)
        offset = build.cast(place, lowering.sizes.scalar(place, cut.batch, "offset"), "int32", dtype)
        if lowering.fact(tensor).rank != 1:
            offset = _as_first_coordinate(lowering, place, tensor, piece, offset)
        inputs = [
            build.binary(place, "Sub", piece, offset, dtype) if i == at else lowering.get(t, w, replica)
            for i, (t, w) in enumerate(zip(op.inputs, decision.wants))
        ]
        lowering.copy_with(op, replica, inputs)


def _as_first_coordinate(lowering: Lowering, place: Place, tensor: str, piece: str, offset: str) -> str:
    """A row of coordinates of which the first is an offset, and the others are zero."""
    build, dtype = lowering.builder, lowering.dtype(tensor)
    last = len(lowering.fact(tensor).dims or ()) - 1
    width = build.element(place, build.shape(place, piece, dtype), last, "int32")
    attrs = {"T": type_attr(dtype), "TI": type_attr("int32"), "axis": -1}
    first, zero = build.const(place, 0, "int32"), build.const(place, 0, dtype)
    return build.node(place, "OneHot", [first, width, offset, zero], "whale/one_hot", attrs)


def zero_if_empty(lowering: Lowering, op: Op, decision: Decision) -> None:
    """Sums over samples by a kernel that leaves outputs unwritten when there is no sample: then zeros."""
    build, batch = lowering.builder, decision.params["batch"]
    for replica in lowering.copies:
        place = lowering.place(op.inputs[0], replica)
        name = lowering.copy(op, replica, decision.wants, "/kernel")
        share = lowering.sizes.scalar(place, batch, "share")
        some = build.binary(place, "Greater", share, build.const(place, 0, "int32"), "int32")
        for index, fact in enumerate(decision.outputs):
            value, dtype = f"{name}:{index}", lowering.dtype(op.output(index))
            if fact.placement == PARTIAL:
                zeros = lowering.bridges.zeros_like(place, value, dtype)
                attrs = {"T": type_attr(dtype)}
                value = build.node(place, "SelectV2", [some, value, zeros], "whale/select", attrs)
            lowering.set_output(op, replica, index, value)


def one_width(lowering: Lowering, op: Op, decision: Decision) -> None:
    """Copies of an op that finds the size of its last dim in its input, where an empty piece would have 0 there."""
    build, dtype, known = lowering.builder, lowering.dtype(op.output(0)), decision.params["width"]
    last = len(lowering.fact(op.output(0)).dims or ()) - 1
    pieces = [f"{lowering.copy(op, replica, decision.wants, '/piece')}:0" for replica in lowering.copies]
    places = [lowering.place(op.inputs[0], replica) for replica in lowering.copies]
    shapes = [build.shape(place, piece, dtype) for place, piece in zip(places, pieces)]
    widest = "" if known is not None else build.element(places[0], shapes[0], last, "int32")
    for shape in shapes[1:] if widest else ():
        width = build.element(places[0], shape, last, "int32")
        widest = build.binary(places[0], "Maximum", widest, width, "int32")
    for place, piece, shape in zip(places, pieces, shapes):
        sizes = [build.element(place, shape, i, "int32") for i in range(last)]
        width = widest or build.const(place, known, "int32")
        target = build.pack(place, [*sizes, width], "int32")
        lowering.set_output(op, place.replica, 0, build.reshape(place, piece, target, dtype))


RECIPES: Mapping[str, Recipe] = {
    "input": input_as_it_is,
    "rebased": rebased,
    "zero_if_empty": zero_if_empty,
    "one_width": one_width,
    "padded": padded,
    "inferred": inferred,
    "own_elements": own_elements,
    "own_end": own_end,
    "own_labels": own_labels,
    **reductions.RECIPES,
    **whole_shapes.RECIPES,
    **batch_norm.RECIPES,
}
