"""What is summed or put together over copies: over micro-batches one after another, over devices by all-reduce."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tensorflow.core.framework import attr_value_pb2

from whale.ir.placement import Sharded
from whale.ir.program import Phase, split_tensor
from whale.rewriter.buckets import AllReduce, Group, Reduced, fuse
from whale.rewriter.build import shape_attr, type_attr
from whale.rewriter.loop_checks import Unloopable
from whale.rewriter.micro_loop_nodes import ROWS, SUM

if TYPE_CHECKING:
    from whale.rewriter.lower import Lowering


class Totals:
    """The sums and the joined rows of a lowering."""

    def __init__(self, lowering: Lowering) -> None:
        self.low = lowering

    def accumulated(self, tensor: str, lead: int) -> str:
        """The sum of a partial tensor over the copies that a device serves, added up one after another."""
        op = split_tensor(tensor)[0]
        first, *others = self.low.mesh.led(op, lead)
        place, dtype = self.low.place(tensor, lead), self.low.dtype(tensor)
        total = self.low.wanted.base(tensor, first)
        for copy in others:
            total = self.low.builder.binary(place, "AddV2", total, self.low.wanted.base(tensor, copy), dtype)
        total = self.sum_of_micro_batches(tensor, total, lead)
        part = len(self.low.mesh.leads(op)) / (len(self.low.copies) * self.low.mesh.micro_batches)
        averaged = self.low.sizes.averages and dtype.startswith("float")  # what follows averages over the devices
        if averaged and part != 1:
            total = self.low.builder.binary(place, "Mul", total, self.low.builder.const(place, part, dtype), dtype)
        return total

    def sum_of_micro_batches(self, tensor: str, value: str, copy: int) -> str:
        """The sum of a value over the micro-batches that a copy takes one after another."""
        if not self.low.micro_batch:
            return value
        attrs = {"T": type_attr(self.low.dtype(tensor)), "shape": self._shape(tensor)}
        return self._mark(SUM, tensor, value, copy, "whale/sum", attrs)

    def _mark(self, kind: str, tensor: str, value: str, copy: int, hint: str, attrs: Mapping[str, object]) -> str:
        """A node that stands for the value of all micro-batches, where a value leaves the loop over them."""
        life = [output for output in self.low.branches.life(tensor, copy) if output]
        return self.low.builder.node(self.low.place(tensor, copy), kind, [value, *life], hint, attrs)

    def _shape(self, tensor: str) -> attr_value_pb2.AttrValue:
        """What is known of the shape of a sum or of a copy's rows: TensorFlow infers nothing of what leaves a loop."""
        fact = self.low.fact(tensor)
        cut = fact.sharded.dim if fact.sharded is not None else None
        if fact.dims is None:
            return shape_attr(None)
        return shape_attr([d if isinstance(d, int) and i != cut else None for i, d in enumerate(fact.dims)])

    def rows(self, tensor: str, copy: int) -> str:
        """All samples of a copy's piece of a tensor, those of its micro-batches joined."""
        value = self.low.wanted.base(tensor, copy)
        cut, rank = self.low.fact(tensor).sharded, self.low.fact(tensor).rank
        if not self.low.micro_batch or cut is None:
            return value
        if rank is None or cut.outer != 1:
            raise Unloopable(f"rows of '{tensor}' cannot be put together from micro-batches")
        attrs = {"T": type_attr(self.low.dtype(tensor)), "dim": cut.dim, "rank": rank, "shape": self._shape(tensor)}
        return self._mark(ROWS, tensor, value, copy, "whale/all_rows", attrs)

    def as_gradient(self, tensor: str, rows: str, cut: Sharded) -> str:
        """Rows put together; those of a gradient scaled, where the script's means are each copy's own."""
        low, dtype = self.low, self.low.dtype(tensor)
        op = low.ops.get(split_tensor(tensor)[0])
        gradient = op is not None and op.phase is Phase.BACKWARD and dtype.startswith("float")
        if not (gradient and low.sizes.own(cut.batch)):
            return rows
        place = low.place(tensor, 0)
        part = low.builder.const(place, 1.0 / (len(low.copies) * low.mesh.micro_batches), dtype)
        return low.builder.binary(place, "Mul", rows, part, dtype)

    def once(self, tensor: str, value: str) -> str:
        """A whole value that is to be read as a sum over micro-batches: it counts in the first, and is zero after."""
        if not self.low.micro_batch:
            return value
        place, dtype, build = self.low.place(tensor, 0), self.low.dtype(tensor), self.low.builder
        zero = build.const(place, 0, "int32")
        attrs = {"T": type_attr("int32"), "incompatible_shape_error": True}
        first = build.node(place, "Equal", [self.low.sizes.index, zero], "whale/first", attrs)
        zeros = self.low.bridges.zeros_like(place, value, dtype)
        return build.node(place, "SelectV2", [first, value, zeros], "whale/once", {"T": type_attr(dtype)})

    def all_reduce(self, closure: list[str]) -> list[tuple[Reduced, ...]]:
        """Emits the sums over devices that copies asked for, in buckets of each stage, and adds what must run."""
        position = {op.name: i for i, op in enumerate(self.low.analysis.order.ops)}
        by_stage: dict[int, list[Reduced]] = {}
        for tensor in sorted({t for t, _ in self.low.reduced}, key=lambda t: position[split_tensor(t)[0]]):
            dims = tuple(d for d in self.low.fact(tensor).dims or () if isinstance(d, int))
            stage = self.low.mesh.stage(split_tensor(tensor)[0])
            by_stage.setdefault(stage, []).append(Reduced(tensor, dims, self.low.dtype(tensor)))
        buckets: list[tuple[Reduced, ...]] = []
        for found in by_stage.values():
            buckets.extend(self._reduce_stage(found, closure))
        return buckets

    def _reduce_stage(self, found: list[Reduced], closure: list[str]) -> list[tuple[Reduced, ...]]:
        mesh = self.low.mesh
        buckets = fuse(found, mesh.max_splits, mesh.worth)
        op = split_tensor(found[0].tensor)[0]
        leads = mesh.leads(op)
        devices = tuple(mesh.device(op, lead) for lead in leads)
        group = Group(
            devices,
            mesh.hint,
            mesh.communicators,
            id(self.low.shadow),
            "Div" if self.low.sizes.averages else "Id",
            mesh.worth,
        )
        names = {(t.tensor, i): self.low.reduced[t.tensor, lead] for t in found for i, lead in enumerate(leads)}
        reducer = AllReduce(self.low.builder, self.low.keys, group)
        closure.extend(reducer.emit(buckets, lambda tensor, i: self.accumulated(tensor, leads[i]), names))
        return buckets
