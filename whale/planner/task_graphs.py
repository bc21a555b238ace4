"""Which stage of a pipeline every op of a graph belongs to.

The script stamps the ops that it makes inside of its ``stage`` scopes. All others join a stage by these rules, which
give the same answer for the same graph:

1. Ops of the forward pass and of the input pipeline belong to the stage they are stamped with; where Whale cuts the
   model itself, those of the forward pass to the stage of their block. All others join the latest stage they read
   from; what reads from none (inputs, labels) the earliest stage that reads it.
2. A variable is where its stamp says, else where it is first read; an optimizer slot is where its variable is. Ops that
   hold, read or write a variable are with it, whatever their stamp.
3. A gradient op is where its forward op is. Sums of gradients, and the gradients of a variable's reads, are where the
   earliest of the gradients they sum is made: what a stage adds to the gradient of a tied variable is added up there.
4. The rest (updates, summaries, initial values) joins the first op it reads from that has a stage, else the first that
   reads it, else stage 0.
5. The ops of a loop are in one stage: the one most of them are in.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Mapping

from whale.ir.flow import Flow, flow
from whale.ir.program import Op, Phase, Program, split_tensor
from whale.ir.task_graphs import UNSTAMPED, Stage, TaskGraphs
from whale.sharding.rules.state import HOLDERS, holder_of, on_variable

JOINS = frozenset({"AddN", "AddV2", "Add", "ConcatV2", "UnsortedSegmentSum"})
"""How ``tf.gradients`` joins the gradients of a tensor that several ops read."""

_FORWARD = (Phase.INPUT, Phase.FORWARD)


def assign(program: Program, stages: tuple[Stage, ...], before: Mapping[str, int]) -> TaskGraphs:
    """Gives every op of a program its stage.

    Args:
        program: with phases, forward ops and variables.
        stages: what the script asks for.
        before: the stages of ops that were there when the graph was first run: they stay.
    """
    found = _Assignment(program, stages, before)
    found.run()
    return TaskGraphs(stages, found.of, found.joined())


def summed_once(ops: Iterable[Op], stage: Callable[[str], int]) -> frozenset[str]:
    """The gradients that are added up over micro-batches before anything else is done with them.

    These are what updates read, and what joins gradients of several stages: each stage adds up its own, and sends one
    sum. Else every micro-batch's part would be clipped, scaled or sent by itself.
    """
    by_name = {op.name: op for op in ops}
    found: set[str] = set()
    for op in by_name.values():
        producers = [(tensor, by_name.get(tensor.rpartition(":")[0])) for tensor in op.inputs]
        gradients = [(tensor, made) for tensor, made in producers if made is not None and made.phase is Phase.BACKWARD]
        joins = op.phase is Phase.BACKWARD and op.type in JOINS
        if joins and all(stage(made.name) == stage(op.name) for _, made in gradients):
            continue
        if joins or op.phase not in (Phase.BACKWARD, Phase.FORWARD, Phase.INPUT):
            found.update(tensor for tensor, _ in gradients)
    return frozenset(found)


class _Assignment:
    def __init__(self, program: Program, stages: tuple[Stage, ...], before: Mapping[str, int]) -> None:
        self.program = program
        self.ops = program.ops
        self.edges: Flow = flow(program)
        self.stage_of_scope = {scope: number for number, stage in enumerate(stages) for scope in stage.scopes}
        self.stage_of_op = {name: number for number, stage in enumerate(stages) for name in stage.ops}
        self.of: dict[str, int] = dict(before)
        self.kept = frozenset(before)
        self.holders = {
            name: holder
            for name, op in self.ops.items()
            if op.inputs and _touches(program, op)
            for holder in [holder_of(self.ops, op.inputs[0])]
            if holder is not None
        }

    def run(self) -> None:
        for op in self.edges.order:
            if op.phase is Phase.FORWARD:
                self._set(op, self.stage_of_op.get(op.name))
            if op.phase in _FORWARD or (op.type in HOLDERS and self._slot_of(op) is None):
                self._set(op, self.stage_of_scope.get(op.scope if op.scope is not None else UNSTAMPED))
        for again in (False, True):  # what reads inputs alone is known only after the first time
            # Where Whale cuts a model, it cuts that of the training step; another model of the same variables, for
            # evaluation, is cut where their stages change.
            producers = self.edges.producers.__getitem__ if again and self.stage_of_op else self._flowing
            self._forwards(lambda op: op.phase is Phase.FORWARD, max, producers)
            self._backwards(lambda op: op.phase in _FORWARD or op.type in HOLDERS, min)
        self._colocate()
        self._gradients()
        self._forwards(lambda op: op.type not in HOLDERS, _first, self.edges.producers.__getitem__)
        self._colocate()
        self._backwards(lambda op: True, _first)
        for op in self.edges.order:
            self._set(op, 0)
        self._unite_loops()
        self._colocate()

    def joined(self) -> dict[int, tuple[Op, ...]]:
        """By stage: the forward ops that no scope of it holds."""
        found: dict[int, list[Op]] = {}
        for name, op in self.ops.items():
            scope = UNSTAMPED if op.scope is None else op.scope
            named = scope in self.stage_of_scope or name in self.stage_of_op
            if op.phase is Phase.FORWARD and op.inputs and not named:
                found.setdefault(self.of[name], []).append(op)
        return {stage: tuple(ops) for stage, ops in sorted(found.items())}

    def _set(self, op: Op, stage: int | None) -> None:
        if stage is not None:
            self.of.setdefault(op.name, stage)

    def _slot_of(self, op: Op) -> str | None:
        variable = self.program.variables.get(op.name)
        return variable.slot_of if variable is not None else None

    def _flowing(self, name: str) -> list[str]:
        """The producers that bring values of the batch, or at least no variable."""
        return [p for p in self.edges.producers[name] if p not in self.holders and self.ops[p].type not in HOLDERS]

    def _forwards(
        self,
        applies: Callable[[Op], bool],
        choose: Callable[[Iterable[int]], int],
        producers: Callable[[str], Iterable[str]],
    ) -> None:
        for op in self.edges.order:
            if op.name not in self.of and applies(op):
                stages = [self.of[p] for p in producers(op.name) if p in self.of]
                self._set(op, choose(stages) if stages else None)

    def _backwards(self, applies: Callable[[Op], bool], choose: Callable[[Iterable[int]], int]) -> None:
        for op in reversed(self.edges.order):
            if op.name not in self.of and applies(op):
                readers = [*self.edges.readers[op.name], *self.edges.followers.get(op.name, ())]
                stages = [self.of[r] for r in readers if r in self.of]
                self._set(op, choose(stages) if stages else None)

    def _gradients(self) -> None:
        for op in self.edges.order:
            if op.phase is not Phase.BACKWARD or op.name in self.of:
                continue
            backward = [
                self.of[p]
                for p in self.edges.producers[op.name]
                if self.ops[p].phase is Phase.BACKWARD and p in self.of
            ]
            forward = op.forward
            if backward and (op.type in JOINS or forward in self.holders):
                self._set(op, min(backward))
            elif forward is not None:
                self._set(op, self.of.get(forward))

    def _colocate(self) -> None:
        """Variables with their ops, slots with their variables."""
        for name in self.program.variables:
            primary = self._slot_of(self.ops[name]) if name in self.ops else None
            if primary in self.of and name not in self.kept:
                self.of[name] = self.of[primary]
        for name, holder in self.holders.items():
            if holder in self.of and name not in self.kept:
                self.of[name] = self.of[holder]

    def _unite_loops(self) -> None:
        inside: dict[str, list[str]] = {}
        for name, frame in _outermost(self.edges).items():
            inside.setdefault(frame, []).append(name)
        for names in inside.values():
            free = [name for name in names if name not in self.kept]
            counts = collections.Counter(self.of[name] for name in names if name not in self.holders)
            if counts:
                most = max(counts.values())
                stage = min(stage for stage, count in counts.items() if count == most)
                self.of.update(dict.fromkeys(free, stage))


def _touches(program: Program, op: Op) -> bool:
    """Whether an op reads a variable through its handle or reference, so that it must be where the variable is."""
    if on_variable(op.type):
        return True
    if op.phase is Phase.SAVE:
        return False
    return _is_handle(program.ops, op.inputs[0])


def _is_handle(ops: Mapping[str, Op], tensor: str) -> bool:
    """Whether a tensor is the reference or handle of a variable, not of something else that is made from one's value,
    such as a TensorArray of as many entries as a table has columns."""
    seen: set[str] = set()
    while True:
        name, index = split_tensor(tensor)
        if name in seen or name not in ops or index >= len(ops[name].outputs):
            return False
        op = ops[name]
        dtype = op.outputs[index].dtype
        if not dtype.endswith("_ref") and dtype != "resource":
            return False
        if op.type in HOLDERS:
            return True
        if not op.inputs:
            return False
        seen.add(name)
        tensor = op.inputs[0]


def _outermost(edges: Flow) -> dict[str, str]:
    """By op inside of a loop: its outermost frame."""
    frames = edges.frames()
    around: dict[str, str] = {}
    for op in edges.order:
        frame = frames.get(op.name)
        if frame is not None and frame not in around:
            outer = next((frames[p] for p in edges.producers[op.name] if frames.get(p, frame) != frame), None)
            around[frame] = frame if outer is None else around.get(outer, outer)
    return {name: around[frame] for name, frame in frames.items()}


def _first(stages: Iterable[int]) -> int:
    return next(iter(stages))
