"""Function ops as Switch, Merge and the ops of loop frames.

TensorFlow lowers these ops the same way when a session runs them; done before, one set of rules serves conditionals and
loops of both kinds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from tensorflow.core.framework import node_def_pb2, types_pb2

from whale.annotations.inline_attributes import boolean, number, scalar, text, type_of
from whale.annotations.inline_functions import Body, Library, Unsupported, Value
from whale.annotations.inline_nodes import Nodes, Region

LOOPS = frozenset({"While", "StatelessWhile"})
CONDITIONALS = frozenset({"If", "StatelessIf"})
CASES = frozenset({"Case", "StatelessCase"})
CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})

_SWITCHES = frozenset({"Switch", "RefSwitch"})


@dataclasses.dataclass(frozen=True)
class Caller:
    """A function op to be replaced, with its inputs as they are named in the graph."""

    proto: node_def_pb2.NodeDef
    """Its NodeDef, for the attributes."""
    name: str
    """Name in the graph; new nodes are named under it."""
    inputs: tuple[str, ...]
    """Data inputs."""
    controls: tuple[str, ...]
    """Ops that run before."""
    device: str
    """Device of the nodes that have none of their own."""
    region: Region
    """What its nodes hang on."""


@dataclasses.dataclass(frozen=True)
class Replaced:
    """What stands for a function op."""

    outputs: tuple[str, ...]
    """The tensors that carry its outputs."""
    done: str
    """An op that runs after everything the function op would have done."""


class Lowering:
    """Replaces function ops by nodes, functions inside of functions included."""

    def __init__(self, library: Library, nodes: Nodes, type_in_graph: Callable[[str], str | None]) -> None:
        """``type_in_graph``: the op type of an op made earlier, or None."""
        self.library = library
        self.nodes = nodes
        self.back_edges: dict[str, tuple[Caller, int]] = {}
        """By NextIteration: the loop it belongs to and the loop variable."""
        self._type_in_graph = type_in_graph
        self._chain: list[str] = []

    def replace(self, caller: Caller) -> Replaced:
        """Makes the nodes that stand for a function op.

        Raises:
            Unsupported: it cannot be inlined; no node was made.
        """
        bodies = self._bodies(caller.proto)
        self._chain.extend(b.name for b in bodies)
        try:
            if caller.proto.op in LOOPS:
                return self._loop(caller, *bodies)
            if caller.proto.op in CONDITIONALS:
                return self._branches(caller, bodies)
            if caller.proto.op in CASES:
                if len(bodies) > 1:
                    return self._branches(caller, bodies)
                return self._call(dataclasses.replace(caller, inputs=caller.inputs[1:]), bodies[0])
            return self._call(caller, bodies[0])
        finally:
            del self._chain[len(self._chain) - len(bodies) :]

    def _bodies(self, proto: node_def_pb2.NodeDef) -> list[Body]:
        """The functions an op calls; for a conditional, the one for True first."""
        if "_XlaMustCompile" in proto.attr and proto.attr["_XlaMustCompile"].b:
            raise Unsupported("it must be compiled by XLA")
        if proto.op in LOOPS:
            names = [proto.attr["cond"].func.name, proto.attr["body"].func.name]
        elif proto.op in CONDITIONALS:
            names = [proto.attr["then_branch"].func.name, proto.attr["else_branch"].func.name]
        elif proto.op in CASES:
            names = [f.name for f in proto.attr["branches"].list.func]
        elif proto.op in CALLS:
            names = [proto.attr["f"].func.name]
        elif proto.op in self.library:
            names = [proto.op]
        else:
            raise Unsupported(f"{proto.op} has no lowering")
        for name in names:
            if name in self._chain:
                raise Unsupported(f"function {name} calls itself")
        return [self.library.body(name) for name in names]

    # -- loops -------------------------------------------------------------------------------------------------

    def _loop(self, caller: Caller, condition: Body, body: Body) -> Replaced:
        nodes, name, device = self.nodes, caller.name, caller.device
        types = body.arguments
        variant = [i for i in range(len(types)) if body.passed(i) != i] or [0]
        first = variant[0]
        controls = self._joined(caller, "begin", caller.controls, caller.region)
        parallel = caller.proto.attr["parallel_iterations"].i or 10

        values: list[str] = []
        for i, value in enumerate(caller.inputs):
            attrs = {
                "T": type_of(types[i]),
                "frame_name": text(f"{name}/frame"),
                "is_constant": boolean(i not in variant),
                "parallel_iterations": number(parallel),
            }
            values.append(f"{nodes.add('Enter', f'{name}/Enter_{i}', [value], caller.region, device, attrs, controls)}:0")
        constant = frozenset(v for i, v in enumerate(values) if i not in variant)

        back = {i: nodes.unique(f"{name}/NextIteration_{i}") for i in variant}
        merges = {}
        for i in variant:
            attrs = {"T": type_of(types[i]), "N": number(2)}
            merges[i] = nodes.add("Merge", f"{name}/Merge_{i}", [values[i], f"{back[i]}:0"], Region(), device, attrs)
            values[i] = f"{merges[i]}:0"
            self.back_edges[back[i]] = (caller, i)
        inside = Region(merges[first], constant)
        found, effects = self._instantiate(condition, values, inside, f"{name}/cond/", caller)
        go_on = self._boolean(caller, found[0], condition.types[0], f"{name}/ToBool", inside)
        decided = nodes.add("LoopCond", f"{name}/LoopCond", [go_on], inside, device, controls=effects)

        exits = {}
        for i in variant:
            attrs = {"T": type_of(types[i])}
            switch = nodes.add("Switch", f"{name}/Switch_{i}", [values[i], f"{decided}:0"], inside, device, attrs)
            exits[i] = nodes.add("Exit", f"{name}/Exit_{i}", [f"{switch}:0"], Region(), device, attrs)
            values[i] = f"{switch}:1"
        # A control edge from a Switch does not tell its outputs apart; one from this Identity does.
        attrs = {"T": type_of(types[first])}
        pivot = nodes.add("Identity", f"{name}/body_pivot", [values[first]], Region(), device, attrs)
        inside = Region(pivot, constant)
        found, effects = self._instantiate(body, values, inside, f"{name}/body/", caller)
        gate = self._joined(caller, "body_effects", effects, inside)
        for i in variant:
            proto = node_def_pb2.NodeDef(op="NextIteration")
            proto.attr["T"].CopyFrom(type_of(types[i]))
            nodes.adopt(proto, back[i], [found[i]], gate, inside, device, "")

        done = nodes.add("NoOp", f"{name}/done", [], Region(), device, controls=list(exits.values()))
        outputs = []
        for i, value in enumerate(caller.inputs):
            if i in exits:
                outputs.append(f"{exits[i]}:0")
            elif types[i] == types_pb2.DT_RESOURCE:
                outputs.append(value)
            else:
                # Whoever reads the value after the loop may count on the loop's side effects.
                attrs = {"T": type_of(types[i])}
                same = nodes.add("Identity", f"{name}/Output_{i}", [value], Region(), device, attrs, [done])
                outputs.append(f"{same}:0")
        return Replaced(tuple(outputs), done)

    # -- branches ----------------------------------------------------------------------------------------------

    def _branches(self, caller: Caller, bodies: Sequence[Body]) -> Replaced:
        """Branches tried one after another: each takes what the Switch of its predicate lets through."""
        nodes, name, device, region = self.nodes, caller.name, caller.device, caller.region
        predicates = self._predicates(caller, len(bodies))
        bool_type = {"T": type_of(types_pb2.DT_BOOL)}
        token, rest = predicates[0], list(caller.inputs[1:])
        arms: list[Sequence[str]] = []
        finished: list[str] = []
        for k, body in enumerate(bodies):
            label = ("then", "else")[k] if caller.proto.op in CONDITIONALS else f"branch_{k}"
            mine = rest
            chosen = token
            if k < len(predicates):
                switch = nodes.add(
                    "Switch", f"{name}/{label}_or_not", [token, predicates[k]], region, device, bool_type
                )
                chosen, token = f"{switch}:1", f"{switch}:0"
                mine = []
                for i, value in enumerate(rest):
                    attrs = {"T": type_of(body.arguments[i])}
                    hint = f"{name}/{label}_Switch_{i}"
                    switch = nodes.add("Switch", hint, [value, predicates[k]], region, device, attrs)
                    mine.append(f"{switch}:1")
                    rest[i] = f"{switch}:0"
                rest = list(rest)
            pivot = nodes.add("Identity", f"{name}/{label}_pivot", [chosen], Region(), device, bool_type)
            inside = Region(pivot)
            found, effects = self._instantiate(body, mine, inside, f"{name}/{label}/", caller)
            gate = self._joined(caller, f"{label}_effects", effects, inside)
            if gate:
                found = self._gated(caller, found, body, gate, f"{name}/{label}_Output")
                pivot = nodes.add(
                    "Identity", f"{name}/{label}_done", [f"{pivot}:0"], inside, device, bool_type, gate
                )
            arms.append(found)
            finished.append(f"{pivot}:0")

        outputs = []
        for i, dtype in enumerate(bodies[0].types):
            attrs = {"T": type_of(dtype), "N": number(len(bodies))}
            merge = nodes.add("Merge", f"{name}/Merge_{i}", [arm[i] for arm in arms], Region(), device, attrs)
            outputs.append(f"{merge}:0")
        attrs = {**bool_type, "N": number(len(bodies))}
        executed = nodes.add("Merge", f"{name}/executed", finished, Region(), device, attrs)
        controls = [executed, *(o.rpartition(":")[0] for o in outputs)]
        return Replaced(tuple(outputs), nodes.add("NoOp", f"{name}/done", [], Region(), device, controls=controls))

    def _predicates(self, caller: Caller, count: int) -> list[str]:
        """For each branch but the last: a boolean tensor, whether to take it if none before was taken."""
        nodes, name, device, region = self.nodes, caller.name, caller.device, caller.region
        selector = caller.inputs[0]
        is_case = caller.proto.op in CASES
        dtype = types_pb2.DT_INT32 if is_case else caller.proto.attr["Tcond"].type
        if caller.controls:
            attrs = {"T": type_of(dtype)}
            waits = nodes.add("Identity", f"{name}/selector", [selector], region, device, attrs, caller.controls)
            selector = f"{waits}:0"
        if not is_case:
            return [self._boolean(caller, selector, dtype, f"{name}/ToBool", region)]
        predicates = []
        for k in range(count - 1):
            attrs = {"dtype": type_of(dtype), "value": scalar(k)}
            label = nodes.add("Const", f"{name}/branch_{k}_index", [], region, device, attrs)
            attrs = {"T": type_of(dtype)}
            equal = nodes.add("Equal", f"{name}/is_branch_{k}", [selector, f"{label}:0"], region, device, attrs)
            predicates.append(f"{equal}:0")
        return predicates

    def _boolean(self, caller: Caller, value: str, dtype: int, hint: str, region: Region) -> str:
        if dtype == types_pb2.DT_BOOL:
            return value
        attrs = {"T": type_of(dtype)}
        return f"{self.nodes.add('ToBool', hint, [value], region, caller.device, attrs)}:0"

    # -- calls -------------------------------------------------------------------------------------------------

    def _call(self, caller: Caller, body: Body) -> Replaced:
        nodes, name, device, region = self.nodes, caller.name, caller.device, caller.region
        controls = list(caller.controls)
        if region.mixed and not controls:
            # Inside the script's own Switch and Enter ops, only the call's inputs tell whether and how often it runs.
            controls = [self._after(caller, value, f"{name}/Input_{i}") for i, value in enumerate(caller.inputs)]
        inside = region
        if controls:
            begin = nodes.add("NoOp", f"{name}/begin", [], region, device, controls=controls)
            inside = Region(begin, region.constant.union(caller.inputs))
        found, effects = self._instantiate(body, caller.inputs, inside, f"{name}/", caller)
        gate = self._joined(caller, "effects", effects, inside)
        if gate:
            found = self._gated(caller, found, body, gate, f"{name}/Output")
        ends = [self._after(caller, value, f"{name}/End_{i}") for i, value in enumerate(found)]
        done = nodes.add("NoOp", f"{name}/done", [], inside, device, controls=[*gate, *ends])
        return Replaced(tuple(found), done)

    def _after(self, caller: Caller, tensor: str, hint: str) -> str:
        """An op that runs if and when a tensor is there; a Switch runs for the other side too."""
        producer = tensor.rpartition(":")[0]
        made = self.nodes.made.get(producer)
        op_type = made.op if made is not None else self._type_in_graph(producer)
        if op_type is not None and op_type not in _SWITCHES:
            return producer
        return self._identity_n(caller, tensor, hint)

    def _identity_n(self, caller: Caller, tensor: str, hint: str) -> str:
        raise Unsupported("")

    # -- bodies ------------------------------------------------------------------------------------------------

    def _gated(self, caller: Caller, values: Sequence[str], body: Body, gate: Sequence[str], hint: str) -> list[str]:
        """The results of a body, each after the body's side effects."""
        gated = []
        for i, value in enumerate(values):
            attrs = {"T": type_of(body.types[i])}
            name = self.nodes.add("Identity", f"{hint}_{i}", [value], Region(), caller.device, attrs, gate)
            gated.append(f"{name}:0")
        return gated

    def _joined(self, caller: Caller, label: str, controls: Sequence[str], region: Region) -> list[str]:
        """At most one op that runs after several."""
        if len(controls) < 2:
            return list(controls)
        return [self.nodes.add("NoOp", f"{caller.name}/{label}", [], region, caller.device, controls=controls)]

    def _instantiate(
        self, body: Body, arguments: Sequence[str], region: Region, prefix: str, caller: Caller
    ) -> tuple[list[str], list[str]]:
        """Copies a body into the graph; returns its results and the ops that its side effects end with."""
        copy = _Copy(self, body, arguments, region, prefix, caller)
        for name in body.nodes:
            copy.emit(name)
        effects = list(body.effects)
        if not caller.proto.attr["_lower_using_switch_merge"].b:
            effects.extend(body.stateful)
        return [copy.value(v) for v in body.results], list(dict.fromkeys(copy.end(n) for n in effects))


class _Copy:
    """One copy of a body."""

    def __init__(
        self, lowering: Lowering, body: Body, arguments: Sequence[str], region: Region, prefix: str, caller: Caller
    ) -> None:
        self.lowering = lowering
        self.body = body
        self.arguments = arguments
        self.region = dataclasses.replace(region, mixed=True) if body.mixed else region
        self.prefix = prefix
        self.device = caller.device
        self.names = {name: lowering.nodes.unique(prefix + name) for name in body.nodes}
        self.replaced: dict[str, Replaced | None] = {}
