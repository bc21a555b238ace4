"""What each op of a graph is for.

The rules, in order; the first that fits decides. Edges are data edges unless said.

1. SAVE: checkpoint ops, what is computed from a restored value alone, and what only they read.
2. INIT: the initialisers of variables and tables, iterator initialisers, questions whether a variable is initialised,
   and what only they read. (What the pipeline of an iterator reads is INPUT.)
3. BACKWARD: ops that ``tf.gradients`` noted, and sums and joins of nothing but such ops; where there is no note, the
   ops that ``gradients.py`` finds by structure. All ops of a v1 loop are on one side: pushing an activation on a stack
   for the backward loop is work of the forward loop. A gradient that the loss itself reads (a gradient penalty, the
   inner step of MAML) is BACKWARD where it was noted, and a part of the forward pass where it was not.
4. UPDATE: ops that write variables; what is computed from backward ops or updates and read by no backward op; what
   only updates read, as far as it depends on no batch (learning rates, slots, decayed powers).
5. INPUT: sources of batches (placeholders, iterators, datasets, queues, readers, py_func without arguments), what is
   computed from them without any variable, and what only they read. FORWARD begins where the first variable comes in.
6. OTHER: summaries, and what nothing of a step reads.
7. FORWARD: whatever else depends on a batch or a variable.

Two kinds of ops have no place of their own and belong to the first phase that reads them (in the order of ``Phase``):
ops whose values depend on no batch and no variable, except through shapes (constants, random numbers, zeros), and
variables with their plain reads. An op without outputs that only waits for others (a group) belongs to the latest
phase of a step that it waits for.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Iterable, Mapping

from whale.annotations.forward_ops import forward_ops
from whale.annotations.gradients import backward_region, is_seed, positions, same_pass
from whale.annotations.op_kinds import ASKS, CHECKPOINT, INITIALISES, SHAPES, is_source
from whale.annotations.peel import Part, Peeling
from whale.annotations.writes import Writes, direct_reads, writes_of
from whale.ir.flow import Flow, flow
from whale.ir.program import Op, Phase, Program
from whale.sharding.rules.state import HOLDERS

_JOINS = frozenset({"AddN", "ConcatV2", "AddV2", "UnsortedSegmentSum"})
"""How ``tf.gradients`` joins the gradients of a tensor that several ops read."""

_PUSHES = frozenset({"StackPush", "StackPushV2"})
"""What ``tf.gradients`` adds to a loop of the forward pass."""

_ORDER = {phase: number for number, phase in enumerate(Phase)}
_STEP = (Phase.INPUT, Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE)
_BATCH, _VARIABLE = 1, 2


def classify(program: Program, trainable: Iterable[str]) -> Program:
    """The program with the phase of every op, and the forward op of every op of the backward pass.

    Args:
        program: a captured graph.
        trainable: names of the ops that hold the trainable variables.
    """
    edges = flow(program)
    return classify_flow(program, edges, writes_of(edges), frozenset(trainable))


def classify_flow(program: Program, edges: Flow, writes: Writes, trainable: frozenset[str]) -> Program:
    """As ``classify``, for edges and writes that are known already."""
    phases = _Phases(edges, writes, trainable).run()
    notes = forward_ops(edges, phases)
    ops = {name: op.classified(phases[name], notes.get(name)) for name, op in program.ops.items()}
    return dataclasses.replace(program, ops=ops)


class _Phases:
    """One classification in progress: each method gives phases to some of the ops that have none yet."""

    def __init__(self, edges: Flow, writes: Writes, trainable: frozenset[str]) -> None:
        self.edges = edges
        self.writes = writes
        self.trainable = trainable
        self.found: dict[str, Phase] = {}
        self.reads = direct_reads(edges)
        self.sources = {name for name, op in edges.ops.items() if is_source(op)}
        self.depends = self._dependencies()
        self.floating = {name for name, bits in self.depends.items() if not bits} | self.reads
        self.floating -= self.sources
        self.floating -= {op.name for op in edges.ops.values() if _has_place(op)}

    def run(self) -> dict[str, Phase]:
        self._setup()
        self._backward()
        self._update()
        self._rest()
        self._float()
        self._groups()
        self._correct_setup()
        return self.found

    def _dependencies(self) -> dict[str, int]:
        """For each op, whether its values depend on a batch, on a variable."""
        edges = self.edges
        bits: dict[str, int] = {}
        frames = edges.frames()
        in_frame: dict[str, int] = {}
        changed = True
        while changed:
            changed = False
            for op in edges.order:
                name = op.name
                value = bits.get(name, 0)
                if op.type in HOLDERS:
                    value |= _VARIABLE
                elif name in self.sources:
                    value |= _BATCH
                elif op.type not in SHAPES:
                    for producer in edges.producers[name]:
                        value |= bits.get(producer, 0)
                frame = frames.get(name)
                if frame is not None:
                    # A loop over the model is forward as a whole, its counter included.
                    if value & _VARIABLE and not in_frame.get(frame, 0) and op.type not in ("Enter", "RefEnter"):
                        in_frame[frame] = _VARIABLE
                        changed = True
                    value |= in_frame.get(frame, 0)
                if value != bits.get(name):
                    bits[name] = value
                    changed = changed or edges.looping
        return bits

    # -- what is not of a step ---------------------------------------------------------------------------------

    def _setup(self) -> None:
        found, edges = self.found, self.edges
        for write in self.writes.restores:
            found[write.op.name] = Phase.SAVE
        for write in self.writes.initialisers.values():
            found[write.op.name] = Phase.INIT
        for op in edges.order:
            if op.type in CHECKPOINT:
                found[op.name] = Phase.SAVE
            elif op.type in INITIALISES or op.type in ASKS:
                found[op.name] = Phase.INIT
            elif "Summary" in op.type:
                found[op.name] = Phase.OTHER
            elif op.name not in found and op.type not in HOLDERS and op.name not in self.sources:
                self._follow_setup(op)
        for op in reversed(edges.order):
            if op.name not in found and op.type not in HOLDERS:
                readers = self._read_only_by((Phase.SAVE,) if op.name in self.sources else (Phase.SAVE, Phase.INIT), op)
                if readers:
                    found[op.name] = Phase.INIT if Phase.INIT in readers else Phase.SAVE

    def _read_only_by(self, allowed: tuple[Phase, ...], op: Op) -> list[Phase]:
        """The phases of an op's readers if all are among some phases, else none."""
        phases: list[Phase] = []
        for reader in self.edges.readers[op.name]:
            phase = self.found.get(reader)
            if phase not in allowed:
                return []
            phases.append(phase)
        return phases

    def _follow_setup(self, op: Op) -> None:
        """What is computed from restored values, or from answers about initialisation, and constants alone."""
        producers = set(self.edges.producers[op.name])
        setup = {self.found[name] for name in producers if name in self.found}
        rest = [name for name in producers if name not in self.found]
        if len(setup) == 1 and setup <= {Phase.SAVE, Phase.INIT} and all(not self.depends[name] for name in rest):
            self.found[op.name] = setup.pop()

    def _correct_setup(self) -> None:
        """What a step reads is of the step, whatever else reads it."""
        written = {write.op.name for write in self.writes.initialisers.values()}
        for op in reversed(self.edges.order):
            if self.found[op.name] in (Phase.SAVE, Phase.INIT) and op.name not in written:
                readers = [self.found[reader] for reader in self.edges.readers[op.name]]
                step = [phase for phase in readers if phase in _STEP]
                if step and op.type not in INITIALISES:
                    self.found[op.name] = Phase.FORWARD if Phase.INPUT not in step else Phase.INPUT

    # -- the backward pass and the update ----------------------------------------------------------------------

    def _backward(self) -> None:
        found, edges = self.found, self.edges
        noted = self._noted()
        trained = [w for w in self.writes.updates if w.variable in self.trainable]
        for name in noted:
            found.setdefault(name, Phase.BACKWARD)
        for name in self._by_structure(noted) if trained else ():
            found.setdefault(name, Phase.BACKWARD)
        for op in edges.order:
            if op.type in _JOINS and op.name not in found and self._joins_backward(op):
                found[op.name] = Phase.BACKWARD
        self._read_by_backward_only()

    def _joins_backward(self, op: Op) -> bool:
        """Whether an op joins gradients: every operand is backward, but for the constant axis.

        A sparse gradient is made dense only to be added to another.
        """
        producers = self.edges.producers[op.name]
        if op.type == "UnsortedSegmentSum":
            readers = self.edges.readers[op.name]
            added = bool(readers) and all(self.edges.ops[reader].type == "AddN" for reader in readers)
            return added and self.found.get(producers[0]) is Phase.BACKWARD
        operands = producers[:-1] if op.type == "ConcatV2" else producers
        backward = [self.found.get(name) is Phase.BACKWARD for name in operands]
        return any(backward) and all(
            sure or self.edges.ops[name].forward is not None for sure, name in zip(backward, operands)
        )

    def _noted(self) -> set[str]:
        """Ops with a note, without those that live in a loop of the forward pass, and with all of a backward loop."""
        ops = self.edges.ops
        noted = {name for name, op in ops.items() if op.forward is not None and name not in self.floating}
        frames = self.edges.frames()
        if not frames or not noted:
            return noted
        position = {name: number for number, name in enumerate(ops)}
        starts: dict[str, int] = {}
        for name, frame in frames.items():
            starts[frame] = min(starts.get(frame, position[name]), position[name])
        backward: set[str] = set()
        for name in noted:
            forward = ops[name].forward
            frame = frames.get(name)
            elsewhere = frame is not None and forward in position and frames.get(forward) != frame
            if frame is not None and forward is not None and elsewhere and starts[frame] > position[forward]:
                backward.add(frame)
        kept = self._kept_for_later(noted, frames)
        return (noted - kept) | {name for name, frame in frames.items() if frame in backward}

    def _kept_for_later(self, noted: set[str], frames: Mapping[str, str]) -> set[str]:
        """Noted ops that stand in a loop of the forward pass: they push its values on stacks for the backward loop."""
        pushes = [name for name in frames if self.edges.ops[name].type in _PUSHES]
        before = self.edges.ancestors(pushes) if pushes else set[str]()
        return {
            name
            for name in noted & before
            if name in frames and frames.get(self.edges.ops[name].forward or "") == frames[name]
        }

    def _by_structure(self, noted: set[str]) -> set[str]:
        edges, found = self.edges, self.found
        region = backward_region(edges, self.writes.updates, self.trainable, self.floating, noted)

        if not region.ops:
            return set()

        def part(name: str) -> Part:
            return Part.EITHER if name in region.ops else Part.OUTSIDE

        peeling = Peeling(edges, self.writes.by_variable(), self.writes.by_op(), self.reads, part)
        trained = dict.fromkeys(
            w.variable for w in self.writes.updates if w.variable in self.trainable and w.op.name in region.ops
        )
        tensors = [tensor for variable in trained for tensor in peeling.gradients(variable)]
        producers = {tensor.rpartition(":")[0] for tensor in tensors}
        backward = {name for name in edges.ancestors(producers) if name in region.ops and name not in found}
        backward -= self.reads | peeling.by_op.keys()
        return (backward | same_pass(edges, region, backward)) - peeling.by_op.keys()

    def _read_by_backward_only(self) -> None:
        """What ``tf.gradients`` made without a note: seeds, and forward values it computes for itself.

        A loss that only its own gradient reads is not one of them: it was made before the seed.
        """
        found, edges = self.found, self.edges
        place = positions(edges)
        seeds = sorted(place[op.name] for op in edges.ops.values() if is_seed(edges, op))
        if not seeds:
            return
        inside = {name for name, phase in found.items() if phase is Phase.BACKWARD}
        for op in reversed(edges.order):
            readers = edges.readers[op.name]
            if op.name in found or op.name in self.reads or not readers or any(r not in inside for r in readers):
                continue
            before = bisect.bisect(seeds, min(place[reader] for reader in readers))
            if before and place[op.name] >= seeds[before - 1]:
                inside.add(op.name)
                if op.name not in self.floating:
                    found[op.name] = Phase.BACKWARD

    def _update(self) -> None:
        found, edges = self.found, self.edges
        for write in self.writes.updates:
            found.setdefault(write.op.name, Phase.UPDATE)
        backward = [name for name, phase in found.items() if phase is Phase.BACKWARD]
        # A gradient op may read nothing of its forward op, as that of a sum.
        differentiated = (edges.ops[name].forward for name in backward)
        feeds_backward = edges.ancestors(
            [*backward, *(name for name in differentiated if name is not None and name in edges.ops)]
        )
        after: set[str] = {*backward, *(write.op.name for write in self.writes.updates)}
        for op in edges.order:
            name = op.name
            if name in found or name in feeds_backward or op.type in HOLDERS:
                continue
            if any(producer in after for producer in edges.producers[name]):
                after.add(name)
                found[name] = Phase.UPDATE
        for op in reversed(edges.order):
            if op.name in found or op.name in self.floating or self.depends[op.name] & _BATCH:
                continue
            if Phase.UPDATE in self._read_only_by((Phase.UPDATE, Phase.INIT, Phase.SAVE, Phase.OTHER), op):
                found[op.name] = Phase.UPDATE

    # -- the rest ----------------------------------------------------------------------------------------------

    def _rest(self) -> None:
        """Inputs, what only inputs read, and the forward pass."""
        found, edges = self.found, self.edges
        for op in edges.order:
            placed = op.name in found or op.name in self.floating
            if not placed and (op.name in self.sources or self.depends[op.name] == _BATCH):
                found[op.name] = Phase.INPUT
        for op in reversed(edges.order):
            if op.name not in found and op.name not in self.floating and self._read_only_by((Phase.INPUT,), op):
                found[op.name] = Phase.INPUT
        for name in edges.ops:
            if name not in found and name not in self.floating:
                found[name] = Phase.FORWARD

    def _float(self) -> None:
        """Gives ops without a place of their own, and variables, the first phase that reads them."""
        found, edges = self.found, self.edges
        pending = [op for op in reversed(edges.order) if op.name not in found]
        for op in pending:
            readers = [found[r] for r in (*edges.readers[op.name], *edges.followers.get(op.name, ())) if r in found]
            if op.forward is not None:
                readers.append(Phase.BACKWARD)
            if op.type in HOLDERS:
                readers = [phase for phase in readers if phase in _STEP] or readers
            if readers:
                found[op.name] = min(readers, key=_ORDER.__getitem__)
        for op in edges.order:
            if op.name not in found:
                # Nothing reads it: a read nobody used is of its variable's phase.
                producers = edges.producers[op.name]
                of_variable = op.name in self.reads and bool(producers)
                found[op.name] = found.get(producers[0], Phase.OTHER) if of_variable else Phase.OTHER

    def _groups(self) -> None:
        """Ops without data, which only wait for others."""
        found, edges = self.found, self.edges
        for op in edges.ops.values():
            if op.inputs or op.outputs:
                continue
            waits = {found[control] for control in op.controls if control in found}
            step = [phase for phase in _STEP if phase in waits]
            if Phase.BACKWARD in waits and any(
                found[name] is Phase.BACKWARD for name in edges.followers.get(op.name, ())
            ):
                found[op.name] = Phase.BACKWARD  # gradients that wait for one another, whatever else they wait for
            elif step:
                found[op.name] = step[-1]
            elif waits:
                found[op.name] = next((p for p in (Phase.INIT, Phase.SAVE) if p in waits), Phase.OTHER)


def _has_place(op: Op) -> bool:
    return op.type in CHECKPOINT or op.type in INITIALISES or "Summary" in op.type
