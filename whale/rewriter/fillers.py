"""A row of filling for kernels whose piece of a batch may be empty.

TensorFlow's kernels get empty batches wrong: with oneDNN (the default on CPU) the result of a convolution has the shape
of its input, and an LSTM's cell refuses it. So a copy without samples computes one row of zeros and drops what comes of
it; a row of zeros adds nothing to a filter gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from whale.ir.placement import Sharded
from whale.ir.program import Op
from whale.rewriter.build import Place, type_attr
from whale.rewriter.whole_shapes import vector_length
from whale.sharding.facts import Local, Want

if TYPE_CHECKING:
    from whale.rewriter.lower import Lowering

_CONVOLUTIONS = frozenset(
    [
        "Conv2D",
        "Conv2DBackpropInput",
        "Conv2DBackpropFilter",
        "Conv3D",
        "Conv3DBackpropInputV2",
        "Conv3DBackpropFilterV2",
        "DepthwiseConv2dNative",
        "DepthwiseConv2dNativeBackpropInput",
    ]
)

_REFUSING = frozenset({"LSTMBlockCell"})
"""Ops that take no empty batch on any device."""


def batch_to_fill(lowering: Lowering, op: Op, replica: int, wants: Sequence[Want]) -> int | None:
    """The batch of which a copy of such an op may hold no sample; None where there is nothing to fill."""
    on_cpu = op.type in _CONVOLUTIONS and "GPU" not in lowering.mesh.device(op.name, replica)
    if not on_cpu and op.type not in _REFUSING:
        return None
    for tensor, want in zip(op.inputs, wants):
        cut = want if isinstance(want, Sharded) else lowering.fact(tensor).sharded if want is None else None
        if cut is not None:
            share = lowering.sizes.number(cut.batch, "share", replica)
            drawn = lowering.mesh.local and lowering.sizes.drawn(cut.batch)
            return None if share or drawn else cut.batch
    return None


def fill(
    lowering: Lowering, op: Op, replica: int, wants: Sequence[Want], inputs: Sequence[str], batch: int
) -> list[str]:
    """The inputs of a copy with at least one row each."""
    filled: list[str] = []
    for tensor, want, value in zip(op.inputs, wants, inputs):
        place, dtype = lowering.place(tensor, replica), lowering.dtype(tensor)
        cut = want if isinstance(want, Sharded) else lowering.fact(tensor).sharded if want is None else None
        if cut is not None:
            rank = lowering.fact(tensor).rank
            assert rank is not None, "what is filled has a rank"
            filled.append(padded(lowering, place, value, cut.dim, rank, dtype, batch))
        elif isinstance(want, Local):
            mask = [int(i in want.scaled) for i in range(vector_length(lowering, tensor))]
            extra = lowering.builder.cast(place, missing(lowering, place, batch), "int32", dtype)
            extra = lowering.builder.binary(place, "Mul", lowering.builder.const(place, mask, dtype), extra, dtype)
            filled.append(lowering.builder.binary(place, "AddV2", value, extra, dtype))
        else:
            filled.append(value)
    return filled


def drop(lowering: Lowering, op: Op, replica: int, name: str, index: int, batch: int) -> str:
    """An output of a copy without the filling, where it has a row per sample."""
    output = op.output(index)
    cut = lowering.analysis.decisions[op.name].outputs[index].sharded
    if cut is None:
        return f"{name}:{index}"
    place, rank = lowering.place(output, replica), lowering.fact(output).rank
    assert rank is not None, "what comes of filled rows has a rank"
    build, dtype = lowering.builder, lowering.dtype(output)
    made = build.shape(place, f"{name}:{index}", dtype)
    mask = build.const(place, [int(i == cut.dim) for i in range(rank)], "int32")
    extra = build.binary(place, "Mul", mask, missing(lowering, place, batch), "int32")
    size = build.binary(place, "Sub", made, extra, "int32")
    return build.slice(place, f"{name}:{index}", build.const(place, [0] * rank, "int32"), size, dtype)


def missing(lowering: Lowering, place: Place, batch: int) -> str:
    """One where a copy has no sample, else zero, as an int32 scalar."""
    build = lowering.builder
    share = lowering.sizes.scalar(place, batch, "share")
    one, zero = build.const(place, 1, "int32"), build.const(place, 0, "int32")
    return build.binary(place, "Maximum", build.binary(place, "Sub", one, share, "int32"), zero, "int32")


def padded(lowering: Lowering, place: Place, value: str, dim: int, rank: int, dtype: str, batch: int) -> str:
    """A value of a copy with a row of zeros on a dim, where the copy has no sample."""
    build = lowering.builder
    mask = build.const(place, [[0, int(i == dim)] for i in range(rank)], "int32")
    paddings = build.binary(place, "Mul", mask, missing(lowering, place, batch), "int32")
    attrs = {"T": type_attr(dtype), "Tpaddings": type_attr("int32")}
    return build.node(place, "Pad", [value, paddings], "whale/filled", attrs)
