"""One application of a rule: an op, what is known of its inputs, and questions a rule may ask."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from whale.ir import dims as D
from whale.ir.dims import Dim
from whale.ir.placement import PARTIAL, REPLICATED, Partial, Placement, Sharded
from whale.ir.program import Op
from whale.sharding.batches import Batches
from whale.sharding.containers import Containers
from whale.sharding.facts import Decision, Decline, Dims, Fact, Value, Want


@dataclasses.dataclass(frozen=True)
class Call:
    """An op met by the propagation."""

    op: Op
    """The op."""
    ins: tuple[Fact, ...]
    """Facts of its data inputs."""
    batches: Batches
    """The batches of this run and which of them are one."""
    containers: Containers = dataclasses.field(default_factory=Containers)
    """Placement of the elements of TensorArrays, stacks and lists."""
    independent: bool = False
    """Whether each copy draws its own random numbers (``random.mode``)."""
    sync: bool = True
    """Whether statistics over the batch are exact (``batch.sync``)."""
    drawn: frozenset[str] = frozenset()
    """Sources that every copy draws for itself."""

    # -- questions ---------------------------------------------------------------------------------------------

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute of the op."""
        return self.op.attrs.get(name, default)

    def rank(self, index: int) -> int:
        """Rank of an input; declines when unknown."""
        rank = self.ins[index].rank
        if rank is None:
            raise Decline(f"the rank of input {index} is unknown")
        return rank

    def dims(self, index: int) -> tuple[Dim, ...]:
        """Sizes of an input; declines when the rank is unknown."""
        dims = self.ins[index].dims
        if dims is None:
            raise Decline(f"the rank of input {index} is unknown")
        return dims

    def value(self, index: int) -> Value:
        """Known value of an integer input; declines when unknown."""
        value = self.ins[index].value
        if value is None:
            raise Decline(f"the value of input {index} is not known before the run")
        return value

    def elements(self, index: int) -> Value | None:
        """Known elements of an integer input, None in the place of the others; None when nothing is known of it."""
        fact = self.ins[index]
        return fact.part if fact.value is None else fact.value

    def numbers(self, index: int) -> list[int]:
        """Known value of an integer input as plain numbers, flattened; declines when it is not constant."""
        flat = np.ravel(self.value(index))
        if not all(isinstance(item, (int, np.integer)) for item in flat):
            raise Decline(f"the value of input {index} depends on sizes known only at the run")
        return [int(item) for item in flat]

    def axis(self, index: int, rank: int) -> int:
        """A constant axis input as a non-negative number."""
        (axis,) = self.numbers(index)
        return axis % rank if rank else 0

    def size(self, sharded: Sharded) -> Dim:
        """Global size of a dim that is cut."""
        return D.multiply(D.multiply(sharded.outer, sharded.inner), self.batches.size(sharded.batch))

    def is_drawn(self, cut: Sharded) -> bool:
        """Whether every copy draws the samples of a cut for itself."""
        return self.batches[cut.batch].sources[0] in self.drawn

    def one_cut(self, a: Sharded, b: Sharded) -> bool:
        """Whether two cuts, given on the same tensor, are one; open sizes and batches that meet here become one."""
        return (
            a.dim == b.dim
            and self.batches.equate(a.outer, b.outer)
            and self.batches.equate(a.inner, b.inner)
            and self.batches.meet(a.batch, b.batch)
        )

    def piece(self, index: int, cut: Sharded) -> Want:
        """What is wanted of an input that has the samples of a cut: its piece, as it is where it is cut alike.

        The size of its dim and that of the cut become one, so that its pieces are known to have the cut's lengths.
        Declines when the two are known to differ. A batch that stands elsewhere within the dim is not the cut's: of
        ``[B * T]`` cut along B and ``[B * T]`` cut along T one is cut again, and B is not taken to be T.
        """
        fact = self.ins[index]
        other = fact.sharded
        if other is not None and self.one_cut(other, cut):
            return None
        if other is not None and (other.dim, other.outer, other.inner) == (cut.dim, cut.outer, cut.inner):
            self.batches.must_agree(self.size(other), self.size(cut))
            raise Decline("its inputs are cut along batches of different sizes")
        if fact.dims is None:
            return cut
        if cut.dim >= len(fact.dims):
            raise Decline(f"input {index} lacks the dim that is cut")
        size, expected = fact.dims[cut.dim], self.size(cut)
        if isinstance(size, int) and isinstance(expected, int) and size != expected:
            raise Decline(f"input {index} has {size} samples where {expected} are cut")
        if size == 1 and expected != 1:
            raise Decline(f"input {index} has one sample, to be used for all")
        self.batches.equate(size, expected)
        if not self.batches.must_agree(size, expected):
            raise Decline(f"input {index} has another number of samples than is cut")
        if cut.plain:
            self.batches.fix(cut.batch, size)
        return cut

    def require_samples(self, cut: Sharded) -> None:
        """Declines unless every copy is sure to have a sample: TensorFlow's kernel refuses tensors without any."""
        if not self.batches.filled(cut.batch):
            raise Decline(
                f"TensorFlow's {self.op.type} refuses an empty tensor, and a copy gets one when a batch has fewer "
                "samples than there are devices"
            )

    # -- answers -----------------------------------------------------------------------------------------------

    def fact(
        self,
        placement: Placement = REPLICATED,
        dims: Sequence[Dim | None] | None = None,
        index: int = 0,
        *,
        value: Value | None = None,
        zero: bool = False,
        iota: int | None = None,
    ) -> Fact:
        """The fact of an output: sizes merged from what TensorFlow inferred, what the rule says and the cut."""
        static = self.op.outputs[index].shape
        if static is None and dims is None:
            return Fact(placement, None, value, zero, iota)
        rank = len(static) if static is not None else len(dims or ())
        merged: list[Dim] = []
        for i in range(rank):
            size: Dim | None = static[i] if static is not None else None
            if size is None and isinstance(placement, Sharded) and placement.dim == i:
                size = self.size(placement)
            if size is None and dims is not None and i < len(dims):
                size = dims[i]
            merged.append(self.batches.open(f"{self.op.output(index)}[{i}]") if size is None else size)
        return Fact(placement, tuple(merged), value, zero, iota)

    def whole(self, declined: str = "", outputs: Sequence[Fact] | None = None) -> Decision:
        """The op on whole inputs, its outputs whole."""
        if outputs is None:
            outputs = [self.fact(index=i) for i in range(len(self.op.outputs))]
        return Decision(tuple(REPLICATED for _ in self.ins), tuple(outputs), declined=declined)

    def unranked(self) -> Decision:
        """The op on whole inputs, where the rank of one is not known; declines where that one is cut."""
        if any(f.sharded for f in self.ins):
            raise Decline("the rank of its input is unknown")
        return self.whole()

    def decide(
        self, wants: Sequence[Want], *outputs: Fact, recipe: str = "copy", exchanges: bool = False, **params: Any
    ) -> Decision:
        """The op on what is wanted."""
        return Decision(tuple(wants), tuple(outputs), recipe, params, exchanges)

    def settled(self, keep_partial: bool = False) -> list[Want]:
        """Wants that take every input as it is, partial ones summed first unless kept."""
        return [REPLICATED if isinstance(f.placement, Partial) and not keep_partial else None for f in self.ins]


def is_partial(fact: Fact) -> bool:
    """Whether a tensor may be read as a sum of the copies' values without any communication."""
    return fact.placement == PARTIAL


def partial_or_zero(fact: Fact) -> bool:
    """Partial, or replicated zeros, which are a sum of zeros too."""
    return fact.placement == PARTIAL or (fact.zero and fact.placement == REPLICATED)


def same_dims(a: Dims, b: Dims) -> bool:
    """Whether two shapes are known to be equal."""
    return a is not None and a == b
