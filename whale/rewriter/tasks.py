"""The tasks of a pipeline in the rewritten graph: which nodes are work of which task, and the order they run in.

A task is one copy's forward or backward pass on one stage. A device runs its tasks one after another: when the nodes
of a task that nothing else in it reads have run, a node of no operation lets those of the next task begin that read
nothing of their own task. What is shared by micro-batches (weights, constants, updates) or depends on inputs alone
(sizes, the number of labels that count) is in no task, and runs as soon as it can.

The order is the schedule's, as far as the values allow. Where a value takes all micro-batches before any may go on
(batch norm over the whole batch, the root of a mean), the tasks that wait for one another are taken together, or a
task that can run goes before one that cannot: the numbers are those of one device, and the plan says where the
schedule gave way.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tensorflow.core.framework import node_def_pb2

from whale.ir import program as ir
from whale.ir.program import split_tensor
from whale.ir.schedule import Phase
from whale.ir.waits import check_waits
from whale.rewriter.collectives import in_words
from whale.rewriter.frames import frames, producer, turns
from whale.rewriter.mesh import Ordered
from whale.rewriter.task_rows import Row, Settled, settle
from whale.sharding.order import BACK_EDGES, ENTERS, EXITS, MERGES
from whale.sharding.rules.state import HOLDERS

if TYPE_CHECKING:
    from whale.rewriter.lower import Lowering

PASSES: Mapping[ir.Phase, Phase] = {ir.Phase.FORWARD: Phase.FORWARD, ir.Phase.BACKWARD: Phase.BACKWARD}
"""The phases of a program whose work on pieces is in tasks."""

MOST_PLACES = 3
"""Places where micro-batches wait for one another that the plan names."""


@dataclasses.dataclass(frozen=True)
class CopyTask:
    """One copy's forward or backward pass on one stage."""

    phase: Phase
    """The pass."""
    stage: int
    """Stage, from 0."""
    copy: int
    """The copy: replica times micro-batches, plus the micro-batch."""


def order_tasks(lowering: Lowering) -> Ordered:
    """Makes the nodes of a lowering run in the order of its schedule, by control edges.

    To be called when all its nodes are collected and none is imported.

    Raises:
        VerifyError: nodes wait for one another, in any order of tasks.
    """
    return _Ordering(lowering).run()


