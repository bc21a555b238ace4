"""Loops over the samples of a batch, as ``tf.map_fn`` makes them: every copy goes through its own samples.

Such a loop counts from zero to the size of the batch, reads element ``i`` of arrays that the batch was taken apart
into, and writes element ``i`` of others. On pieces each copy counts to its own share and has elements of its own. What
depends on an element is each copy's own (``EACH``) and is never brought together inside; what the loop leaves behind
are arrays, which are put together to tensors that are cut, and sums over the iterations, which are partial.

The loop of the gradient counts down, and shares stacks and arrays with the first: such loops are taken together. This
module finds them by their form; how their ops run is said by ``rules/sample_loops.py``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np

from whale.ir.program import Op, split_tensor
from whale.sharding.order import BACK_EDGES, ENTERS, EXITS, MERGES, Order
from whale.sharding.rules.state import on_variable, writes_variable

COUNTER, SUM, SAME, FLOW = "counter", "sum", "same", "flow"
"""What a loop carries: a counter; a sum over the iterations; something that never changes; the order of writes."""

_PASSING = frozenset({"Identity", "Switch"})
_ADDING = frozenset({"Add", "AddV2", "AddN"})
_WRITING = frozenset({"TensorArrayWriteV3"})
_PUTTING = frozenset({"TensorArrayScatterV3", "TensorArrayGatherV3", "TensorArraySizeV3", "TensorArrayCloseV3"})
_STATEFUL = ("TensorArray", "Stack")
"""Prefixes of ops with state that a loop over samples may hold: it is each copy's own."""


@dataclasses.dataclass(frozen=True)
class Together:
    """Loops over the same samples, and the arrays that hold one element per sample."""

    frames: frozenset[str]
    """Their outermost frames."""
    arrays: frozenset[str]
    """Ops that made the arrays."""


