"""Lowering: one analysed run of the user's graph as nodes per device in the shadow graph.

Every op is copied to the devices it runs on, with its inputs as it wants them. Where a copy would be the user's own op
on the user's own inputs, it is that op.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tensorflow.core.framework import node_def_pb2
from tensorflow.core.framework.attr_value_pb2 import AttrValue

from whale.ir.placement import REPLICATED
from whale.ir.program import Op, Phase, Program, TensorType, split_tensor
from whale.rewriter import fillers, recipes, streams, whole_shapes
from whale.rewriter.attributes import adapt
from whale.rewriter.branch_life import BranchLife
from whale.rewriter.bridges import Bridges
from whale.rewriter.build import Builder, Place, type_attr
from whale.rewriter.divided import divided
from whale.rewriter.entries import Entries
from whale.rewriter.fetches import fetch
from whale.rewriter.keys import KeyAllocator
from whale.rewriter.loop_checks import check_loopable, check_updates
from whale.rewriter.mesh import Lowered, Mesh
from whale.rewriter.micro_loop import wrap
from whale.rewriter.shadow import Shadow
from whale.rewriter.sizes import BatchSizes
from whale.rewriter.tasks import PASSES, CopyTask, order_tasks
from whale.rewriter.totals import Totals
from whale.rewriter.wanted import Wanted
from whale.rewriter.write_order import WriteOrder
from whale.sharding.facts import Fact, Want
from whale.sharding.order import ENTERS, EXITS
from whale.sharding.propagate import Analysis
from whale.sharding.residence import Residence
from whale.sharding.rules.source import RANDOM
from whale.sharding.rules.state import HOLDERS, writes_variable, written

_DROPPED = ("_class", "_output_shapes", "_whale_scope")
"""Attributes that a copy must not have."""


def lower(
    program: Program,
    analysis: Analysis,
    residence: Residence,
    shadow: Shadow,
    mesh: Mesh,
    keys: KeyAllocator,
    fetches: Sequence[str],
    targets: Sequence[str],
    feeds: Mapping[str, TensorType],
    user: Program | None = None,
    prefix: str = "",
    merges: Mapping[str, str] = MappingProxyType({}),
    observe: Sequence[str] = (),
) -> Lowered:
    """Adds the nodes of a run to the shadow graph (not yet imported: call ``shadow.flush``).

    ``user`` is the program that the shadow graph holds verbatim, where ``program`` was made from it by inlining.
    ``merges`` says of fetched tensors how their pieces are merged, where not by joining them (``fetches``).
    ``observe`` names tensors that can then be fetched without the rest of the run.
    """
    lowering = Lowering(program, analysis, residence, shadow, mesh, keys, feeds, user or program, prefix)
    return lowering.run(fetches, targets, merges, observe)


class Lowering:
    """State of one lowering."""

    def __init__(
        self,
        program: Program,
        analysis: Analysis,
        residence: Residence,
        shadow: Shadow,
        mesh: Mesh,
        keys: KeyAllocator,
        feeds: Mapping[str, TensorType],
        user: Program,
        prefix: str,
    ) -> None:
        self.program = program
        self.user = user
        self.analysis = analysis
        self.residence = residence
        self.shadow = shadow
        self.mesh = mesh
        self.keys = keys
        self.feeds = feeds
        self.prefix = prefix
        self.micro_batch = ""
        """Where micro-batches go through a loop: the node that is to hold the number of the one under way."""
        owner = prefix or "run_1/" if mesh.has_micro_batches else ""
        self.builder = Builder(shadow, prefix, owner, mesh)
        self.home = Place("", 0, mesh.devices[0])
        self.entries = Entries(self)
        self.wanted = Wanted(self)
        self.write_order = WriteOrder(self)
        self.totals = Totals(self)
        self.sizes = BatchSizes(
            self.builder,
            analysis.batches,
            mesh.shares,
            self.entries.count,
            self.home,
            self.entries.is_drawn,
            self.entries.rows,
            mesh.micro_batches,
        )
        if mesh.micro_batches > 1:
            self.micro_batch = shadow.unique(f"{prefix}whale/micro_batch")
            self.sizes.index = f"{self.micro_batch}:0"
            self.sizes.place_of = lambda copy: Place("", copy, mesh.devices[copy])
        self.bridges = Bridges(self.builder, self.sizes, lambda place, size: whole_shapes.entered(self, place, size))
        self.sources = {s.tensor: s for s in analysis.sources}
        self.ops: dict[str, Op] = {op.name: op for op in analysis.order.ops}
        self.names: dict[tuple[str, int], str] = {}
        self.tensors: dict[tuple[str, int], str] = {}
        self.reduced: dict[tuple[str, int], str] = {}
        self.sent: list[str] = []
        """Nodes that send random ops their inputs: a run that reaches one of these ops must run them."""
        self.lazy: dict[str, Callable[[], None]] = {}
        self.divided = divided(analysis, residence)
        """Ops that have a copy per piece of the batch."""
        self.tasks: dict[str, CopyTask] = {}
        """By node: the task of a pipeline it is work of."""
        self.branches = BranchLife(self)
        self._last_bare = ("", b"")
        self._constants: dict[str, bytes] = {}
        self._enter_of_frame = {op.attrs.get("frame_name", ""): op for op in analysis.order.ops if op.type in ENTERS}

    @property
    def copies(self) -> range:
        """Numbers of the copies of what works on pieces."""
        return self.mesh.copies

    def copies_of(self, op: str) -> Sequence[int]:
        """The copies that an op has: one at home, one per piece, or one per device where it works on whole values."""
        if not self.residence.all(op):
            return (0,)
        return self.copies if op in self.divided else self.mesh.leads(op)

    def index(self, op: str, copy: int) -> int:
        """Which copy of an op serves a copy of what reads it."""
        if not self.residence.all(op):
            return 0
        return copy if op in self.divided else self.mesh.lead(op, copy)

    def served(self, op: str, index: int) -> Sequence[int]:
        """The copies that a copy of an op serves on its device: itself, or where it is on whole values, all of them."""
        return (index,) if op in self.divided else self.mesh.led(op, index)

    def run(
        self, fetches: Sequence[str], targets: Sequence[str], merges: Mapping[str, str], observe: Sequence[str]
    ) -> Lowered:
        """Emits every op, then what fetches and targets need."""
        if self.mesh.has_micro_batches:
            check_updates(self.analysis, self.residence, self.divided)
        if self.micro_batch:
            check_loopable(self.analysis)
        for op in self.analysis.order.ops:
            self._emit(op)
        fetched = tuple(fetch(self, t, merges.get(t, "")) for t in fetches)
        observed = tuple(self.get(t, REPLICATED, 0) for t in observe)
        closure = [self.names[op.name, r] for op in self._writers() for r in self.copies_of(op.name)[1:]]
        wanted = [self.name_of(t, 0) for t in targets]
        for target in targets:
            wanted.extend(self.names[target, r] for r in self.copies_of(target)[1:])
        buckets = self.totals.all_reduce(closure)
        self.write_order.hold()
        order = order_tasks(self) if self.tasks else None
        loops = None
        if self.micro_batch:
            devices, micro_batches = self.mesh.devices, self.mesh.micro_batches
            asked = [*(output.rpartition(":")[0] for output in (*fetched, *observed)), *wanted, *closure, *self.sent]
            loops = wrap(
                self.shadow,
                self.micro_batch,
                micro_batches,
                devices,
                self.prefix,
                self.divided,
                self.branches.nodes,
                frozenset(asked),
                self.sent_to(),
            )
        mirrored = frozenset(op.name for op in self.ops.values() if op.type in HOLDERS and self.residence.all(op.name))
        home_writes = frozenset(
            variable
            for op in self.ops.values()
            if not self.residence.all(op.name)
            for variable in written(self.ops, op)
        )
        return Lowered(
            fetched,
            tuple(dict.fromkeys([*wanted, *closure, *self.sent])),
            tuple(self.entries.fed.values()),
            mirrored,
            home_writes,
            tuple(buckets),
            observed,
            tuple(self.sent),
            order,
            loops,
        )

    def sent_to(self) -> Mapping[str, Sequence[str]]:
        """By op: the nodes that send random ops of the script's own graph their inputs, and that it comes after."""
        senders: dict[str, list[str]] = {}
        for name in self.sent:
            senders.setdefault(self.shadow.origins[name].op, []).append(name)
        found: dict[str, Sequence[str]] = {}
        for op in self.analysis.order.ops if senders else ():
            before = [split_tensor(tensor)[0] for tensor in op.inputs if tensor not in self.feeds] + list(op.controls)
            found[op.name] = list(dict.fromkeys(s for b in before for s in found.get(b, ())))
            found[op.name] = [*found[op.name], *senders.get(op.name, ())]
        return found

    def _writers(self) -> list[Op]:
        return [op for op in self.ops.values() if writes_variable(op.type) and self.residence.all(op.name)]

    # -- copies of ops -----------------------------------------------------------------------------------------

    def _emit(self, op: Op) -> None:
        decision = self.analysis.decisions[op.name]
        if decision.recipe.startswith("global_"):
            self.lazy[op.name] = lambda: recipes.RECIPES[decision.recipe](self, op, decision)
            return
        ahead = self.mesh.has_micro_batches and op.type in whole_shapes.FILLS and op.name in self.divided
        conditional = op.name in self.branches.of or self.analysis.order.frame(op.name)
        if ahead and not conditional and whole_shapes.filled_ahead(self, op):
            return
        if decision.recipe in recipes.RECIPES:
            recipes.RECIPES[decision.recipe](self, op, decision)
            return
        if self.residence.all(op.name):
            for replica in self.copies_of(op.name):
                self.copy(op, replica, decision.wants)
        else:
            self.copy(op, 0, tuple(REPLICATED if w is None else w for w in decision.wants))

    def copy(self, op: Op, replica: int, wants: Sequence[Want], variant: str = "") -> str:
        """One copy of an op; returns the node's name."""
        inputs = [self.get(t, w, replica) for t, w in zip(op.inputs, wants)]
        batch = fillers.batch_to_fill(self, op, replica, wants)
        if batch is None:
            return self.copy_with(op, replica, inputs, variant)
        inputs = fillers.fill(self, op, replica, wants, inputs, batch)
        name = self.copy_with(op, replica, inputs, variant or "/filled")
        values = [fillers.drop(self, op, replica, name, index, batch) for index in range(len(op.outputs))]
        for index, value in enumerate(values):
            self.set_output(op, replica, index, value)
        return values[0].rpartition(":")[0]

    def copy_with(self, op: Op, replica: int, inputs: Sequence[str], variant: str = "") -> str:
        """One copy of an op on given inputs."""
        controls = self._controls(op, replica)
        frame = self.analysis.order.frame(op.name)
        # In a loop, what is brought in hangs on the loop's own ops (Place.near): the copies keep in step as they are.
        branch = None if frame else self.branches.of.get(op.name)
        edits = adapt(self, op, replica)
        outlives = branch is not None and not any(self.branches.dies(t, v, branch) for t, v in zip(op.inputs, inputs))
        if op.name in self.shadow.streams and not (replica or edits or variant or frame):
            return self._send(op, inputs, branch if outlives else None)
        if branch is not None and outlives:
            controls.append(self.branches.alive(branch, replica, op.name))
        name: str | None = None
        task = self._task(op, replica, variant)
        bound = task is not None or (self.micro_batch and op.name in self.divided)
        if not (replica or frame or edits or variant or bound) and self._is_own(op, inputs, controls):
            name = op.name
        key = None if frame else self._key(op, replica, inputs, controls, variant)
        if name is None and key is not None:
            name = self.shadow.earlier(key)
        if name is None:
            node = node_def_pb2.NodeDef()
            node.ParseFromString(self._bare(op))
            if variant:  # serves the op's recipe and is not its copy
                node.name = self.shadow.unique(f"{self.prefix}{self.mesh.label(replica)}/{op.name}{variant}")
            else:
                node.name = self.reserve(op, replica)
            node.input.extend(inputs)
            if controls:
                node.input.extend([f"^{c}" for c in controls])
            node.device = self.mesh.device(op.name, replica)
            for attribute, value in edits.items():
                node.attr[attribute].CopyFrom(value)
            name = self.shadow.add(node, self.mesh.origin(op.name, replica), key)
            if task is not None:
                self.tasks[name] = task
        if op.type in HOLDERS:
            self.shadow.note_mirror(op.name, replica, name)
        if branch is not None:
            self.branches.note(name, branch)
        if not variant:
            self.set_copy(op, replica, name)
        return name

    def _task(self, op: Op, copy: int, variant: str) -> CopyTask | None:
        """The task of a pipeline that a copy is work of; None for what is shared by micro-batches or computed ahead."""
        phase = PASSES.get(op.phase)
        if self.mesh.pipeline is None or phase is None or op.name not in self.divided or variant == "/whole":
            return None
        return CopyTask(phase, self.mesh.stage(op.name), copy)

    def _send(self, op: Op, inputs: Sequence[str], branch: str | None) -> str:
        """Sends a random op its inputs; the copy is the user's own op, as in every other plan."""
        place = Place(op.name, 0, streams.DEVICE)
        for index, value in enumerate(inputs):
            attrs = streams.address(op, self.program, index, "T")
            if branch is not None:  # what is dead is sent as dead only if it is so by its data
                name, side = split_tensor(branch)
                predicate = self.get(self.ops[name].inputs[1], REPLICATED, 0)
                hint = f"{op.name}/whale/taken_{index}"
                switch = self.builder.node(place, "Switch", [value, predicate], hint, {"T": attrs["T"]})
                value = f"{_node(switch)}:{side}"
            hint = f"{op.name}/whale/send_{index}"
            self.sent.append(_node(self.builder.node(place, "_HostSend", [value], hint, attrs)))
        self.set_copy(op, 0, op.name)
        return op.name

    def _bare(self, op: Op) -> bytes:
        """The serialized NodeDef of an op less what each copy has of its own."""
        if self._last_bare[0] != op.name:
            node = node_def_pb2.NodeDef()
            node.ParseFromString(op.node)
            del node.input[:]
            for attribute in _DROPPED:
                if attribute in node.attr:
                    del node.attr[attribute]
            self._last_bare = (op.name, node.SerializeToString())
        return self._last_bare[1]

    def _is_own(self, op: Op, inputs: Sequence[str], controls: Sequence[str]) -> bool:
        """Whether a copy at home would be the user's own op."""
        verbatim = self.user.ops.get(op.name) is op
        return verbatim and list(op.inputs) == list(inputs) and list(op.controls) == controls

    def _key(self, op: Op, replica: int, inputs: Sequence[str], controls: Sequence[str], variant: str) -> Any:
        """What copies have in common that may be one node; None for an op that must not be shared."""
        if op.stateful and op.type not in HOLDERS and op.type not in RANDOM:
            return None
        if op.type in HOLDERS:  # one for each device, whatever copies a plan has
            return ("holder", op.name, self.mesh.device(op.name, replica))
        if op.type == "Const" and not controls:
            if op.name not in self._constants:
                value = self.attributes(op)["value"].SerializeToString(deterministic=True)
                self._constants[op.name] = hashlib.sha256(value).digest()
            return ("Const", self.mesh.device(op.name, replica), replica, self._constants[op.name])
        # A task waits for those before it in this kind of run, and what is in a loop is in one of this run.
        owner = self.builder.owner if op.name in self.divided else ""
        return (op.name, replica, tuple(inputs), tuple(controls), variant, owner)

    def reserve(self, op: Op, replica: int) -> str:
        """The name of a copy, given out before the copy is made where a loop's back edge needs it."""
        key = (op.name, replica)
        if key not in self.names:
            self.names[key] = self.shadow.unique(f"{self.prefix}{self.mesh.label(replica)}/{op.name}")
        return self.names[key]

    def set_copy(self, op: Op, replica: int, name: str) -> None:
        """Notes the node that is an op's copy, and its outputs."""
        self.names[op.name, replica] = name
        for i in range(len(op.outputs)):
            self.tensors[op.output(i), replica] = f"{name}:{i}"

    def set_output(self, op: Op, replica: int, index: int, value: str) -> None:
        """Notes what an output of an op is on a copy."""
        self.tensors[op.output(index), replica] = value
        self.names.setdefault((op.name, replica), value.rpartition(":")[0])

    def name_of(self, op: str, replica: int) -> str:
        """The node that an op is on a copy, for control edges and targets."""
        if op in self.lazy:
            self.lazy.pop(op)()
        return self.names[op, self.index(op, replica)]

    def _controls(self, op: Op, replica: int) -> list[str]:
        writes = writes_variable(op.type)
        if not op.controls and not writes:
            return []
        controls = []
        frame = self.analysis.order.frame(op.name)
        for control in op.controls:
            if control not in self.ops:
                continue
            inside = self.analysis.order.frame(control)
            if frame and inside and replica and not self.residence.all(control):
                continue
            if self._waits_for_siblings(op, control):
                continue
            controls.extend(self.name_of(control, copy) for copy in self.served(op.name, replica))
        controls.extend(self.write_order.earlier_write(op, replica, frame))
        if writes:
            controls.extend(self.write_order.earlier_reads(op, replica, frame))
        if replica and writes:
            controls.extend(self.write_order.own_reads(op, replica, frame))
        return list(dict.fromkeys(controls))

    def _waits_for_siblings(self, op: Op, control: str) -> bool:
        """Whether ``tf.gradients`` makes a gradient on whole values wait for others that micro-batches compute.

        It lets the gradients of one op's inputs wait for each other. Nothing depends on that, and a pipeline's
        micro-batches would wait for one another there.
        """
        backward = op.phase is Phase.BACKWARD and self.ops[control].phase is Phase.BACKWARD
        backward = backward and self.ops[control].type == "NoOp"  # else it orders the use of a container
        return backward and self.mesh.has_micro_batches and op.name not in self.divided and control in self.divided

    # -- tensors -----------------------------------------------------------------------------------------------

    def dtype(self, tensor: str) -> str:
        """Type of a tensor, without reference."""
        kind = self.feeds[tensor] if tensor in self.feeds else self.program.tensor(tensor)
        return kind.dtype.replace("_ref", "")

    def place(self, tensor: str, replica: int, at_home: bool = False) -> Place:
        """Where the bridge of a tensor goes."""
        op = split_tensor(tensor)[0]
        device = self.mesh.device(op, 0 if at_home else replica)
        frame = self.analysis.order.frame(op)
        producer = self.ops.get(op)
        if producer is not None and producer.type in EXITS:
            frame = frame[:-1]
        if not frame or tensor in self.feeds:
            return Place(op, replica, device)
        anchor = tensor
        if producer is not None and self.analysis.decisions[op].recipe.startswith("global_"):
            anchor = producer.inputs[0]  # worked out at home alone, if at all: hang on the piece it speaks of
        near = self.wanted.base(anchor, replica).rpartition(":")[0]
        return Place(op, replica, device, near, lambda value, dtype: self._enter(value, dtype, frame, replica, device))

    def _enter(self, value: str, dtype: str, frame: tuple[str, ...], replica: int, device: str) -> str:
        for i, name in enumerate(frame):
            enter = self._enter_of_frame[name]
            attrs = {
                "T": type_attr(dtype),
                "frame_name": self.frame_name(name, replica),
                "is_constant": True,
                "parallel_iterations": int(enter.attrs.get("parallel_iterations", 10)),
            }
            value = self.builder.node(Place(enter.name, replica, device), "Enter", [value], f"whale/enter_{i}", attrs)
        return value

    def frame_name(self, name: str, replica: int) -> str:
        """The frame of a copied loop: each copy's own, or one for all where copies exchange values."""
        root = self.analysis.order.frame(self._enter_of_frame[name].name)[0]
        if root in self.residence.merged_frames:
            return f"{self.prefix}merged/{name}"
        return f"{self.prefix}{self.mesh.label(replica)}/{name}"

    def fact(self, tensor: str) -> Fact:
        """What is known of a tensor."""
        return self.analysis.facts[tensor]

    def get(self, tensor: str, want: Want, replica: int) -> str:
        """A node output holding a tensor as wanted on a copy; emits the bridge if there is none yet."""
        return self.wanted.get(tensor, want, replica)

    def attributes(self, op: Op) -> dict[str, AttrValue]:
        """The attributes of an op."""
        node = node_def_pb2.NodeDef()
        node.ParseFromString(op.node)
        return {k: v for k, v in node.attr.items() if k not in _DROPPED}


def _node(output: str) -> str:
    """The node of an output."""
    return output.rpartition(":")[0]
