"""Tensors as ops want them: from where a tensor is placed to what a copy reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whale.errors import VerifyError
from whale.ir.placement import EACH, PARTIAL, REPLICATED, Sharded
from whale.ir.program import split_tensor
from whale.rewriter.whole_shapes import vector_length
from whale.sharding.facts import Fact, Local, Relaxed, Want

if TYPE_CHECKING:
    from whale.rewriter.lower import Lowering


class Wanted:
    """The bridges of a lowering, each made once."""

    def __init__(self, lowering: Lowering) -> None:
        self.lowering = lowering
        self._bridged: dict[tuple[str, Want, int], str] = {}

    def get(self, tensor: str, want: Want, replica: int) -> str:
        """A node output holding a tensor as wanted on a copy; emits the bridge if there is none yet."""
        fact = self.lowering.fact(tensor)
        if want is None or want == fact.placement:
            return self.base(tensor, replica)
        key = (tensor, want, replica)
        if key not in self._bridged:
            self._bridged[key] = self._bridge(tensor, fact, want, replica)
        return self._bridged[key]

    def base(self, tensor: str, replica: int) -> str:
        """A tensor as it is placed, on a copy."""
        low = self.lowering
        op = split_tensor(tensor)[0]
        if op in low.lazy:
            low.lazy.pop(op)()
        if tensor in low.sources or tensor in low.analysis.recut:
            return low.entries.piece(tensor, replica)
        if tensor in low.feeds:
            return low.entries.given(tensor)
        if (tensor, replica) in low.tensors:
            return low.tensors[tensor, replica]
        index = low.index(op, replica) if op in low.ops else 0
        if (tensor, index) in low.tensors:
            return low.tensors[tensor, index]
        return f"{low.reserve(low.ops[op], index)}:{split_tensor(tensor)[1]}"

    def _bridge(self, tensor: str, fact: Fact, want: Want, replica: int) -> str:
        low = self.lowering
        have, dtype = fact.placement, low.dtype(tensor)
        if isinstance(want, Local):
            return self._localized(tensor, fact, want, replica)
        if isinstance(want, Relaxed) and fact.value is not None:
            sizes = [-1 if i == want.dim or not isinstance(v, int) else v for i, v in enumerate(fact.value)]
            return low.builder.const(low.place(tensor, replica), sizes, dtype)
        if have == EACH and want == REPLICATED:
            op = low.ops[split_tensor(tensor)[0]]
            wants = [REPLICATED] * len(op.inputs)
            return f"{low.copy(op, 0, wants, '/whole')}:{split_tensor(tensor)[1]}"
        if want == REPLICATED:
            if tensor in low.sources or tensor in low.analysis.recut:
                return low.entries.whole(tensor)
            if isinstance(have, Sharded):
                pieces = [low.totals.rows(tensor, r) for r in low.copies]
                whole = low.bridges.gather(low.place(tensor, 0), pieces, have, fact.rank or 0, dtype)
                return low.totals.as_gradient(tensor, whole, have)
            if have == PARTIAL:
                return self._sum(tensor, replica)
        if want == PARTIAL and have == REPLICATED:
            value = self.base(tensor, replica)
            if fact.zero:
                return value
            if replica == 0:
                return low.totals.once(tensor, value)
            return low.bridges.zeros_like(low.place(tensor, replica), value, dtype)
        if isinstance(want, Sharded):
            if have == REPLICATED:
                return self._sliced(tensor, self.base(tensor, replica), want, replica)
            return self._sliced(tensor, self.get(tensor, REPLICATED, replica), want, replica)
        raise VerifyError(f"no bridge from {have} to {want} for {tensor}")

    def _sliced(self, tensor: str, value: str, want: Sharded, replica: int) -> str:
        low = self.lowering
        op = split_tensor(tensor)[0]
        at_home = not low.residence.all(op) and op in low.ops
        place = low.place(tensor, replica, at_home)
        if tensor in low.feeds:
            value = low.entries.agreeing(tensor, value, want)
        return low.bridges.piece(place, value, want, low.fact(tensor).dims, low.dtype(tensor))

    def _sum(self, tensor: str, replica: int) -> str:
        """The sum over the copies: by all-reduce where every copy reads it, else added up at home."""
        low = self.lowering
        name = split_tensor(tensor)[0]
        leads = low.mesh.leads(name)
        if tensor in low.residence.collectives and len(leads) > 1:
            key = (tensor, low.mesh.lead(name, replica))
            if key not in low.reduced:
                label = tensor.replace(":", "_")
                for lead in leads:
                    low.reduced[tensor, lead] = low.shadow.unique(
                        f"{low.prefix}{low.mesh.label(lead)}/all_reduce/{label}"
                    )
            return f"{low.reduced[key]}:0"
        home = (tensor, REPLICATED, 0)
        if replica and home in self._bridged:
            return self._bridged[home]
        values = [low.totals.accumulated(tensor, lead) for lead in leads]
        place, dtype = low.place(tensor, 0), low.dtype(tensor)
        total = low.builder.add_n(place, values, dtype)
        if low.sizes.averages and dtype.startswith("float"):
            part = low.builder.const(place, 1.0 / len(values), dtype)
            total = low.builder.binary(place, "Mul", total, part, dtype)
        self._bridged[home] = total
        return total

    def _localized(self, tensor: str, fact: Fact, want: Local, replica: int) -> str:
        """A copy's own version of a vector of sizes; straight from its piece where the vector is a piece's shape."""
        low = self.lowering
        name, index = split_tensor(tensor)
        op = low.ops.get(name)
        known = None if fact.value is None else list(fact.value)
        if op is not None and op.type in ("Shape", "ShapeN") and not want.fixed:
            source = low.fact(op.inputs[index])
            cut = source.sharded
            if (
                cut is not None
                and want.scaled == (cut.dim,)
                and low.analysis.batches.find(cut.batch) == low.analysis.batches.find(want.batch)
                and not self._static_local(want, known)
                and not (low.mesh.has_micro_batches and self._from_sizes(want, known))
            ):
                return f"{low.copy(op, replica, [None] * len(op.inputs), '/local')}:{index}"
        length = vector_length(low, tensor)
        place = low.place(tensor, replica)
        return low.bridges.localize(place, self.base(tensor, replica), want, length, low.dtype(tensor), known)

    def _from_sizes(self, want: Local, known: list | None) -> bool:
        """Whether a copy's own vector follows from the size of the batch, without the values it is the shape of.

        Between micro-batches that matters: what waits for no value is known before any stage has run.
        """
        size = self.lowering.analysis.batches.size(want.batch)
        return known is not None and all(
            isinstance(k, int) or (i in want.scaled and k == size) for i, k in enumerate(known)
        )

    def _static_local(self, want: Local, known: list | None) -> bool:
        return (
            known is not None
            and self.lowering.sizes.number(want.batch, "count") is not None
            and all(isinstance(k, int) for k in known)
        )
