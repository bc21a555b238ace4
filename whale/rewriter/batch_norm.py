"""Fused batch norm over a batch that is cut.

Forward: mean = sum(x) / N, variance = sum((x - mean)^2) / N, two sums over the copies. Backward, with
``k = rsqrt(variance + epsilon)``:

    d_offset = sum(dy)
    d_scale  = k * sum(dy * (x - mean))
    dx       = scale * k * (dy - d_offset / N - (x - mean) * k^2 * sum(dy * (x - mean)) / N)

(Ioffe and Szegedy, 2015). The variance that moving averages see has N - 1 in the denominator, as TensorFlow's has.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from whale.ir.program import Op
from whale.rewriter.build import Place, type_attr
from whale.rewriter.counts import global_count
from whale.sharding.facts import Decision, Want

if TYPE_CHECKING:
    from whale.rewriter.lower import Lowering


class _Norm:
    """What forward and backward share: the channel layout, and arithmetic in the type of the statistics."""

    def __init__(self, lowering: Lowering, op: Op, image: str) -> None:
        self.lowering = lowering
        self.build = lowering.builder
        self.op = op
        self.image = image
        self.rank = len(lowering.fact(image).dims or ())
        first = str(op.attrs.get("data_format", "NHWC")).startswith("NC")
        self.channel = 1 if first else self.rank - 1
        self.axes = [a for a in range(self.rank) if a != self.channel]
        self.epsilon = float(op.attrs.get("epsilon", 1e-4))
        self.kind = lowering.dtype(image)
        self.type = str(op.attrs.get("U", op.attrs.get("T", "float32")))

    def place(self, copy: int) -> Place:
        """Where a copy's image is, for what the norm makes of it."""
        return dataclasses.replace(self.lowering.place(self.image, copy), op=self.op.name)

    def widen(self, place: Place, value: str) -> str:
        return self.build.cast(place, value, self.kind, self.type)

    def narrow(self, place: Place, value: str) -> str:
        return self.build.cast(place, value, self.type, self.kind)

    def channels(self, place: Place, vector: str) -> str:
        """A per-channel vector, shaped to broadcast over the image."""
        if self.channel == self.rank - 1:
            return vector
        shape = [-1 if a == self.channel else 1 for a in range(self.rank)]
        return self.build.reshape(place, vector, self.build.const(place, shape, "int32"), self.type)

    def binary(self, place: Place, op_type: str, a: str, b: str) -> str:
        return self.build.binary(place, op_type, a, b, self.type)

    def sum(self, place: Place, value: str) -> str:
        return self.build.reduce(place, "Sum", value, self.axes, self.type)

    def total(self, values: Sequence[str]) -> str:
        """The sum over the copies, at home."""
        return self.build.add_n(self.place(0), values, self.type)

    def count(self, replica: int) -> str:
        return global_count(self.lowering, self.image, replica, self.axes, self.type)

    def rsqrt(self, place: Place, variance: str) -> str:
        shifted = self.binary(place, "AddV2", variance, self.build.const(place, self.epsilon, self.type))
        return self.build.node(place, "Rsqrt", [shifted], "whale/rsqrt", {"T": type_attr(self.type)})


def forward(lowering: Lowering, op: Op, decision: Decision) -> None:
    """FusedBatchNorm in training, over the whole batch."""
    norm = _Norm(lowering, op, op.inputs[0])
    places = [norm.place(r) for r in lowering.copies]
    images = [norm.widen(p, lowering.get(norm.image, None, p.replica)) for p in places]
    home = places[0]
    count = norm.count(0)
    mean = norm.binary(home, "RealDiv", norm.total([norm.sum(p, x) for p, x in zip(places, images)]), count)
    centred = [norm.binary(p, "Sub", x, norm.channels(p, mean)) for p, x in zip(places, images)]
    squares = norm.total([norm.sum(p, norm.binary(p, "Mul", c, c)) for p, c in zip(places, centred)])
    variance = norm.binary(home, "RealDiv", squares, count)
    one = norm.build.const(home, 1.0, norm.type)
    fewer = norm.binary(home, "Maximum", norm.binary(home, "Sub", count, one), one)
    unbiased = norm.binary(home, "RealDiv", squares, fewer)
    for place, centre in zip(places, centred):
        scale = lowering.get(op.inputs[1], decision.wants[1], place.replica)
        offset = lowering.get(op.inputs[2], decision.wants[2], place.replica)
        factor = norm.binary(place, "Mul", norm.rsqrt(place, variance), scale)
        scaled = norm.binary(place, "Mul", centre, norm.channels(place, factor))
        shifted = norm.binary(place, "AddV2", scaled, norm.channels(place, offset))
        lowering.set_output(op, place.replica, 0, norm.narrow(place, shifted))
        moving = [_moving(lowering, norm, op, decision, i, new) for i, new in ((3, mean), (4, unbiased))]
        for index, value in enumerate((*moving, mean, variance, mean)[: len(op.outputs) - 1], start=1):
            lowering.set_output(op, place.replica, index, value)


