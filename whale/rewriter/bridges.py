"""Bridges: from where a tensor is to where an op wants it.

Slices of whole tensors are local to a copy. Gathers and sums meet at home, from where the result is sent; large sums
that every copy reads go through all-reduce instead (``buckets``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from whale.ir import dims as D
from whale.ir.dims import Dim
from whale.ir.placement import Sharded
from whale.rewriter.build import Builder, Place, type_attr
from whale.rewriter.sizes import BatchSizes
from whale.sharding.facts import Dims, Local


class Bridges:
    """Emits the nodes of bridges."""

    def __init__(self, builder: Builder, sizes: BatchSizes, entered: Callable[[Place, Dim], str]) -> None:
        """``entered`` makes the int32 scalar that is an open size of a tensor where a batch enters."""
        self.builder = builder
        self.sizes = sizes
        self.entered = entered

    # -- slicing -----------------------------------------------------------------------------------------------

    def piece(self, place: Place, value: str, cut: Sharded, dims: Dims, dtype: str) -> str:
        """A copy's piece of a whole tensor; one of unknown rank can be cut on its first dim."""
        if self.sizes.own(cut.batch):
            return value  # the script's sizes are each copy's own: what spans its batch spans every copy's
        if dims is None:
            return self._rows(place, value, cut, dtype)
        rank = len(dims)
        if cut.outer != 1:
            opened, axis = self.open(place, value, cut, rank, dtype)
            piece = self._cut(place, opened, axis, rank + 1, cut, value, dims, dtype)
            return self.close(place, piece, cut, rank, dtype)
        return self._cut(place, value, cut.dim, rank, cut, value, dims, dtype)

    def _cut(
        self, place: Place, opened: str, axis: int, rank: int, cut: Sharded, value: str, dims: Dims, dtype: str
    ) -> str:
        share = self.sizes.scalar(place, cut.batch, "share")
        offset = self.sizes.scalar(place, cut.batch, "offset")
        inner = self._inner(place, cut, value, dtype)
        share, offset = self._times(place, share, inner), self._times(place, offset, inner)
        if not self._spans(dims, cut):
            share, offset = self._unless_single(place, value, cut, dtype, share, offset)
        begin = self._vector(place, rank, axis, offset, 0)
        # Sizes that are known are named: shape inference of some kernels fails on what it cannot tell.
        known = [d if isinstance(d, int) and cut.outer == 1 else -1 for d in dims or ()]
        size = self._vector(place, rank, axis, share, -1, known)
        return self.builder.slice(place, opened, begin, size, dtype)

    def _rows(self, place: Place, value: str, cut: Sharded, dtype: str) -> str:
        """A copy's rows of a tensor whose rank is not known."""
        assert cut.dim == 0 and cut.plain, "a tensor of unknown rank cannot be cut otherwise"
        build = self.builder
        begin = self.sizes.scalar(place, cut.batch, "offset")
        end = build.binary(place, "AddV2", begin, self.sizes.scalar(place, cut.batch, "share"), "int32")
        bounds = [
            build.pack(place, [begin], "int32"),
            build.pack(place, [end], "int32"),
            build.const(place, [1], "int32"),
        ]
        attrs = {"T": type_attr(dtype), "Index": type_attr("int32"), "shrink_axis_mask": 0}
        attrs.update(begin_mask=0, end_mask=0, ellipsis_mask=0, new_axis_mask=0)
        return build.node(place, "StridedSlice", [value, *bounds], "whale/rows", attrs)

    def _spans(self, dims: Dims, cut: Sharded) -> bool:
        """Whether the dim is sure to span the batch; an open size may turn out to be one, to be broadcast."""
        size = (dims or ())[cut.dim]
        return isinstance(size, int) or f"n{cut.batch}" in D.symbols_of(size) or cut.outer != 1

    def micro_batch(self, place: Place, value: str, cut: Sharded, rank: int, dtype: str) -> str:
        """The micro-batch under way, out of a copy's samples."""
        build = self.builder
        share = self.sizes.scalar(place, cut.batch, "share")
        offset = self.sizes.scalar(place, cut.batch, "offset")
        begin = build.binary(place, "Sub", offset, self.sizes.first(cut.batch, place.replica), "int32")
        starts = self._vector(place, rank, cut.dim, begin, 0)
        return build.slice(place, value, starts, self._vector(place, rank, cut.dim, share, -1), dtype)

    def _unless_single(
        self, place: Place, value: str, cut: Sharded, dtype: str, share: str, offset: str
    ) -> tuple[str, str]:
        """Length and begin of a piece, or the whole of a dim of size one beside a batch of several samples."""
        build = self.builder
        actual = build.element(place, build.shape(place, value, dtype), cut.dim, "int32")
        one, zero = build.const(place, 1, "int32"), build.const(place, 0, "int32")
        several = build.binary(place, "Greater", self.sizes.scalar(place, cut.batch, "count"), one, "int32")
        attrs = {"T": type_attr("int32"), "incompatible_shape_error": True}
        single = build.node(place, "Equal", [actual, one], "whale/equal", attrs)
        single = build.node(place, "LogicalAnd", [single, several], "whale/and")
        select = {"T": type_attr("int32")}
        length = build.node(place, "SelectV2", [single, one, share], "whale/select", select)
        begin = build.node(place, "SelectV2", [single, zero, offset], "whale/select", select)
        return length, begin

    def _times(self, place: Place, value: str, factor: str | int) -> str:
        if factor == 1:
            return value
        if isinstance(factor, int):
            factor = self.builder.const(place, factor, "int32")
        return self.builder.binary(place, "Mul", value, factor, "int32")

    def _inner(self, place: Place, cut: Sharded, value: str, dtype: str) -> str | int:
        """Elements of the dim per sample: a number, or worked out from the whole tensor's size."""
        if isinstance(cut.inner, int):
            return cut.inner
        build = self.builder
        size = build.element(place, build.shape(place, value, dtype), cut.dim, "int32")
        count = self.sizes.scalar(place, cut.batch, "count")
        count = build.binary(place, "Maximum", count, build.const(place, 1, "int32"), "int32")
        if cut.outer != 1:
            assert isinstance(cut.outer, int), "a dim of unknown outer and inner counts cannot be cut"
            count = self._times(place, count, cut.outer)
        return build.binary(place, "FloorDiv", size, count, "int32")

    def _vector(
        self, place: Place, rank: int, axis: int, item: str, rest: int, known: Sequence[int] | None = None
    ) -> str:
        """A vector of ``rank`` entries: ``item`` at ``axis``, elsewhere those of ``known`` or ``rest``."""
        build = self.builder
        others = known if known is not None and len(known) == rank else [rest] * rank
        entries = [item if i == axis else build.const(place, other, "int32") for i, other in enumerate(others)]
        return build.pack(place, entries, "int32")

    def open(self, place: Place, value: str, cut: Sharded, rank: int, dtype: str) -> tuple[str, int]:
        """A tensor with the cut dim taken apart into (outer, batch x inner)."""
        build = self.builder
        shape = build.shape(place, value, dtype)
        sizes = [build.element(place, shape, i, "int32") for i in range(rank)]
        outer = self._outer(place, cut, sizes[cut.dim])
        rest = build.binary(place, "FloorDiv", sizes[cut.dim], outer, "int32")
        target = build.pack(place, [*sizes[: cut.dim], outer, rest, *sizes[cut.dim + 1 :]], "int32")
        return build.reshape(place, value, target, dtype), cut.dim + 1

    def _outer(self, place: Place, cut: Sharded, size: str) -> str:
        build = self.builder
        if isinstance(cut.outer, int):
            return build.const(place, cut.outer, "int32")
        assert isinstance(cut.inner, int), "a dim of unknown outer and inner counts cannot be cut"
        one = build.const(place, 1, "int32")
        count = self._times(place, self.sizes.scalar(place, cut.batch, "count"), cut.inner)
        outer = build.binary(place, "FloorDiv", size, build.binary(place, "Maximum", count, one, "int32"), "int32")
        return build.binary(place, "Maximum", outer, one, "int32")  # it divides, also where there is nothing

    def close(self, place: Place, piece: str, cut: Sharded, rank: int, dtype: str) -> str:
        """The inverse of ``open``."""
        build = self.builder
        opened = build.shape(place, piece, dtype)
        sizes = [build.element(place, opened, i, "int32") for i in range(rank + 1)]
        merged = build.binary(place, "Mul", sizes[cut.dim], sizes[cut.dim + 1], "int32")
        target = build.pack(place, [*sizes[: cut.dim], merged, *sizes[cut.dim + 2 :]], "int32")
        return build.reshape(place, piece, target, dtype)

    # -- gathering ---------------------------------------------------------------------------------------------

    def gather(self, place: Place, pieces: Sequence[str], cut: Sharded, rank: int, dtype: str) -> str:
        """The whole tensor from its pieces, in order."""
        if cut.outer == 1:
            return self.builder.concat(place, pieces, cut.dim, dtype)
        opened = []
        outer = self._outer_of_pieces(place, pieces, cut, dtype)
        for piece in pieces:
            shape = self.builder.shape(place, piece, dtype)
            sizes = [self.builder.element(place, shape, i, "int32") for i in range(rank)]
            rest = self.builder.binary(place, "FloorDiv", sizes[cut.dim], outer, "int32")
            target = self.builder.pack(place, [*sizes[: cut.dim], outer, rest, *sizes[cut.dim + 1 :]], "int32")
            opened.append(self.builder.reshape(place, piece, target, dtype))
        whole = self.builder.concat(place, opened, cut.dim + 1, dtype)
        return self.close(place, whole, cut, rank, dtype)

    def _outer_of_pieces(self, place: Place, pieces: Sequence[str], cut: Sharded, dtype: str) -> str:
        """The outer count of pieces, from all of them together: a piece without samples does not show it."""
        build = self.builder
        if isinstance(cut.outer, int):
            return build.const(place, cut.outer, "int32")
        sizes = [build.element(place, build.shape(place, piece, dtype), cut.dim, "int32") for piece in pieces]
        return self._outer(place, cut, build.add_n(place, sizes, "int32"))

    # -- sizes -------------------------------------------------------------------------------------------------

    def localize(self, place: Place, vector: str, want: Local, length: int, dtype: str, known: list[Dim] | None) -> str:
        """A vector of sizes with the entries that scale with the batch replaced by the copy's own."""
        build = self.builder
        numbers = self._local_numbers(place, want, known)
        if numbers is not None:
            return build.const(place, numbers, dtype)
        scaled = set(want.scaled)
        one = build.const(place, 1, dtype)
        count = build.cast(place, self.sizes.scalar(place, want.batch, "count"), "int32", dtype)
        count = build.binary(place, "Maximum", count, one, dtype)
        share = build.cast(place, self.sizes.scalar(place, want.batch, "share"), "int32", dtype)
        divisor = build.pack(place, [count if i in scaled else one for i in range(length)], dtype)
        factor = build.pack(place, [share if i in scaled else one for i in range(length)], dtype)
        local = build.binary(place, "Mul", build.binary(place, "FloorDiv", vector, divisor, dtype), factor, dtype)
        if want.fixed:
            fixed = dict(want.fixed)
            keep = build.const(place, [0 if i in fixed else 1 for i in range(length)], dtype)
            add = build.pack(place, [self._size(place, fixed.get(i, 0), dtype) for i in range(length)], dtype)
            local = build.binary(place, "AddV2", build.binary(place, "Mul", local, keep, dtype), add, dtype)
        return local

    def _size(self, place: Place, size: Dim, dtype: str) -> str:
        """A size as a scalar: a number, or an open size of a tensor where a batch enters."""
        if isinstance(size, int):
            return self.builder.const(place, size, dtype)
        return self.builder.cast(place, self.entered(place, size), "int32", dtype)

    def _local_numbers(self, place: Place, want: Local, known: list[Dim] | None) -> list[int] | None:
        """The local vector as numbers, where the script fixed the batch size."""
        share, count = self.sizes.number(want.batch, "share", place.replica), self.sizes.number(want.batch, "count")
        if self.sizes.own(want.batch):
            count = share
        if known is None or share is None or not count:
            return None
        numbers = [int(k) for k in known if isinstance(k, (int, np.integer))]
        if len(numbers) != len(known):
            return None
        fixed = {i: size for i, size in want.fixed if isinstance(size, int)}
        if len(fixed) < len(want.fixed):
            return None
        return [
            fixed[i] if i in fixed else k // count * share if i in want.scaled else k for i, k in enumerate(numbers)
        ]

    def zeros_like(self, place: Place, value: str, dtype: str) -> str:
        """Zeros: what all copies but one hold of a whole value that is to be read as a sum."""
        return self.builder.node(place, "ZerosLike", [value], "whale/zeros", {"T": type_attr(dtype)})