class _Ordering:
    def __init__(self, lowering: Lowering) -> None:
        self.lowering = lowering
        self.nodes: dict[str, node_def_pb2.NodeDef] = {node.name: node for node in lowering.shadow.pending}
        self.tasks = {name: task for name, task in lowering.tasks.items() if name in self.nodes}
        self.sent = lowering.sent_to()
        # What leaves a loop comes after all of its turns, whichever of its variables it is.
        self.turns = turns(self.nodes, frames(self.nodes))
        self.reads = {name: self._inputs(node) for name, node in self.nodes.items()}
        self.number: dict[CopyTask, int] = {}
        self.list: list[CopyTask] = []
        self.reach: dict[str, int] = {}
        """By node: the tasks it comes after, as bits; of a task's node, that task alone."""
        self.before: list[int] = []
        """By task: the tasks it reads from."""

    def run(self) -> Ordered:
        lowering = self.lowering
        check_waits(self.reads, (), shown=in_words(lowering.shadow, lowering.program.ops))
        self._follow()
        ahead = self._ahead()
        if ahead:
            self.tasks = {name: task for name, task in self.tasks.items() if name not in ahead}
            self._follow()
        before = [[self.list[i] for i in _bits(mask)] for mask in self.before]
        settled = settle(self._rows(), dict(zip(self.list, before)))
        self._join(settled)
        pipeline = self.lowering.mesh.pipeline
        assert pipeline is not None
        return Ordered(pipeline.schedule, self._places() if settled.gave_way else ())

    def _inputs(self, node: node_def_pb2.NodeDef) -> list[str]:
        """The nodes of this lowering that a node waits for, but for what comes round a loop."""
        names = [*(producer(text) for text in node.input), *self.turns.get(node.name, ())]
        names.extend([sender for name in names for sender in self.sent.get(name, ())])
        found = [name for name in names if name in self.nodes]
        return [name for name in found if not (node.op in MERGES and self.nodes[name].op in BACK_EDGES)]

    def _follow(self) -> None:
        """Finds what every node and task comes after."""
        self.number = {task: i for i, task in enumerate(dict.fromkeys(self.tasks.values()))}
        self.list = list(self.number)
        self.before = [0] * len(self.list)
        self.reach.clear()
        for root in self.nodes:
            stack = [root]
            while stack:
                name = stack[-1]
                if name in self.reach:
                    stack.pop()
                    continue
                missing = [other for other in self.reads[name] if other not in self.reach]
                if missing:
                    stack.extend(missing)
                    continue
                stack.pop()
                mask = 0
                for other in self.reads[name]:
                    mask |= self.reach[other]
                task = self.tasks.get(name)
                if task is not None:
                    number = self.number[task]
                    self.before[number] |= mask & ~(1 << number)
                    mask = 1 << number
                self.reach[name] = mask

    def _gathers(self) -> list[str]:
        """Nodes of no task that take several copies of one stage and pass, and are read by a task."""
        found: dict[str, None] = {}
        for name in self.tasks:
            for other in self.reads[name]:
                if other not in self.tasks and other not in found and self._takes_several(other):
                    found[other] = None
        return list(found)

    def _takes_several(self, name: str) -> bool:
        counts: dict[tuple[Phase, int], int] = {}
        for i in _bits(self.reach[name]):
            key = (self.list[i].phase, self.list[i].stage)
            counts[key] = counts.get(key, 0) + 1
        return any(count > 1 for count in counts.values())

    def _ahead(self) -> set[str]:
        """Nodes of tasks that need not be: they depend on inputs alone, and all micro-batches wait for their sum."""
        found: set[str] = set()
        stack = self._gathers()
        if not stack:
            return found
        model = self._on_model()
        while stack:
            name = stack.pop()
            if name not in found:
                found.add(name)
                stack.extend(self.reads[name])
        return found - model

    def _on_model(self) -> set[str]:
        """The nodes whose values depend on a variable."""
        lowering = self.lowering
        ops: set[str] = set()
        for op in lowering.analysis.order.ops:
            if op.type in HOLDERS or any(split_tensor(t)[0] in ops for t in op.inputs if t not in lowering.feeds):
                ops.add(op.name)
        found: set[str] = set()
        for name in self.reach:  # every node after what it reads
            for text in (*self.nodes[name].input, *self.turns.get(name, ())):
                other = text.partition(":")[0]
                outside = other not in self.nodes and not text.startswith("^")
                if other in found or (outside and self._user_op(other) in ops):
                    found.add(name)
                    break
        return found

    def _user_op(self, node: str) -> str:
        """The user's op that a node made before is, or is a copy of."""
        origin = self.lowering.shadow.origins.get(node)
        return node if origin is None else origin.op

    def _rows(self) -> dict[str, Row]:
        """By device: its tasks in the order of the schedule."""
        pipeline = self.lowering.mesh.pipeline
        assert pipeline is not None
        rows: dict[str, Row] = {}
        for replica in range(pipeline.replicas):
            for row in pipeline.schedule.rows:
                for planned in row:
                    copy = replica * pipeline.micro_batches + planned.micro_batch
                    task = CopyTask(planned.phase, planned.stage, copy)
                    if task in self.number:
                        rows.setdefault(pipeline.devices[planned.stage][copy], []).append(task)
        return rows

    def _join(self, settled: Settled) -> None:
        """Adds the control edges."""
        inside: dict[CopyTask, list[str]] = {}
        read_inside: set[str] = set()
        begins: set[str] = set()
        for name, task in self.tasks.items():
            inside.setdefault(task, []).append(name)
            own = [other for other in self.reads[name] if self.tasks.get(other) == task]
            read_inside.update(own)
            if not own:
                begins.add(name)
        for device, steps in settled.rows.items():
            for earlier, later in zip(steps, steps[1:]):
                ends = [n for task in earlier for n in inside[task] if n not in read_inside and self._lives(n)]
                done = node_def_pb2.NodeDef(op="NoOp", device=device)
                first = earlier[0]
                hint = f"{first.phase.value}_stage_{first.stage}_done"
                shadow = self.lowering.shadow
                done.name = shadow.unique(f"{self.lowering.prefix}{self.lowering.mesh.label(first.copy)}/whale/{hint}")
                done.input.extend(f"^{name}" for name in ends)
                shadow.add(done, self.lowering.mesh.origin("", first.copy, "NoOp"))
                for task in later:
                    for name in inside[task]:
                        if name in begins and self._may_wait(name):
                            self._wait(self.nodes[name], done.name)

    def _wait(self, node: node_def_pb2.NodeDef, done: str) -> None:
        """Makes a node wait; what enters a loop waits before it does, as TensorFlow's loops over devices require."""
        if node.op not in ENTERS:
            node.input.append(f"^{done}")
            return
        shadow = self.lowering.shadow
        before = node_def_pb2.NodeDef(op="Identity", device=node.device)
        before.name = shadow.unique(f"{node.name}/whale/wait")
        before.attr["T"].CopyFrom(node.attr["T"])
        before.input.extend([node.input[0], f"^{done}"])
        shadow.add(before, dataclasses.replace(shadow.origins[node.name], own="Identity"))
        node.input[0] = f"{before.name}:0"

    def _lives(self, name: str) -> bool:
        """Whether a node runs in every step, once: not in a loop, nor in a branch."""
        op = self.lowering.shadow.origins[name].op
        looping = self.lowering.analysis.order.frame(op) and self.nodes[name].op not in EXITS
        return not looping and op not in self.lowering.branches.of

    def _may_wait(self, name: str) -> bool:
        """Whether a node can be made to wait: not one in a loop, nor what is the same in all its iterations."""
        node = self.nodes[name]
        frame = self.lowering.analysis.order.frame(self.lowering.shadow.origins[name].op)
        if node.op in ENTERS:
            return len(frame) == 1 and node.op == "Enter" and not node.attr["is_constant"].b
        return not frame and node.op not in MERGES

    def _places(self) -> tuple[str, ...]:
        """The ops whose values take several micro-batches before a task goes on, in the order of the graph."""
        names = {self.lowering.shadow.origins[name].op for name in self._gathers()}
        ops = [op for op in self.lowering.analysis.order.ops if op.name in names][:MOST_PLACES]
        return tuple(op.described() for op in ops)


def _bits(mask: int) -> Sequence[int]:
    found: list[int] = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found