def _moving(lowering: Lowering, norm: _Norm, op: Op, decision: Decision, index: int, new: str) -> str:
    """The new moving statistic: the batch's, or a mix with the old one where the op asks for it."""
    factor = float(op.attrs.get("exponential_avg_factor", 1.0))
    if factor == 1.0:
        return new
    home = norm.place(0)
    old = lowering.get(op.inputs[index], decision.wants[index], 0)
    kept = norm.binary(home, "Mul", old, norm.build.const(home, 1.0 - factor, norm.type))
    added = norm.binary(home, "Mul", new, norm.build.const(home, factor, norm.type))
    return norm.binary(home, "AddV2", kept, added)


def backward(lowering: Lowering, op: Op, decision: Decision) -> None:
    """Gradient of FusedBatchNorm in training, over the whole batch."""
    norm = _Norm(lowering, op, op.inputs[1])
    places = [norm.place(r) for r in lowering.copies]

    def read(index: int, place: Place) -> str:
        return lowering.get(op.inputs[index], decision.wants[index], place.replica)

    grads = [norm.widen(p, read(0, p)) for p in places]
    centred = [norm.binary(p, "Sub", norm.widen(p, read(1, p)), norm.channels(p, read(3, p))) for p in places]
    offset = norm.total([norm.sum(p, g) for p, g in zip(places, grads)])
    products = norm.total([norm.sum(p, norm.binary(p, "Mul", g, c)) for p, g, c in zip(places, grads, centred)])
    home, count = places[0], norm.count(0)
    scale = norm.binary(home, "Mul", products, norm.rsqrt(home, read(4, home)))
    mean_grad = norm.binary(home, "RealDiv", offset, count)
    mean_product = norm.binary(home, "RealDiv", products, count)
    for place, grad, centre in zip(places, grads, centred):
        k = norm.rsqrt(place, read(4, place))
        along = norm.binary(place, "Mul", mean_product, norm.binary(place, "Mul", k, k))
        pulled = norm.binary(place, "Sub", grad, norm.channels(place, mean_grad))
        bent = norm.binary(place, "Sub", pulled, norm.binary(place, "Mul", centre, norm.channels(place, along)))
        factor = norm.binary(place, "Mul", k, read(2, place))
        dx = norm.binary(place, "Mul", bent, norm.channels(place, factor))
        lowering.set_output(op, place.replica, 0, norm.narrow(place, dx))
        for index, value in enumerate((scale, offset, scale, offset)[: len(op.outputs) - 1], start=1):
            lowering.set_output(op, place.replica, index, value)


def own(lowering: Lowering, op: Op, decision: Decision) -> None:
    """FusedBatchNorm with each copy's own statistics; moving averages see their mean weighted by samples.

    That mean is a sum over the copies: each gives its statistics times its part of the samples.
    """
    norm = _Norm(lowering, op, op.inputs[0])
    batch = decision.params["batch"]
    wants: tuple[Want, ...] = decision.wants
    for replica in lowering.copies:
        name = lowering.copy(op, replica, wants, "/own")
        place = norm.place(replica)
        share = norm.build.cast(place, lowering.sizes.scalar(place, batch, "share"), "int32", norm.type)
        count = norm.build.cast(place, lowering.sizes.scalar(place, batch, "count"), "int32", norm.type)
        part = norm.binary(place, "RealDiv", share, count)
        for index in range(len(op.outputs)):
            value = f"{name}:{index}"
            if index in (1, 2) and not lowering.sizes.own(batch):  # else sums are averages already
                value = norm.binary(place, "MulNoNan", value, part)  # a piece without samples has no statistics
            lowering.set_output(op, replica, index, value)


RECIPES = {"batch_norm": forward, "batch_norm_grad": backward, "batch_norm_own": own}
