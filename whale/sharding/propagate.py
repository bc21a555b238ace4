"""From where the sources are cut to where every tensor is.

One pass over the ops in data-flow order, repeated until nothing changes where there are loops or containers. When
rules find in a pass that two batches are one, the propagation starts again with one symbol for both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from whale.errors import VerifyError
from whale.ir import dims as D
from whale.ir.placement import EACH, PARTIAL, REPLICATED, Placement, Sharded
from whale.ir.program import Op, TensorType, split_tensor
from whale.sharding import parts, values
from whale.sharding.batches import Batches
from whale.sharding.call import Call
from whale.sharding.containers import Containers
from whale.sharding.facts import Decision, Decline, Fact
from whale.sharding.join import common_dims, join, spans
from whale.sharding.order import BACK_EDGES, ENTERS, EXITS, MERGES, Order
from whale.sharding.rules import RULES
from whale.sharding.rules.control import CONTAINERS, PASS_CONTAINERS
from whale.sharding.rules.sample_loops import decide as decide_in_sample_loop
from whale.sharding.rules.state import on_variable
from whale.sharding.sample_loops import SampleLoops

CARRIERS = BACK_EDGES | ENTERS
"""What stands between a loop's Merge and the values it carries."""

MOST_PASSES = 60
"""Passes over the ops after which a propagation is given up."""

PATIENCE = 4
"""How often what a loop carries may change before it is taken whole."""


@dataclasses.dataclass(frozen=True)
class Source:
    """A tensor where a batch enters."""

    tensor: str
    """The tensor: fed, or an output of an iterator, queue or the like."""
    dim: int
    """The dim that is cut."""
    static: int | None
    """Size of that dim in the script's shapes."""
    count: int | None
    """Size of that dim in the run at hand, where known before it."""
    held: bool = False
    """Whether the graph holds it: data in a constant or a variable. Other runs may show that it is no batch at all, so
    it is cut only where that puts most of the run's work on pieces."""


@dataclasses.dataclass(frozen=True)
class Analysis:
    """Where everything is, for one set of fetches, feeds and targets."""

    order: Order
    """The ops of the run."""
    facts: Mapping[str, Fact]
    """By tensor."""
    decisions: Mapping[str, Decision]
    """By op."""
    batches: Batches
    """The batches."""
    sources: tuple[Source, ...]
    """Where they enter."""
    containers: Containers
    """How the elements of TensorArrays, stacks and lists are placed."""
    recut: frozenset[str] = frozenset()
    """Results of ops that run whole, cut again afterwards."""
    own_frames: frozenset[str] = frozenset()
    """Loops over samples, which every copy goes through for its own: nothing may be exchanged in them."""
    drawn: frozenset[str] = frozenset()
    """Sources that every copy draws for itself."""

    def is_drawn(self, batch: int) -> bool:
        """Whether every copy draws its own samples of a batch. Other dims than the batch are then its own as well."""
        return self.batches[batch].sources[0] in self.drawn

    def fact(self, tensor: str) -> Fact:
        """What is known of a tensor."""
        return self.facts[tensor]


@dataclasses.dataclass(frozen=True)
class Request:
    """What to propagate over."""

    order: Order
    """The ops."""
    feeds: Mapping[str, TensorType]
    """Tensors whose value is given, with the shapes given."""
    whole_ops: Mapping[str, str] = dataclasses.field(default_factory=dict[str, str])
    """Ops that must run whole, with the reason."""
    sync: bool = True
    """Whether statistics over the batch are exact."""
    independent: bool = False
    """Whether each copy draws its own random numbers."""
    shares: tuple[int, ...] = ()
    """Relative batch share of each copy; empty where the copies are not known."""
    summed: frozenset[str] = frozenset()
    """Tensors that are read as sums wherever they are partial."""
    drawn: frozenset[str] = frozenset()
    """Sources that every copy draws for itself."""
    shapes: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict[str, tuple[int, ...]])
    """Shapes of the values fed in the run at hand."""
    filled: bool = False
    """Whether a run is not cut whose fed batches have fewer samples than there are copies."""
    sure: bool = True
    """Whether all shapes that the graph states are true. In a branch that is not taken of a v2 conditional's gradient
    they are those of the other branch."""


