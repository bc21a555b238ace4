"""From a captured program to a chain of blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from whale.cost_model.block import Amount, Block, Chain, Exchange, Parameter, Work
from whale.cost_model.curve import ZERO
from whale.cost_model.fusion import Fusion, Placement, alive, kernels
from whale.cost_model.segments import HEAVY, Group, Segment, find_segments, fold_stages
from whale.cost_model.split import find_split
from whale.cost_model.stash import kept_by_fusion, kept_by_op, redone_ops
from whale.cost_model.tensors import Tensors
from whale.ir.costs import unknown_types
from whale.ir.program import Op, Phase, Program, split_tensor
from whale.sharding.propagate import Analysis

_TABLE = 1 << 16
"""A segment that reads a variable of so many elements is a block of its own."""


def build_chain(
    program: Program,
    analysis: Analysis,
    sizes: Mapping[str, int] | None = None,
    *,
    stages: Mapping[str, int] | None = None,
    fusion: Fusion = Fusion.NONE,
) -> Chain:
    """The blocks of a training step.

    Args:
        program: the captured graph with phases and variables (``annotations.variables.complete``).
        analysis: where the batch goes in the run (``sharding.propagate``), each source cut.
        sizes: values of symbols that are no batch, such as an open sequence length; 1 where missing.
        stages: by op, the stage it belongs to, where the script names stages: no block is part of two.
        fusion: who joins ops into kernels; without, the runtime runs op by op.

    Loops count one iteration.
    """
    tensors = Tensors(program, analysis, dict(sizes or {}))
    return _Builder(tensors, stages or {}, fusion).run()


class _Builder:
    def __init__(self, tensors: Tensors, stages: Mapping[str, int], fusion: Fusion) -> None:
        self.tensors = tensors
        self.fusion = fusion
        self.program = program = tensors.program
        self.segments = find_segments(tensors, stages)
        self.split = find_split(tensors)
        updates = [update for variable in program.variables.values() for update in variable.updates]
        self.alive = alive(tensors, updates)
        self.place = self._place()

    def run(self) -> Chain:
        tensors = self.tensors
        fused = self.fusion is not Fusion.NONE
        counted = {n: s for n, s in self.place.items() if not fused or n in self.alive}
        kept = kept_by_fusion(tensors, self.alive) if fused else kept_by_op(tensors)
        kept_selective = kept_by_fusion(tensors, self.alive, redo_products=True)
        redone = redone_ops(tensors, kept_selective, self.alive)
        work: dict[int, list[Work]] = {}
        for segment, item in kernels(tensors, Placement(counted, self.split.ops, redone), self.fusion):
            work.setdefault(segment, []).append(item)
        parameters = self._parameters()
        signatures = [
            (tuple(w for w in work.get(i, ()) if w.phase is Phase.FORWARD), tuple(parameters.get(i, ())))
            for i in range(len(self.segments))
        ]
        significant = [self._significant(s, parameters.get(i, ())) for i, s in enumerate(self.segments)]
        stash, selective = self._amounts(kept), self._amounts(kept_selective)
        blocks: list[Block] = []
        ops: list[tuple[str, ...]] = []
        for group in fold_stages(self.segments, signatures, significant):
            # The blocks at the ends of a repetition have neighbours of another kind; one inside stands for all.
            middle = group.start + group.period * (group.count // 2)
            inside = range(middle, middle + group.period)
            block = Block(
                name=self._name(inside, group),
                work=tuple(w for i in inside for w in work.get(i, ())),
                parameters=tuple(p for i in inside for p in parameters.get(i, ())),
                stash=tuple(a for i in inside for a in stash.get(i, ())),
                selective_stash=tuple(a for i in inside for a in selective.get(i, ())),
                exchanges=tuple(e for i in inside for e in self._exchanges(self.segments[i])),
                output=self.segments[inside[-1]].output,
                workspace=self._workspace(inside),
            )
            blocks.extend([block] * group.count)
            for at in range(group.start, group.start + group.period * group.count, group.period):
                ops.append(tuple(op.name for segment in self.segments[at : at + group.period] for op in segment.ops))
        unknown = unknown_types(self.program, tensors.costs)
        return Chain(tuple(blocks), tuple(unknown.items()), tuple(ops))

    # -- which segment an op belongs to ------------------------------------------------------------------------

    def _place(self) -> dict[str, int]:
        """The segment of each op of the forward pass, the backward pass and the update."""
        place = {op.name: i for i, segment in enumerate(self.segments) for op in segment.ops}
        counted = [op for op in self.tensors.ops if op.phase in (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE)]
        first_reader: dict[str, int] = {}
        for op in counted:  # what does not flow from the batch goes to the first segment that reads it
            if op.name in place and op.phase is Phase.FORWARD:
                self._note_readers(op, place[op.name], first_reader)
        for op in reversed(counted):
            if op.phase is Phase.FORWARD and op.name not in place and op.name in first_reader:
                place[op.name] = first_reader[op.name]
                self._note_readers(op, place[op.name], first_reader)
        for op in counted:
            if op.phase is Phase.BACKWARD and op.forward in place:
                place[op.name] = place[op.forward]
        for name, variable in self.program.variables.items():
            for update in variable.updates:
                owner = place.get(variable.slot_of or name)
                if owner is not None:
                    place.setdefault(update, owner)
        for _ in range(2):
            self._by_neighbours(counted, place)
        return place

    def _note_readers(self, op: Op, segment: int, first: dict[str, int]) -> None:
        for tensor in op.inputs:
            name = split_tensor(tensor)[0]
            first[name] = min(first.get(name, segment), segment)

    def _by_neighbours(self, ops: Sequence[Op], place: dict[str, int]) -> None:
        """Places what is left with what it reads, else with what reads it."""
        for op in ops:
            if op.name not in place:
                near = [place[n] for n in (split_tensor(t)[0] for t in op.inputs) if n in place]
                if near:
                    place[op.name] = max(near)
        readers: dict[str, int] = {}
        for op in reversed(ops):
            if op.name not in place and op.name in readers:
                place[op.name] = readers[op.name]
            if op.name in place:
                for tensor in op.inputs:
                    readers.setdefault(split_tensor(tensor)[0], place[op.name])

    # -- what a segment holds ----------------------------------------------------------------------------------

    def _significant(self, segment: Segment, parameters: Iterable[Parameter]) -> bool:
        heavy = any(self.tensors.costs[op.name].kind in HEAVY for op in segment.ops)
        return heavy or any(p.elements >= _TABLE for p in parameters)

    def _parameters(self) -> dict[int, list[Parameter]]:
        """The variables that each segment reads in the forward pass."""
        slots: dict[str, int] = {}
        for variable in self.program.variables.values():
            if variable.slot_of is not None:
                slots[variable.slot_of] = slots.get(variable.slot_of, 0) + 1
        found: dict[int, list[Parameter]] = {}
        for name, segments in self._variable_segments().items():
            variable = self.program.variables[name]
            elements = 1
            for size in variable.shape or ():
                elements *= size or 1
            parameter = Parameter(
                elements=elements,
                split=name in self.split.variables,
                trainable=variable.trainable,
                slots=slots.get(name, 0),
                shared=name if len(segments) > 1 else "",
            )
            for segment in segments:
                found.setdefault(segment, []).append(parameter)
        return found

    def _variable_segments(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for number, segment in enumerate(self.segments):
            for op in segment.ops:
                for tensor in op.inputs:
                    holder = self._holder_behind(tensor)
                    if holder is not None and number not in found.setdefault(holder, []):
                        found[holder].append(number)
        return found

    def _holder_behind(self, tensor: str) -> str | None:
        """The variable that an operand is, or is computed from without the batch (a slice of a table)."""
        for _ in range(16):
            holder = self.tensors.holder(tensor)
            if holder is not None:
                return holder
            op = self.tensors.producer(tensor)
            if op.name in self.tensors.flowing or op.phase is Phase.INPUT or not op.inputs:
                return None
            tensor = op.inputs[0]
        return None

    def _amounts(self, kept: Iterable[str]) -> dict[int, list[Amount]]:
        found: dict[int, list[Amount]] = {}
        for root in sorted(kept):
            segment = self.place.get(split_tensor(root)[0])
            if segment is not None:
                amount = Amount(self.tensors.elements(root), self.tensors.other_bytes(root), root in self.split.tensors)
                found.setdefault(segment, []).append(amount)
        return found

    def _exchanges(self, segment: Segment) -> list[Exchange]:
        found = (self.split.exchanges.get(op.name, ()) for op in segment.ops)
        return [Exchange(phase, elements) for item in found for phase, elements in item]

    def _workspace(self, inside: Iterable[int]) -> Amount:
        """The largest inputs and outputs of one op, forward or backward."""
        segments = set(inside)
        best = (0.0, Amount(ZERO))
        for op in self.tensors.ops:
            if self.place.get(op.name) in segments and op.phase in (Phase.FORWARD, Phase.BACKWARD):
                buffers = dict.fromkeys(self.tensors.root(t) for t in (*op.inputs, *op.outputs_named()))
                elements, other = ZERO, ZERO
                for buffer in buffers:
                    if split_tensor(buffer)[0] not in self.program.variables:
                        elements = elements + self.tensors.elements(buffer)
                        other = other + self.tensors.other_bytes(buffer)
                amount = Amount(elements, other, op.name in self.split.ops)
                size = 4 * elements.at(8) + other.at(8)
                if size > best[0]:
                    best = (size, amount)
        return best[1]

    def _name(self, inside: Sequence[int], group: Group) -> str:
        """The scope that most ops of a block share."""
        scopes = [op.name.split("/")[:-1] for i in inside for op in self.segments[i].ops]
        if not scopes:
            return f"block_{group.start}"
        depth = max(len(scope) for scope in scopes)
        name = ""
        for length in range(1, depth + 1):
            counts: dict[str, int] = {}
            for scope in scopes:
                prefix = "/".join(scope[:length])
                counts[prefix] = counts.get(prefix, 0) + 1
            best = max(counts, key=lambda prefix: counts[prefix])
            if counts[best] < 0.6 * len(scopes):
                break
            name = best
        return name or f"block_{group.start}"
