"""Lowering: one analysed run of the user's graph as nodes per device in the shadow graph.

Every op is copied to the devices it runs on, with its inputs as it wants them. Where a copy would be the user's own op
on the user's own inputs, it is that op.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tensorflow.core.framework import node_def_pb2
from tensorflow.core.framework.attr_value_pb2 import AttrValue

from whale.errors import VerifyError
from whale.ir.placement import EACH, PARTIAL, REPLICATED, Sharded
from whale.ir.program import Op, Program, TensorType, split_tensor
from whale.rewriter import fillers, recipes
from whale.rewriter.attributes import adapt
from whale.rewriter.bridges import Bridges
from whale.rewriter.buckets import WORTH_A_MESSAGE, AllReduce, Group, Reduced, fuse
from whale.rewriter.build import Builder, Place, shape_attr, type_attr
from whale.rewriter.draws import draw
from whale.rewriter.fetches import fetch
from whale.rewriter.keys import KeyAllocator
from whale.rewriter.shadow import Origin, Shadow
from whale.rewriter.sizes import BatchSizes
from whale.sharding.facts import Fact, Local, Relaxed, Want
from whale.sharding.order import ENTERS, EXITS
from whale.sharding.propagate import Analysis
from whale.sharding.residence import Residence
from whale.sharding.rules.source import RANDOM
from whale.sharding.rules.state import HOLDERS, holder_of, writes_variable

_DROPPED = ("_class", "_output_shapes", "_whale_scope")
"""Attributes that a copy must not have."""


_ALIASES = frozenset(
    {"Identity", "ReadVariableOp", "StopGradient", "PreventGradient", "Reshape", "ExpandDims", "Squeeze"}
)
"""Ops whose output may be the very memory of their input, so that whoever reads it reads the variable."""


@dataclasses.dataclass(frozen=True)
class Feed:
    """One value that a run feeds into the shadow graph."""

    node: str
    """Tensor of the shadow graph."""
    tensor: str
    """Tensor the user feeds."""
    kind: str
    """``whole``, ``piece`` (a copy's samples) or ``count`` (the number of samples)."""
    replica: int = 0
    """The copy, for a piece."""
    dim: int = 0
    """The dim that is cut or counted."""


@dataclasses.dataclass(frozen=True)
class Lowered:
    """A run of the shadow graph that computes a run of the user's graph."""

    fetches: tuple[str, ...]
    """Tensors of the shadow graph, one per fetched tensor."""
    targets: tuple[str, ...]
    """Ops of the shadow graph."""
    feeds: tuple[Feed, ...]
    """What is fed."""
    mirrored: frozenset[str]
    """Variables that every copy reads or writes: their mirrors must be in step before the run."""
    home_writes: frozenset[str]
    """Variables written at home only: other mirrors are out of step after the run."""
    collectives: tuple[tuple[Reduced, ...], ...] = ()
    """Buckets that are all-reduced."""


@dataclasses.dataclass(frozen=True)
class Mesh:
    """The devices of the replica axis."""

    devices: tuple[str, ...]
    """One device string per copy; the first is home."""
    shares: tuple[int, ...]
    """Relative batch share of each copy."""
    max_splits: int = 5
    """Most buckets per all-reduce, beside large tensors."""
    worth: int = WORTH_A_MESSAGE
    """Bytes from which a tensor travels alone."""
    communicators: int = 2
    """Buckets that may be under way at once."""
    local: bool = False
    """Whether every copy draws its own batch from the input pipeline."""

    @property
    def hint(self) -> str:
        """Communication hint of collectives."""
        return "nccl" if all("GPU" in d for d in self.devices) else "ring"


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
) -> Lowered:
    """Adds the nodes of a run to the shadow graph (not yet imported: call ``shadow.flush``).

    ``user`` is the program that the shadow graph holds verbatim, where ``program`` was made from it by inlining.
    ``merges`` says of fetched tensors how their pieces are merged, where not by joining them (``fetches``).
    """
    lowering = Lowering(program, analysis, residence, shadow, mesh, keys, feeds, user or program, prefix)
    return lowering.run(fetches, targets, merges)


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
        self.builder = Builder(shadow, prefix)
        self.home = Place("", 0, mesh.devices[0])
        self.sizes = BatchSizes(
            self.builder, analysis.batches, mesh.shares, self._count, self.home, self._is_drawn, self._rows
        )
        self.bridges = Bridges(self.builder, self.sizes)
        self.sources = {s.tensor: s for s in analysis.sources}
        self.ops: dict[str, Op] = {op.name: op for op in analysis.order.ops}
        self.names: dict[tuple[str, int], str] = {}
        self.tensors: dict[tuple[str, int], str] = {}
        self.bridged: dict[tuple[str, Want, int], str] = {}
        self.reduced: dict[tuple[str, int], str] = {}
        self.fed: dict[str, Feed] = {}
        self._readers: dict[str, list[str]] | None = None
        self._position: dict[str, int] = {}
        self._frontiers: dict[str, frozenset[str]] = {}
        self.draws: dict[str, list[list[str]]] = {}
        self.lazy: dict[str, Callable[[], None]] = {}
        self._last_bare = ("", b"")
        self._constants: dict[str, bytes] = {}
        self._enter_of_frame = {op.attrs.get("frame_name", ""): op for op in analysis.order.ops if op.type in ENTERS}

    @property
    def replicas(self) -> range:
        """Numbers of the copies."""
        return range(len(self.mesh.devices))

    def run(self, fetches: Sequence[str], targets: Sequence[str], merges: Mapping[str, str]) -> Lowered:
        """Emits every op, then what fetches and targets need."""
        for op in self.analysis.order.ops:
            self._emit(op)
        fetched = tuple(fetch(self, t, merges.get(t, "")) for t in fetches)
        closure = [self.names[op.name, r] for op in self._writers() for r in self.replicas[1:]]
        wanted = [self.name_of(t, 0) for t in targets]
        for target in targets:
            if self.residence.all(target):
                wanted.extend(self.names[target, r] for r in self.replicas[1:])
        buckets = self._all_reduce(closure)
        mirrored = frozenset(op.name for op in self.ops.values() if op.type in HOLDERS and self.residence.all(op.name))
        home_writes = frozenset(
            split_tensor(op.inputs[0])[0]
            for op in self.ops.values()
            if writes_variable(op.type) and op.inputs and not self.residence.all(op.name)
        )
        return Lowered(
            fetched,
            tuple(dict.fromkeys([*wanted, *closure])),
            tuple(self.fed.values()),
            mirrored,
            home_writes,
            tuple(buckets),
        )

    def _writers(self) -> list[Op]:
        return [op for op in self.ops.values() if writes_variable(op.type) and self.residence.all(op.name)]

    # -- copies of ops -----------------------------------------------------------------------------------------

    def _emit(self, op: Op) -> None:
        decision = self.analysis.decisions[op.name]
        if decision.recipe.startswith("global_"):
            self.lazy[op.name] = lambda: recipes.RECIPES[decision.recipe](self, op, decision)
            return
        if decision.recipe in recipes.RECIPES:
            recipes.RECIPES[decision.recipe](self, op, decision)
            return
        if self.residence.all(op.name):
            for replica in self.replicas:
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
        value = fillers.drop(self, op, replica, name, batch)
        self.set_output(op, replica, 0, value)
        return value.rpartition(":")[0]

    def copy_with(self, op: Op, replica: int, inputs: Sequence[str], variant: str = "") -> str:
        """One copy of an op on given inputs."""
        controls = self._controls(op, replica)
        frame = self.analysis.order.frame(op.name)
        edits = adapt(self, op, replica)
        name: str | None = None
        if not (replica or frame or edits or variant) and self._is_own(op, inputs, controls):
            name = op.name
        key = None if frame else self._key(op, replica, inputs, controls, variant)
        if name is None and key is not None:
            name = self.shadow.earlier(key)
        if name is None:
            node = node_def_pb2.NodeDef()
            node.ParseFromString(self._bare(op))
            if variant:  # serves the op's recipe and is not its copy
                node.name = self.shadow.unique(f"{self.prefix}replica_{replica}/{op.name}{variant}")
            else:
                node.name = self._reserve(op, replica)
            node.input.extend(inputs)
            if controls:
                node.input.extend([f"^{c}" for c in controls])
            node.device = self.mesh.devices[replica]
            for attribute, value in edits.items():
                node.attr[attribute].CopyFrom(value)
            name = self.shadow.add(node, Origin(op.name, replica), key)
        if op.type in HOLDERS:
            self.shadow.note_mirror(op.name, replica, name)
        if not variant:
            self.set_copy(op, replica, name)
        return name

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
        if op.type == "Const" and not controls:
            if op.name not in self._constants:
                value = self.attributes(op)["value"].SerializeToString(deterministic=True)
                self._constants[op.name] = hashlib.sha256(value).digest()
            return ("Const", replica, self._constants[op.name])
        return (op.name, replica, tuple(inputs), tuple(controls), variant)

    def _reserve(self, op: Op, replica: int) -> str:
        """The name of a copy, given out before the copy is made where a loop's back edge needs it."""
        key = (op.name, replica)
        if key not in self.names:
            self.names[key] = self.shadow.unique(f"{self.prefix}replica_{replica}/{op.name}")
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
        if self.residence.all(op) and (op, replica) in self.names:
            return self.names[op, replica]
        return self.names[op, 0]

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
            controls.append(self.name_of(control, replica))
        if writes:
            controls.extend(self._earlier_reads(op, replica, frame))
        if replica and writes:
            controls.extend(self._own_reads(op, replica, frame))
        return list(dict.fromkeys(controls))

    def _earlier_reads(self, op: Op, replica: int, frame: tuple[str, ...]) -> list[str]:
        """The reads of a variable that the script made before a write of it, on a copy.

        TensorFlow leaves them unordered where the written value does not depend on them (the output of a last linear
        layer, a loss fetched beside the update); on one device they come first in practice, over several they need not.
        """
        holder = holder_of(self.ops, op.inputs[0]) if op.inputs else None
        if frame or holder is None:
            return []
        if self._readers is None:
            self._readers = self._find_readers()
        position = self._position[op.name]
        found = []
        for reader in self._readers.get(holder, ()):
            if self._position[reader] < position and not self.analysis.order.frame(reader):
                name = self.names.get((reader, replica))
                if name is not None:
                    found.append(name)
        return found

    def _find_readers(self) -> dict[str, list[str]]:
        """By variable: the ops that read its value, through identities too."""
        alias: dict[str, str] = {}
        readers: dict[str, list[str]] = {}
        for op in self.analysis.order.ops:
            self._position[op.name] = len(self._position)
            if op.type in HOLDERS:
                alias[op.output(0)] = op.name
                continue
            for tensor in op.inputs:
                holder = alias.get(tensor)
                if holder is None or writes_variable(op.type):
                    continue
                readers.setdefault(holder, []).append(op.name)
                if op.type in _ALIASES:
                    alias.update((t, holder) for t in op.outputs_named())
        return readers

    def _own_reads(self, op: Op, replica: int, frame: tuple[str, ...]) -> list[str]:
        """What a write on a copy must wait for there although the value it writes comes from home.

        On one device the write follows every op that led to its value, reads of the variable among them. Where the
        way leads over ops that run at home alone, the copy's own ops on it are waited for by control edges.
        """
        found: set[str] = set()
        for tensor in op.inputs:
            found |= self._frontier(split_tensor(tensor)[0])
        for control in op.controls:
            found |= self._frontier(control)
        return sorted(
            self.names[name, replica]
            for name in found
            if self.analysis.order.frame(name) == frame and (name, replica) in self.names
        )

    def _frontier(self, name: str) -> frozenset[str]:
        """Going back from an op over ops that run at home alone: the first ops that run on every copy."""
        if name in self._frontiers:
            return self._frontiers[name]
        stack = [name]
        while stack:
            top = stack[-1]
            op = self.ops.get(top)
            if op is None or self.residence.all(top) or top in self._frontiers:
                self._frontiers.setdefault(top, frozenset())
                stack.pop()
                continue
            before = [split_tensor(t)[0] for t in op.inputs if t not in self.feeds] + list(op.controls)
            missing = [
                n
                for n in before
                if n in self.ops and not self.residence.all(n) and n not in self._frontiers and n not in stack
            ]
            if missing:
                stack.extend(missing)
                continue
            union = {n for n in before if n in self.ops and self.residence.all(n)}
            for n in before:
                union |= self._frontiers.get(n, frozenset())
            self._frontiers[top] = frozenset(union)
            stack.pop()
        return self._frontiers[name]

    # -- values as wanted --------------------------------------------------------------------------------------

    def dtype(self, tensor: str) -> str:
        """Type of a tensor, without reference."""
        kind = self.feeds[tensor] if tensor in self.feeds else self.program.tensor(tensor)
        return kind.dtype.replace("_ref", "")

    def place(self, tensor: str, replica: int, at_home: bool = False) -> Place:
        """Where the bridge of a tensor goes."""
        op = split_tensor(tensor)[0]
        device = self.mesh.devices[0 if at_home else replica]
        frame = self.analysis.order.frame(op)
        producer = self.ops.get(op)
        if producer is not None and producer.type in EXITS:
            frame = frame[:-1]
        if not frame or tensor in self.feeds:
            return Place(op, replica, device)
        anchor = tensor
        if producer is not None and self.analysis.decisions[op].recipe.startswith("global_"):
            anchor = producer.inputs[0]  # worked out at home alone, if at all: hang on the piece it speaks of
        near = self._base(anchor, replica).rpartition(":")[0]
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
        return f"{self.prefix}replica_{replica}/{name}"

    def fact(self, tensor: str) -> Fact:
        """What is known of a tensor."""
        return self.analysis.facts[tensor]

    def get(self, tensor: str, want: Want, replica: int) -> str:
        """A node output holding a tensor as wanted on a copy; emits the bridge if there is none yet."""
        fact = self.fact(tensor)
        if want is None or want == fact.placement:
            return self._base(tensor, replica)
        key = (tensor, want, replica)
        if key not in self.bridged:
            self.bridged[key] = self._bridge(tensor, fact, want, replica)
        return self.bridged[key]

    def _base(self, tensor: str, replica: int) -> str:
        """A tensor as it is placed, on a copy."""
        op = split_tensor(tensor)[0]
        if op in self.lazy:
            self.lazy.pop(op)()
        if tensor in self.sources or tensor in self.analysis.recut:
            return self._source_piece(tensor, replica)
        if tensor in self.feeds:
            self.fed.setdefault(tensor, Feed(tensor, tensor, "whole"))
            return tensor
        if (tensor, replica) in self.tensors:
            return self.tensors[tensor, replica]
        if self.residence.all(op) or (tensor, 0) not in self.tensors:
            if op in self.ops and not self.residence.all(op):
                replica = 0
            producer = self.ops[op]
            return f"{self._reserve(producer, replica)}:{split_tensor(tensor)[1]}"
        return self.tensors[tensor, 0]

    def _whole_source(self, tensor: str) -> str:
        if tensor in self.feeds:
            self.fed.setdefault(tensor, Feed(tensor, tensor, "whole"))
            return tensor
        cut = self.fact(tensor).sharded
        if cut is not None and self._is_draw(tensor):
            pieces = [self._draw(tensor, r) for r in self.replicas]
            return self.builder.concat(self.home, pieces, cut.dim, self.dtype(tensor))
        return self.tensors[tensor, 0]

    def _source_piece(self, tensor: str, replica: int) -> str:
        fact = self.fact(tensor)
        cut = fact.sharded
        if cut is None:
            return self._whole_source(tensor)
        key = (tensor, cut, replica)
        if key in self.bridged:
            return self.bridged[key]
        dtype = self.dtype(tensor)
        if tensor in self.feeds:
            name = split_tensor(tensor)[0]
            attrs = {"dtype": type_attr(dtype), "shape": shape_attr(None)}
            place = Place(name, replica, self.mesh.devices[replica])
            hint = f"feed/{tensor.replace(':', '_')}"
            node = self.builder.node(place, "Placeholder", [], hint, attrs, key=("piece", tensor, cut.dim, replica))
            self.fed[node] = Feed(node, tensor, "piece", replica, cut.dim)
            self.bridged[key] = node
        elif self._is_draw(tensor):
            self.bridged[key] = self._draw(tensor, replica)
        else:
            place = Place(split_tensor(tensor)[0], replica, self.mesh.devices[0])
            self.bridged[key] = self.bridges.piece(place, self._whole_source(tensor), cut, fact.dims, dtype)
        return self.bridged[key]

    def _is_draw(self, tensor: str) -> bool:
        """Whether every copy draws a source tensor for itself."""
        return self.mesh.local and tensor in self.sources and tensor not in self.feeds

    def _is_drawn(self, batch: int) -> bool:
        return self._is_draw(self.analysis.batches[batch].sources[0])

    def _draw(self, tensor: str, replica: int) -> str:
        name, index = split_tensor(tensor)
        if name not in self.draws:
            self.draws[name] = draw(self, self.ops[name])
        return self.draws[name][replica][index]

    def _rows(self, batch: int, replica: int) -> str:
        """The int32 number of samples that a copy drew."""
        leader = self.analysis.batches[batch].sources[0]
        shape = self.builder.shape(self.home, self._draw(leader, replica), self.dtype(leader))
        return self.builder.element(self.home, shape, self.sources[leader].dim, "int32")

    def attributes(self, op: Op) -> dict[str, AttrValue]:
        """The attributes of an op."""
        node = node_def_pb2.NodeDef()
        node.ParseFromString(op.node)
        return {k: v for k, v in node.attr.items() if k not in _DROPPED}

    def _count(self, place: Place, batch: int) -> str:
        """The int32 number of samples of a batch whose size is open."""
        leader = self.analysis.batches[batch].sources[0]
        source = self.sources[leader]
        if leader in self.feeds:
            count = f"count:{leader}"
            if count not in self.fed:
                attrs = {"dtype": type_attr("int32"), "shape": shape_attr(())}
                key = ("count", leader, source.dim)
                node = self.builder.node(place, "Placeholder", [], f"feed/batch_{batch}", attrs, key=key)
                self.fed[count] = Feed(node, leader, "count", 0, source.dim)
            return self.fed[count].node
        shape = self.builder.shape(place, self._whole_source(leader), self.dtype(leader))
        return self.builder.element(place, shape, source.dim, "int32")

    def _bridge(self, tensor: str, fact: Fact, want: Want, replica: int) -> str:
        have, dtype = fact.placement, self.dtype(tensor)
        if isinstance(want, Local):
            return self._localized(tensor, fact, want, replica)
        if isinstance(want, Relaxed) and fact.value is not None:
            sizes = [-1 if i == want.dim or not isinstance(v, int) else v for i, v in enumerate(fact.value)]
            return self.builder.const(self.place(tensor, replica), sizes, dtype)
        if have == EACH and want == REPLICATED:
            op = self.ops[split_tensor(tensor)[0]]
            wants = [REPLICATED] * len(op.inputs)
            return f"{self.copy(op, 0, wants, '/whole')}:{split_tensor(tensor)[1]}"
        if want == REPLICATED:
            if tensor in self.sources or tensor in self.analysis.recut:
                return self._whole_source(tensor)
            if isinstance(have, Sharded):
                pieces = [self._base(tensor, r) for r in self.replicas]
                return self.bridges.gather(self.place(tensor, 0), pieces, have, fact.rank or 0, dtype)
            if have == PARTIAL:
                return self._sum(tensor, replica)
        if want == PARTIAL and have == REPLICATED:
            value = self._base(tensor, replica)
            if replica == 0 or fact.zero:
                return value
            return self.bridges.zeros_like(self.place(tensor, replica), value, dtype)
        if isinstance(want, Sharded):
            if have == REPLICATED:
                return self._sliced(tensor, self._base(tensor, replica), want, replica)
            return self._sliced(tensor, self.get(tensor, REPLICATED, replica), want, replica)
        raise VerifyError(f"no bridge from {have} to {want} for {tensor}")

    def _sliced(self, tensor: str, value: str, want: Sharded, replica: int) -> str:
        op = split_tensor(tensor)[0]
        at_home = not self.residence.all(op) and op in self.ops
        place = self.place(tensor, replica, at_home)
        return self.bridges.piece(place, value, want, self.fact(tensor).dims, self.dtype(tensor))

    def _sum(self, tensor: str, replica: int) -> str:
        """The sum over the copies: by all-reduce where every copy reads it, else added up at home."""
        if tensor in self.residence.collectives:
            key = (tensor, replica)
            if key not in self.reduced:
                label = tensor.replace(":", "_")
                for r in self.replicas:
                    self.reduced[tensor, r] = self.shadow.unique(f"{self.prefix}replica_{r}/all_reduce/{label}")
            return f"{self.reduced[key]}:0"
        home = (tensor, REPLICATED, 0)
        if replica and home in self.bridged:
            return self.bridged[home]
        values = [self._base(tensor, r) for r in self.replicas]
        place, dtype = self.place(tensor, 0), self.dtype(tensor)
        total = self.builder.add_n(place, values, dtype)
        if self.sizes.averages and dtype.startswith("float"):
            part = self.builder.const(place, 1.0 / len(values), dtype)
            total = self.builder.binary(place, "Mul", total, part, dtype)
        self.bridged[home] = total
        return total

    def _localized(self, tensor: str, fact: Fact, want: Local, replica: int) -> str:
        """A copy's own version of a vector of sizes; straight from its piece where the vector is a piece's shape."""
        name, index = split_tensor(tensor)
        op = self.ops.get(name)
        known = None if fact.value is None else list(fact.value)
        if op is not None and op.type in ("Shape", "ShapeN") and not want.fixed:
            source = self.fact(op.inputs[index])
            cut = source.sharded
            if (
                cut is not None
                and want.scaled == (cut.dim,)
                and self.analysis.batches.find(cut.batch) == self.analysis.batches.find(want.batch)
                and not self._static_local(want, known)
            ):
                return f"{self.copy(op, replica, [None] * len(op.inputs), '/local')}:{index}"
        length = len(known) if known is not None else fact.dims[0] if fact.dims else None
        if not isinstance(length, int):
            raise VerifyError(f"the length of the size vector {tensor} is not known")
        place = self.place(tensor, replica)
        return self.bridges.localize(place, self._base(tensor, replica), want, length, self.dtype(tensor), known)

    def _static_local(self, want: Local, known: list | None) -> bool:
        return (
            known is not None
            and self.sizes.number(want.batch, "count") is not None
            and all(isinstance(k, int) for k in known)
        )

    # -- collectives -------------------------------------------------------------------------------------------

    def _all_reduce(self, closure: list[str]) -> list[tuple[Reduced, ...]]:
        position = {op.name: i for i, op in enumerate(self.analysis.order.ops)}
        tensors = sorted({t for t, _ in self.reduced}, key=lambda t: position[split_tensor(t)[0]])
        if not tensors:
            return []
        found = []
        for tensor in tensors:
            dims = tuple(d for d in self.fact(tensor).dims or () if isinstance(d, int))
            found.append(Reduced(tensor, dims, self.dtype(tensor)))
        buckets = fuse(found, self.mesh.max_splits, self.mesh.worth)
        final = "Div" if self.sizes.averages else "Id"
        mesh = self.mesh
        group = Group(mesh.devices, mesh.hint, mesh.communicators, id(self.shadow), final, mesh.worth)
        reducer = AllReduce(self.builder, self.keys, group)
        closure.extend(reducer.emit(buckets, self._base, self.reduced))
        return buckets