def propagate(request: Request, sources: tuple[Source, ...]) -> Analysis:
    """Places every tensor, given where the sources are cut."""
    known = {f"{tensor}[{i}]": size for tensor, shape in request.shapes.items() for i, size in enumerate(shape)}
    batches = Batches(request.shares, known)
    batches.sure = request.sure
    batches.never_short = request.filled and len(set(request.shares)) == 1
    numbers = {s.tensor: batches.add(s.tensor, s.static, s.count) for s in sources}
    loops = SampleLoops(request.order)
    while True:
        batches.stale = loops.changed = False
        batches.clash = None
        run = _Run(request, {s.tensor: s for s in sources}, numbers, batches, loops)
        run.fixed_point()
        if batches.stale or loops.changed:
            continue
        return Analysis(
            request.order,
            run.facts,
            run.decisions,
            batches,
            sources,
            run.containers,
            frozenset(run.recut),
            loops.frames,
            request.drawn,
        )


class _Run:
    """One propagation with a given set of batches."""

    def __init__(
        self,
        request: Request,
        sources: Mapping[str, Source],
        numbers: Mapping[str, int],
        batches: Batches,
        loops: SampleLoops,
    ) -> None:
        self.loops = loops
        self.request = request
        self.sources = sources
        self.numbers = numbers
        self.batches = batches
        self.containers = Containers()
        self.facts: dict[str, Fact] = {}
        self.decisions: dict[str, Decision] = {}
        self.recut: set[str] = set()
        self.summed: set[str] = set()
        """Partial tensors that some op reads as a sum: every op reads that one sum."""
        self._seen: dict[str, tuple[Fact | None, ...]] = {}
        self._changes: dict[str, int] = {}
        self._loops: dict[str, Placement] = {}
        self._by_name = {op.name: op for op in request.order.ops}
        for tensor, kind in request.feeds.items():
            self.facts[tensor] = self._given(tensor, kind)

    def _given(self, tensor: str, kind: TensorType) -> Fact:
        """The fact of a source or fed tensor.

        An open size that is one in this run is taken to be one, which is broadcast: the analysis is then one for runs
        where it is.
        """
        placement: Placement = REPLICATED
        source = self.sources.get(tensor)
        if source is not None:
            placement = Sharded(source.dim, self.batches.find(self.numbers[tensor]))
        if kind.shape is None:
            return Fact(placement, None)
        dims: list[D.Dim] = []
        for i, size in enumerate(kind.shape):
            if isinstance(placement, Sharded) and i == placement.dim and size is None:
                dims.append(self.batches.size(placement.batch))
            else:
                name = f"{tensor}[{i}]"
                single = self.batches.known.get(name) == 1
                dims.append(size if size is not None else 1 if single else self.batches.open(name))
        return Fact(placement, tuple(dims))

    def fixed_point(self) -> None:
        """Passes over the ops until nothing changes."""
        again, passes = bool(self.request.order.frames), 0
        while True:
            self.containers.changed = False
            changed, summed = False, len(self.summed)
            for op in self.request.order.ops:
                changed |= self._visit(op)
                if self.loops.changed:
                    return
            passes += 1
            if passes > MOST_PASSES:
                raise VerifyError(f"the placement of what loops carry does not settle in {MOST_PASSES} passes")
            settled = not (changed and again) and not self.containers.changed and summed == len(self.summed)
            if self.batches.stale or settled:
                return

    def _visit(self, op: Op) -> bool:
        ins = tuple(self._read(t) for t in op.inputs)
        container = op.type in CONTAINERS or any(f is not None and f.origin is not None for f in ins)
        loop = op.type in MERGES or op.type in CARRIERS
        if not container and not loop and self._seen.get(op.name, ()) == ins and op.name in self.decisions:
            return False
        self._seen[op.name] = ins
        decision = self._over_samples(op, ins)
        if decision is None:
            decision = self._merge(op, ins) if op.type in MERGES else self._decide(op, ins)
        decision = self._with_sums(op, decision)
        if self.decisions.get(op.name) == decision:
            return False
        self.decisions[op.name] = decision
        for i, fact in enumerate(decision.outputs):
            tensor = op.output(i)
            if tensor in self.request.feeds:
                continue
            if tensor in self.sources:
                fact = self._given(tensor, op.outputs[i])
            elif decision.declined and not self.request.order.frame(op.name):
                fact = self._recut(tensor, fact)
            self.facts[tensor] = fact
        return True

    def _read(self, tensor: str) -> Fact | None:
        """What an op that reads a tensor finds."""
        fact = self.facts.get(tensor)
        return dataclasses.replace(fact, placement=REPLICATED) if fact is not None and self._is_summed(tensor) else fact

    def _is_summed(self, tensor: str) -> bool:
        """Whether a tensor is partial and read as a sum by all."""
        fact = self.facts.get(tensor)
        partial = fact is not None and fact.placement == PARTIAL and not fact.zero
        return partial and (tensor in self.summed or tensor in self.request.summed)

    def _with_sums(self, op: Op, decision: Decision) -> Decision:
        """A decision whose op reads sums where there are sums; notes those that it needs itself.

        A gradient read by a norm and, clipped, by its update would else be summed twice.
        """
        wants = list(decision.wants)
        for index, tensor in enumerate(op.inputs):
            if self._is_summed(tensor):
                wants[index] = REPLICATED if wants[index] is None else wants[index]
            elif wants[index] not in (None, PARTIAL) and self._sum_is_sent(tensor):
                self.summed.add(tensor)
        return decision if wants == list(decision.wants) else dataclasses.replace(decision, wants=tuple(wants))

    def _sum_is_sent(self, tensor: str) -> bool:
        """Whether a tensor is partial and of more than one element, outside loops: its sum is work to bring about."""
        fact = self.facts.get(tensor)  # None on a loop's way back, in the first pass
        name = split_tensor(tensor)[0]
        leaves = name in self._by_name and self._by_name[name].type in EXITS
        inside = len(self.request.order.frame(name)) > leaves
        if fact is None or fact.placement != PARTIAL or fact.zero or inside:
            return False
        return fact.dims is not None and any(size != 1 for size in fact.dims)

    def _recut(self, tensor: str, fact: Fact) -> Fact:
        """The result of an op that ran whole, cut again where one of its dims is a batch."""
        self.recut.discard(tensor)
        if fact.placement != REPLICATED or fact.dims is None or fact.value is not None:
            return fact
        for batch in self.batches.roots():
            size = self.batches.size(batch)
            if isinstance(size, D.Poly) and size in fact.dims:
                self.recut.add(tensor)
                return dataclasses.replace(fact, placement=Sharded(fact.dims.index(size), batch))
        return fact

    def _over_samples(self, op: Op, ins: tuple[Fact | None, ...]) -> Decision | None:
        """How an op runs that has to do with a loop over samples, if it is gone through in pieces."""
        if not self.request.order.frames or op.name in self.request.whole_ops:
            return None
        known = tuple(f if f is not None else Fact() for f in ins)
        call = self._call(op, known)
        return decide_in_sample_loop(call, self.loops, RULES.get(op.type))

    def _decide(self, op: Op, ins: tuple[Fact | None, ...]) -> Decision:
        known = tuple(f if f is not None else Fact() for f in ins)
        call = self._call(op, known)
        cut = any(f.placement != REPLICATED for f in known)
        reason = self.request.whole_ops.get(op.name, "")
        if reason:
            return call.whole(reason if cut else "")
        decision = self._apply(call)
        if op.type in CARRIERS and op.name in self._loops:
            # The bridge to what the loop carries stands before it enters or goes round: nothing may stand between.
            carried = self._loops[op.name]
            out = dataclasses.replace(decision.outputs[0], placement=carried)
            want = None if known[0].placement == carried else carried
            return dataclasses.replace(decision, wants=(want,), outputs=(out,))
        return decision

    def _call(self, op: Op, ins: tuple[Fact, ...]) -> Call:
        request = self.request
        return Call(op, ins, self.batches, self.containers, request.independent, request.sync, request.drawn)

    def _apply(self, call: Call) -> Decision:
        rule = RULES.get(call.op.type)
        cut = any(f.placement in (PARTIAL, EACH) or f.sharded for f in call.ins)
        if rule is None:
            sharded = any(f.sharded or f.placement == EACH for f in call.ins)
            expected = not sharded or on_variable(call.op.type) or not call.op.outputs or call.op.stateful
            decision = call.whole("" if expected else f"{call.op.type} has no sharding rule")
        else:
            try:
                decision = rule(call)
            except Decline as why:
                decision = call.whole(str(why) if cut else "")
                rule = None
        if rule is None or call.op.type not in PASS_CONTAINERS:
            self._force_containers(call)
        return self._with_value(call, self._feasible(call, decision))

    def _force_containers(self, call: Call) -> None:
        """Makes the elements whole that an op reads or writes without knowing how they are cut."""
        for tensor, fact in zip(call.op.inputs, call.ins):
            if fact.origin is not None and not self._is_flow(tensor):
                call.containers.force(fact.origin)

    def _is_flow(self, tensor: str) -> bool:
        """Whether a tensor is the flow of a TensorArray: a number that orders its writes and holds no element."""
        name, index = split_tensor(tensor)
        producer = self._by_name.get(name)
        return producer is not None and producer.outputs[index].dtype not in ("variant", "resource")

    def _feasible(self, call: Call, decision: Decision) -> Decision:
        """The decision, or the op whole where a piece is wanted of a tensor whose rank is not known.

        Rows of such a tensor can be had, pieces on other dims cannot.
        """
        for index, (want, fact) in enumerate(zip(decision.wants, call.ins)):
            rows = isinstance(want, Sharded) and want.dim == 0 and want.plain
            if isinstance(want, Sharded) and not rows and want != fact.placement and fact.dims is None:
                self._force_containers(call)
                return call.whole(f"the rank of input {index} is unknown")
        return decision

    def _with_value(self, call: Call, decision: Decision) -> Decision:
        if not decision.outputs or decision.outputs[0].value is not None:
            return decision
        first = decision.outputs[0]
        if first.placement != REPLICATED:
            return decision
        value, part = values.evaluate(call.op, call.ins), None
        if value is None:
            value, part = parts.evaluate(call.op, call.ins)
        if value is None and part is None:
            return decision
        known = dataclasses.replace(first, value=value, part=part)
        return dataclasses.replace(decision, outputs=(known, *decision.outputs[1:]))

    def _merge(self, op: Op, ins: tuple[Fact | None, ...]) -> Decision:
        """Merge: the join of what is known of its inputs; taken whole when a loop does not settle."""
        arriving = [self._carried_back(t, f) for t, f in zip(op.inputs, ins)]
        known = [f for f in arriving if f is not None]
        carried = any(self._is_carrier(t) for t in op.inputs)
        placement, zero = known[0].placement, known[0].zero
        for fact in known[1:]:
            placement = self._join(placement, fact, zero, carried)
            zero = zero and fact.zero
        unequal = isinstance(placement, Sharded) and not all(
            f.sharded or spans(self.batches, f, placement, carried) for f in known
        )
        placement = REPLICATED if unequal else placement
        before = self.decisions.get(op.name)
        if before is not None and before.outputs[0].placement != placement:
            self._changes[op.name] = self._changes.get(op.name, 0) + 1
        if self._changes.get(op.name, 0) > PATIENCE:
            placement = REPLICATED
        dims = known[0].dims
        if any(f.dims != dims for f in known):
            dims = Call(op, (), self.batches).fact(placement, common_dims([f.dims for f in known], op.name)).dims
        for tensor in op.inputs:
            self._loops[split_tensor(tensor)[0]] = placement
        origin = self.containers.tie(*(f.origin for f in known))
        out = Fact(placement, dims, zero=zero, origin=origin)
        index = Fact(REPLICATED, ())
        wants = tuple(None if f is not None and f.placement == placement else placement for f in ins)
        conflict = placement == REPLICATED and any(f.placement != REPLICATED for f in known)
        reason = "its inputs arrive cut in different ways" if conflict else ""
        if unequal:
            reason = "its inputs are not known to have equal numbers of samples"
        return Decision(wants, (out, index), declined=reason)

    def _carried_back(self, tensor: str, fact: Fact | None) -> Fact | None:
        """What comes to a loop's Merge: what the Enter or NextIteration reads, before it is made to fit."""
        if fact is None or not self._is_carrier(tensor):
            return fact
        return self.facts.get(self._by_name[split_tensor(tensor)[0]].inputs[0], fact)

    def _is_carrier(self, tensor: str) -> bool:
        """Whether a tensor comes to a Merge round a loop or into one."""
        producer = self._by_name.get(split_tensor(tensor)[0])
        return producer is not None and producer.type in CARRIERS

    def _join(self, placement: Placement, fact: Fact, zero: bool, carried: bool) -> Placement:
        a, b = placement, fact.placement
        if (
            isinstance(a, Sharded)
            and isinstance(b, Sharded)
            and a.batch != b.batch
            and dataclasses.replace(a, batch=b.batch) == b
        ):
            # What a loop carries keeps its size from one iteration to the next.
            (self.batches.meet if carried else self.batches.same)(a.batch, b.batch)
        return join(a, b, zero, fact.zero)
