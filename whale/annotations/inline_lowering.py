"""Function ops as Switch, Merge and the ops of loop frames.

TensorFlow lowers these ops the same way when a session runs them; done before, one set of rules serves conditionals and
loops of both kinds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from tensorflow.core.framework import node_def_pb2, tensor_shape_pb2, types_pb2

from whale.annotations import inline_functions as functions
from whale.annotations.inline_attributes import (
    BOOL,
    INT32,
    flag,
    integer,
    of_bool,
    of_int,
    of_scalar,
    of_text,
    of_type,
    shapes,
)
from whale.annotations.inline_copy import BodyCopy, Caller, Replaced
from whale.annotations.inline_functions import Body, Library, Unsupported
from whale.annotations.inline_nodes import EVERYWHERE, Nodes, Region

ShapeProto = tensor_shape_pb2.TensorShapeProto

_SWITCHES = frozenset({"Switch", "RefSwitch"})


class Lowering:
    """Replaces function ops by nodes, functions inside of functions included."""

    def __init__(self, library: Library, nodes: Nodes, type_of_op: Callable[[str], str]) -> None:
        """``type_of_op``: the type of an op that the nodes do not hold."""
        self.nodes = nodes
        self.turns: dict[str, ShapeProto | None] = {}
        """By Merge at which a loop variable turns: its shape after an iteration, where the loop op tells."""
        self._library = library
        self._type_of_op = type_of_op
        self._under_way: list[str] = []

    def replace(self, caller: Caller) -> Replaced:
        """Makes the nodes that stand for a function op.

        Raises:
            Unsupported: it cannot be inlined; no node was made.
        """
        op_type = caller.proto.op
        bodies = self._bodies(caller.proto)
        self._under_way.extend(b.name for b in bodies)
        if op_type in functions.LOOPS:
            replaced = self._loop(caller, *bodies)
        elif op_type in functions.CONDITIONALS:
            replaced = self._branches(caller, bodies, ("then", "else"))
        elif op_type in functions.CASES and len(bodies) > 1:
            replaced = self._branches(caller, bodies, [f"branch_{k}" for k in range(len(bodies))])
        elif op_type in functions.CASES:
            replaced = self._call(dataclasses.replace(caller, inputs=caller.inputs[1:]), bodies[0])
        else:
            replaced = self._call(caller, bodies[0])
        del self._under_way[len(self._under_way) - len(bodies) :]
        return replaced

    def _bodies(self, proto: node_def_pb2.NodeDef) -> list[Body]:
        """The functions an op calls; for a conditional, the one for True first."""
        if flag(proto, "_XlaMustCompile"):
            raise Unsupported("it must be compiled by XLA")
        if proto.op in functions.LOOPS:
            names = [proto.attr["cond"].func.name, proto.attr["body"].func.name]
        elif proto.op in functions.CONDITIONALS:
            names = [proto.attr["then_branch"].func.name, proto.attr["else_branch"].func.name]
        elif proto.op in functions.CASES:
            names = [f.name for f in proto.attr["branches"].list.func]
        elif proto.op in functions.CALLS:
            names = [proto.attr["f"].func.name]
        else:
            names = [proto.op]
        for name in names:
            if name in self._under_way:
                raise Unsupported(f"function {name} calls itself")
        bodies = [self._library.body(name) for name in names]
        if proto.op in functions.LOOPS and not bodies[1].arguments:
            raise Unsupported("it is a loop without variables")
        return bodies

    def _nested(self, caller: Caller) -> Replaced | None:
        """A function op in a body; it stays a function op where it cannot be inlined."""
        try:
            return self.replace(caller)
        except Unsupported:
            return None

    # -- loops -------------------------------------------------------------------------------------------------

    def _loop(self, caller: Caller, condition: Body, body: Body) -> Replaced:
        nodes, name, device = self.nodes, caller.name, caller.device
        types = body.arguments
        # What the body returns as it came enters once for all iterations. One loop variable at least must turn.
        variant = [i for i in range(len(types)) if body.passed(i) != i] or [0]
        first = variant[0]

        values = self._entered(caller, types, variant)
        constant = frozenset(v for i, v in enumerate(values) if i not in variant)
        after = shapes(caller.proto, "output_shapes")
        back = {i: nodes.unique(f"{name}/NextIteration_{i}") for i in variant}
        for i in variant:
            attrs = {"T": of_type(types[i]), "N": of_int(2)}
            inputs = [values[i], f"{back[i]}:0"]
            merge = nodes.add("Merge", f"{name}/Merge_{i}", inputs, EVERYWHERE, device, attrs)
            values[i] = f"{merge}:0"
            self.turns[merge] = after[i] if i < len(after) else None

        inside = Region(values[first].rpartition(":")[0], constant)
        found, before = self._copy(condition, values, inside, f"{name}/cond/", caller)
        go_on = self._boolean(found[0], condition.types[0], f"{name}/ToBool", inside, device)
        decided = nodes.add("LoopCond", f"{name}/LoopCond", [go_on], inside, device, controls=before)
        exits = {}
        for i in variant:
            attrs = {"T": of_type(types[i])}
            switch = nodes.add("Switch", f"{name}/Switch_{i}", [values[i], f"{decided}:0"], inside, device, attrs)
            exits[i] = nodes.add("Exit", f"{name}/Exit_{i}", [f"{switch}:0"], EVERYWHERE, device, attrs)
            values[i] = f"{switch}:1"

        # A control edge from a Switch does not tell its outputs apart; one from this Identity does.
        pivot = self._identity(values[first], types[first], f"{name}/body_pivot", EVERYWHERE, device)
        inside = Region(pivot, constant)
        found, effects = self._copy(body, values, inside, f"{name}/body/", caller)
        gate = self._joined(effects, f"{name}/body_effects", inside, device)
        for i in variant:
            nodes.add_named("NextIteration", back[i], [found[i]], inside, device, {"T": of_type(types[i])}, gate)

        done = nodes.add("NoOp", f"{name}/done", [], EVERYWHERE, device, controls=list(exits.values()))
        outputs = []
        for i, value in enumerate(caller.inputs):
            if i in exits:
                outputs.append(f"{exits[i]}:0")
            elif types[i] == types_pb2.DT_RESOURCE or not (before or effects):
                outputs.append(value)
            else:
                # Who reads it after the loop may count on the loop's side effects.
                same = self._identity(value, types[i], f"{name}/Output_{i}", EVERYWHERE, device, [done])
                outputs.append(f"{same}:0")
        return Replaced(tuple(outputs), done)

    def _entered(self, caller: Caller, types: Sequence[int], variant: Sequence[int]) -> list[str]:
        """The loop variables inside of the loop's frame."""
        controls = self._joined(caller.controls, f"{caller.name}/begin", caller.region, caller.device)
        entered = []
        for i, value in enumerate(caller.inputs):
            attrs = {
                "T": of_type(types[i]),
                "frame_name": of_text(f"{caller.name}/frame"),
                "is_constant": of_bool(i not in variant),
                "parallel_iterations": of_int(integer(caller.proto, "parallel_iterations", 10)),
            }
            hint = f"{caller.name}/Enter_{i}"
            entered.append(self.nodes.add("Enter", hint, [value], caller.region, caller.device, attrs, controls) + ":0")
        return entered

    # -- branches ----------------------------------------------------------------------------------------------

    def _branches(self, caller: Caller, bodies: Sequence[Body], labels: Sequence[str]) -> Replaced:
        """Branches tried one after another: each takes what the Switch of its predicate lets through."""
        nodes, name, device, region = self.nodes, caller.name, caller.device, caller.region
        predicates = self._predicates(caller, len(bodies))
        token, rest = predicates[0], list(caller.inputs[1:])
        arms: list[Sequence[str]] = []
        finished: list[str] = []
        for k, (body, label) in enumerate(zip(bodies, labels)):
            chosen, mine = token, rest
            if k < len(predicates):
                kinds = [types_pb2.DT_BOOL, *body.arguments]
                switches = [
                    nodes.add(
                        "Switch", f"{name}/{label}_Switch_{i}", [v, predicates[k]], region, device, {"T": of_type(t)}
                    )
                    for i, (v, t) in enumerate(zip([token, *rest], kinds))
                ]
                chosen, *mine = [f"{s}:1" for s in switches]
                token, *rest = [f"{s}:0" for s in switches]
            pivot = self._identity(chosen, types_pb2.DT_BOOL, f"{name}/{label}_pivot", EVERYWHERE, device)
            inside = Region(pivot)
            found, effects = self._copy(body, mine, inside, f"{name}/{label}/", caller)
            gate = self._joined(effects, f"{name}/{label}_effects", inside, device)
            if gate:
                found = self._gated(found, body, f"{name}/{label}_Output", gate, device)
                pivot = self._identity(f"{pivot}:0", types_pb2.DT_BOOL, f"{name}/{label}_done", inside, device, gate)
            arms.append(found)
            finished.append(f"{pivot}:0")

        merges = []
        for hint, dtype, inputs in [
            (f"{name}/executed", types_pb2.DT_BOOL, finished),
            *((f"{name}/Merge_{i}", t, [arm[i] for arm in arms]) for i, t in enumerate(bodies[0].types)),
        ]:
            attrs = {"T": of_type(dtype), "N": of_int(len(bodies))}
            merges.append(nodes.add("Merge", hint, inputs, EVERYWHERE, device, attrs))
        done = nodes.add("NoOp", f"{name}/done", [], EVERYWHERE, device, controls=merges)
        return Replaced(tuple(f"{m}:0" for m in merges[1:]), done)

    def _predicates(self, caller: Caller, count: int) -> list[str]:
        """For each branch but the last: a boolean tensor, whether to take it if none before was taken."""
        nodes, name, device, region = self.nodes, caller.name, caller.device, caller.region
        is_case = caller.proto.op in functions.CASES
        selector = caller.inputs[0]
        dtype = types_pb2.DT_INT32 if is_case else caller.proto.attr["Tcond"].type
        if caller.controls:
            waits = self._identity(selector, dtype, f"{name}/selector", region, device, caller.controls)
            selector = f"{waits}:0"
        if not is_case:
            return [self._boolean(selector, dtype, f"{name}/ToBool", region, device)]
        predicates = []
        for k in range(count - 1):
            attrs = {"dtype": INT32, "value": of_scalar(k)}
            index = nodes.add("Const", f"{name}/branch_{k}_index", [], region, device, attrs)
            inputs = [selector, f"{index}:0"]
            equal = nodes.add("Equal", f"{name}/is_branch_{k}", inputs, region, device, {"T": INT32})
            predicates.append(f"{equal}:0")
        return predicates

    def _boolean(self, value: str, dtype: int, hint: str, region: Region, device: str) -> str:
        """A predicate of any type as a boolean tensor, by the rule of these ops."""
        if dtype == BOOL.type:
            return value
        return self.nodes.add("ToBool", hint, [value], region, device, {"T": of_type(dtype)}) + ":0"

    # -- calls -------------------------------------------------------------------------------------------------

    def _call(self, caller: Caller, body: Body) -> Replaced:
        name, device, region = caller.name, caller.device, caller.region
        before = list(caller.controls)
        if region.mixed and not before:
            # Between Switch and Enter ops of the script, only the call's inputs tell whether and how often it runs.
            before = self._after(caller.inputs, body.arguments, f"{name}/Input", region, device)
        inside = region
        if before:
            begin = self.nodes.add("NoOp", f"{name}/begin", [], region, device, controls=before)
            inside = Region(begin, region.constant.union(caller.inputs))
        found, effects = self._copy(body, caller.inputs, inside, f"{name}/", caller)
        gate = self._joined(effects, f"{name}/effects", inside, device)
        if gate:
            found = self._gated(found, body, f"{name}/Output", gate, device)
        ends = gate or self._after(found, body.types, f"{name}/End", inside, device)
        done = self.nodes.add("NoOp", f"{name}/done", [], inside, device, controls=[*gate, *ends])
        return Replaced(tuple(found), done)

    def _after(self, tensors: Sequence[str], types: Sequence[int], hint: str, region: Region, device: str) -> list[str]:
        """For each tensor an op that runs if and when the tensor is there."""
        ops = []
        for i, (tensor, dtype) in enumerate(zip(tensors, types)):
            producer = tensor.rpartition(":")[0]
            made = self.nodes.made.get(producer)
            op_type = made.op if made is not None else self._type_of_op(producer)
            # A Switch runs, whichever of its outputs is there.
            is_switch = op_type in _SWITCHES
            ops.append(self._identity(tensor, dtype, f"{hint}_{i}", region, device) if is_switch else producer)
        return ops

    # -- pieces ------------------------------------------------------------------------------------------------

    def _identity(
        self, value: str, dtype: int, hint: str, region: Region, device: str, controls: Sequence[str] = ()
    ) -> str:
        return self.nodes.add("Identity", hint, [value], region, device, {"T": of_type(dtype)}, controls)

    def _gated(self, values: Sequence[str], body: Body, hint: str, gate: Sequence[str], device: str) -> list[str]:
        """The results of a body, each after the body's side effects."""
        return [
            self._identity(value, dtype, f"{hint}_{i}", EVERYWHERE, device, gate) + ":0"
            for i, (value, dtype) in enumerate(zip(values, body.types))
        ]

    def _joined(self, controls: Sequence[str], hint: str, region: Region, device: str) -> list[str]:
        """At most one op that runs after several."""
        if len(controls) < 2:
            return list(controls)
        return [self.nodes.add("NoOp", hint, [], region, device, controls=controls)]

    def _copy(
        self, body: Body, arguments: Sequence[str], region: Region, prefix: str, caller: Caller
    ) -> tuple[list[str], list[str]]:
        """Copies a body into the graph; returns its results and the ops that its side effects end with."""
        copy = BodyCopy(self.nodes, body, arguments, region, prefix, caller.device, self._nested)
        results, end = copy.emit()
        effects = list(body.effects)
        if not flag(caller.proto, "_lower_using_switch_merge"):
            # Such an op runs its functions as graphs of their own, where every stateful node runs.
            effects.extend(body.stateful)
        return results, list(dict.fromkeys(end(n) for n in effects))