class SampleLoops:
    """The loops of a run that may be gone through in pieces, and those that are."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._ops: dict[str, Op] = {op.name: op for op in order.ops}
        self._readers: dict[str, list[Op]] = {}
        for op in order.ops if order.frames else ():
            for tensor in op.inputs:
                self._readers.setdefault(tensor, []).append(op)
        self._exits = [op for op in order.ops if op.type in EXITS]
        self.carried: dict[str, str] = {}
        """What the Merge ops of candidates carry."""
        self.candidates = self._find() if order.frames else ()
        self.batches: dict[str, int] = {}
        """The batch of each frame and array that is gone through in pieces."""
        self.refused: dict[str, str] = {}
        """Frames and arrays that turned out not to allow it, with the reason."""
        self.changed = False
        """Set when a loop was taken or refused: what was found before does not hold, and all is to be found again."""

    @property
    def frames(self) -> frozenset[str]:
        """Outermost frames of the loops that are gone through in pieces."""
        return frozenset(f for found in self.candidates for f in found.frames if f in self.batches)

    # -- questions and answers while propagating -----------------------------------------------------------------

    def frame(self, op: str) -> str | None:
        """The loop over samples that an op is in, where it is gone through in pieces."""
        frames = self._order.frame(op)
        return frames[0] if frames and frames[0] in self.batches else None

    def directly(self, op: str) -> bool:
        """Whether an op is in its outermost loop and in none within."""
        return len(self._order.frame(op)) == 1

    def goes_on(self, op: Op) -> bool:
        """Whether a Switch is one of an outermost loop's own, that leads to the next iteration or out."""
        producer = self._producer(op.inputs[1])
        return producer is not None and producer.type == "LoopCond" and self.directly(op.name)

    def left(self, op: Op) -> str | None:
        """What an Exit takes out of a loop that is gone through in pieces."""
        source = self._source(op.inputs[0])
        return None if source is None else self.carried.get(source.name)

    def take(self, array: str, batch: int) -> None:
        """Goes through the loops that read an array in pieces of a batch, if they allow it."""
        for found in self.candidates:
            if array in found.arrays and array not in self.batches and not found.frames & self.refused.keys():
                self.batches.update((name, batch) for name in found.frames | found.arrays)
                self.changed = True

    def refuse(self, name: str, reason: str) -> None:
        """Leaves a loop or an array, and all taken together with it, whole after all."""
        for found in self.candidates:
            if name in found.frames | found.arrays:
                for name in found.frames | found.arrays:
                    self.batches.pop(name, None)
                    self.refused[name] = reason
                    self.changed = True

    # -- form ----------------------------------------------------------------------------------------------------

    def _find(self) -> tuple[Together, ...]:
        by_frame: dict[str, list[Op]] = {}
        for op in self._order.ops:
            frames = self._order.frame(op.name)
            if frames:
                by_frame.setdefault(frames[0], []).append(op)
        fit = {frame for frame, ops in by_frame.items() if self._fits(ops)}
        links = [(self._frames_reading(op), op) for op in self._order.ops if self._links(op)]
        groups: list[set[str]] = []
        for frames, _ in links:
            touching = [g for g in groups if g & frames]
            groups = [g for g in groups if not g & frames]
            groups.append(frames.union(*touching))
        found: list[Together] = []
        for group in groups:
            arrays = frozenset(op.name for frames, op in links if frames <= group and self._per_sample(op))
            if arrays and group <= fit:
                found.append(Together(frozenset(group), arrays))
        return tuple(found)

    def _links(self, op: Op) -> bool:
        """Whether loops that read an op must be taken together: it holds elements, or is another's last count."""
        outside = not self._order.frame(op.name)
        return (outside and op.type in ("TensorArrayV3", "StackV2")) or (op.type in EXITS and self.directly(op.name))

    def _frames_reading(self, op: Op) -> set[str]:
        """Loops that an op's outputs enter, or, for an Exit, also the one that it leaves."""
        tensors = [op.output(0)]
        if op.type in EXITS:
            source = self._source(op.inputs[0])
            if source is None or self.carried.get(source.name) != COUNTER:
                return set()
        frames = {self._order.frame(r.name)[0] for t in tensors for r in self._readers.get(t, ()) if r.type in ENTERS}
        if op.type in EXITS and frames:
            frames.add(self._order.frame(op.name)[0])
        return frames

    def _fits(self, ops: Iterable[Op]) -> bool:
        """Whether a loop's ops allow that copies go through it separately; notes what it carries."""
        kinds: set[str] = set()
        for op in ops:
            own = op.type.startswith(_STATEFUL) or on_variable(op.type)
            if writes_variable(op.type) or (op.stateful and not own):
                return False
            if op.type == "LoopCond" and self.directly(op.name) and not self._asks_the_counter(op.inputs[0]):
                return False
            if op.type in MERGES and self.directly(op.name):
                backs = [p for p in map(self._producer, op.inputs) if p is not None and p.type in BACK_EDGES]
                if not backs:
                    continue
                kind = self._kind(op, backs[0].inputs[0])
                if kind is None or (kind == COUNTER and not self._counts_privately(op)):
                    return False
                self.carried[op.name] = kind
                kinds.add(kind)
        return COUNTER in kinds

    def _kind(self, merge: Op, after: str) -> str | None:
        """What a Merge carries, given the tensor that comes back to it."""
        last = self._source(after, through=_PASSING)
        if last is merge:
            return SAME
        last = self._source(after, through=frozenset({"Identity"}))
        if last is None:
            return None
        if last.type in _WRITING:
            return FLOW
        own = [t for t in last.inputs if self._source(t) is merge]
        others = [t for t in last.inputs if t not in own]
        if len(own) != 1 or not others or last.type not in _ADDING | {"Sub"}:
            return None
        if len(others) == 1 and self._is_one(others[0]) and merge.outputs[0].dtype in ("int32", "int64"):
            return COUNTER
        if last.type == "Sub" or not self._only_added(merge, last):
            return None
        sources = [self._source(t, through=frozenset({"Identity"})) for t in others]
        return FLOW if all(s is not None and s.type in _WRITING for s in sources) else SUM

    def _only_added(self, merge: Op, adding: Op) -> bool:
        """Whether nothing but its addition and its Exit reads what a Merge carries."""
        stack = [merge.output(0)]
        while stack:
            for reader in self._readers.get(stack.pop(), ()):
                if reader.type in _PASSING:
                    stack.extend(reader.outputs_named())
                elif reader is not adding and reader.type not in EXITS:
                    return False
        return True

    def _per_sample(self, op: Op) -> bool:
        """Whether an array is read and written in loops at their counter, and outside of them all at once."""
        if op.type != "TensorArrayV3" or op.attrs.get("dynamic_size"):
            return False
        counted = False
        stack = [op.output(0)]
        while stack:
            for reader in self._readers.get(stack.pop(), ()):
                if reader.type in ENTERS or reader.type == "Identity":
                    stack.extend(reader.outputs_named())
                elif reader.type in ("TensorArrayReadV3", "TensorArrayWriteV3"):
                    index = self._source(reader.inputs[1])
                    if index is None or self.carried.get(index.name) != COUNTER:
                        return False
                    counted = True
                elif reader.type not in _PUTTING and reader.type != "TensorArrayGradV3":
                    return False
        return counted

    def _asks_the_counter(self, condition: str) -> bool:
        """Whether a loop goes on for as long as counters say, whatever the samples are."""
        op = self._source(condition, through=frozenset({"Identity"}))
        if op is None or op.type not in ("LogicalAnd", "Less", "GreaterEqual"):
            return False
        if op.type == "LogicalAnd":
            return all(self._asks_the_counter(t) for t in op.inputs)
        counter = self._source(op.inputs[0])
        return counter is not None and self.carried.get(counter.name) == COUNTER

    def _counts_privately(self, merge: Op) -> bool:
        """Whether no more is made of a counter's last value than that another loop starts from it."""
        exits = [op for op in self._exits if self._source(op.inputs[0]) is merge]
        readers = [self._readers.get(o.output(0), []) for o in exits]
        return all(found and all(r.type in ENTERS for r in found) for found in readers)

    def _producer(self, tensor: str) -> Op | None:
        return self._ops.get(split_tensor(tensor)[0])

    def _source(self, tensor: str, through: frozenset[str] = _PASSING) -> Op | None:
        """The op that a tensor comes from, through ops that pass it on; None where it is fed."""
        while True:
            op = self._ops.get(split_tensor(tensor)[0])
            if op is None or op.type not in through:
                return op
            tensor = op.inputs[0]

    def _is_one(self, tensor: str) -> bool:
        op = self._source(tensor, through=_PASSING | ENTERS)
        return op is not None and op.value is not None and op.value.ndim == 0 and bool(np.all(op.value == 1))
