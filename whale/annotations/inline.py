"""Functional control flow as ops of the graph: While, If, Case and function calls are replaced by what they run.

``docs/design/control-flow.md`` shows what each becomes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.core.framework import node_def_pb2

from whale import _tf
from whale.annotations.capture import attribute, constant
from whale.annotations.inline_copy import Caller, Replaced
from whale.annotations.inline_functions import Library, Unsupported
from whale.annotations.inline_lowering import Lowering
from whale.annotations.inline_nodes import Nodes, Region
from whale.annotations.inline_types import infer
from whale.ir.program import Op, Program, TensorType, Variable, split_tensor

_SCRIPTS_OWN = frozenset({"Switch", "RefSwitch", "Enter", "RefEnter"})


@dataclasses.dataclass(frozen=True)
class Inlined:
    """A program without some of its function ops."""

    program: Program
    """Its new ops stand where the function op stood. An op of the old program is the same object in the new one unless
    it named a replaced op. One that read a replaced op, or waited for it, has another ``node`` under the same name."""
    tensors: Mapping[str, str]
    """By output of a replaced op (``cond:0``): the tensor that carries it now."""
    ops: Mapping[str, str]
    """By replaced op: an op that runs after everything the replaced one would have done; for targets."""
    declined: Mapping[str, str]
    """By function op that stays: why it cannot be inlined."""


def functions_of(program: Program) -> Library:
    """The functions of a program."""
    library = Library(program.library)
    return library


def function_ops(functions: Library, ops: Iterable[Op]) -> tuple[str, ...]:
    """Those of a program's ops that run some of its functions and may be inlined."""
    return tuple(op.name for op in ops if functions.calls(op.type))


def inline(program: Program, op_names: Iterable[str]) -> Inlined:
    """Replaces function ops, and those nested in them, by ops that do the same.

    New ops are named under ``<op>/``. They do not exist in the user's graph: each carries a whole NodeDef to make it
    from. An op that cannot be inlined stays. An op with a fed output should stay too: leave it out of ``op_names``.
    """
    wanted = set(op_names)
    return _Inlining(program).run(wanted) if wanted else Inlined(program, {}, {}, {})


class _Inlining:
    """The state of one call of ``inline``."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.library = Library(program.library)
        self.tensors: dict[str, str] = {}
        self.ops: dict[str, str] = {}
        self.declined: dict[str, str] = {}
        self.known: dict[str, Op] = dict(program.ops)
        """The program's ops and the new ones."""
        self._values: dict[bytes, np.ndarray | None] = {}
        self.mixed = any(op.type in _SCRIPTS_OWN for op in program.ops.values())

    def run(self, wanted: set[str]) -> Inlined:
        """Replaces the ops in graph order, then points their readers at what carries their outputs."""
        made = {name: self._replace(op) for name, op in self.program.ops.items() if name in wanted}
        ops: dict[str, Op] = {}
        for name, op in self.program.ops.items():
            for new in (op,) if name not in self.ops else made[name]:
                ops[new.name] = self._redirected(new)
        variables = {name: self._variable(v) for name, v in self.program.variables.items()}
        program = dataclasses.replace(self.program, ops=ops, variables=variables)
        tensors = {tensor: self._carrier(tensor) for tensor in self.tensors}
        return Inlined(program, tensors, self.ops, self.declined)

    def _replace(self, op: Op) -> tuple[Op, ...]:
        """The ops that stand for a function op; none where it stays."""
        proto = node_def_pb2.NodeDef()
        proto.ParseFromString(op.node)
        inputs = tuple(self._carrier(t) for t in op.inputs)
        controls = tuple(self.ops.get(c, c) for c in op.controls)
        nodes = Nodes(self.known)
        lowering = Lowering(self.library, nodes, lambda name: self.known[name].type)
        try:
            if not self.library.calls(op.type):
                raise Unsupported(f"{op.type} runs no function")
            replaced = lowering.replace(Caller(proto, op.name, inputs, controls, op.device, Region(mixed=self.mixed)))
            library = self.program.library if nodes.functional else b""
            types = infer(nodes.made, lowering.turns, self.known, library)
        except Unsupported as why:
            self.declined[op.name] = str(why)
            return ()
        except tf.errors.OpError as error:
            self.declined[op.name] = f"TensorFlow refuses its body in the graph: {error.message}"
            return ()
        self._note(op, replaced)
        made = tuple(self._op(node, types[name], op) for name, node in nodes.made.items())
        self.known.update((new.name, new) for new in made)
        return made

    def _note(self, op: Op, replaced: Replaced) -> None:
        self.ops[op.name] = replaced.done
        for i, tensor in enumerate(replaced.outputs):
            self.tensors[op.output(i)] = tensor

    def _carrier(self, tensor: str) -> str:
        while tensor in self.tensors:
            tensor = self.tensors[tensor]
        return tensor

    def _redirected(self, op: Op) -> Op:
        """An op, naming what stands for replaced ops."""
        if op.forward in self.ops:
            op = dataclasses.replace(op, forward=None)
        if not any(split_tensor(t)[0] in self.ops for t in op.inputs) and self.ops.keys().isdisjoint(op.controls):
            return op
        inputs = tuple(self._carrier(t) for t in op.inputs)
        controls = tuple(dict.fromkeys(self.ops.get(c, c) for c in op.controls))
        node = node_def_pb2.NodeDef()
        node.ParseFromString(op.node)
        del node.input[:]
        node.input.extend(inputs)
        node.input.extend(f"^{c}" for c in controls)
        return dataclasses.replace(op, inputs=inputs, controls=controls, node=node.SerializeToString())

    def _variable(self, variable: Variable) -> Variable:
        """A variable, naming what stands for replaced ops."""
        initial = variable.initial_value
        return dataclasses.replace(
            variable,
            initial_value=initial if initial is None else self._carrier(initial),
            updates=tuple(self.ops.get(name, name) for name in variable.updates),
            gradients=tuple(self._carrier(t) for t in variable.gradients),
        )

    def _op(self, node: node_def_pb2.NodeDef, types: tuple[TensorType, ...], caller: Op) -> Op:
        """A new node as an op of the program, made on the account of the user's line that made the function op."""
        inputs: list[str] = []
        controls: list[str] = []
        for text in node.input:
            if text.startswith("^"):
                controls.append(text[1:])
            else:
                inputs.append(text)
        attrs = {k: v for k, v in ((k, attribute(a)) for k, a in node.attr.items()) if v is not None}
        return Op(
            name=node.name,
            type=node.op,
            inputs=tuple(inputs),
            controls=tuple(controls),
            outputs=types,
            attrs=attrs,
            node=node.SerializeToString(),
            device=node.device,
            value=self._value(node) if node.op == "Const" else None,
            stateful=_tf.op_is_stateful(node.op),
            state=_tf.state_inputs(node.op),
            scope=caller.scope,
            phase=caller.phase,
            site=caller.site,
        )

    def _value(self, node: node_def_pb2.NodeDef) -> np.ndarray | None:
        """The value of a constant, where it is small. Bodies hold the same few constants again and again."""
        key = node.attr["value"].SerializeToString()
        if key not in self._values:
            self._values[key] = constant(node)
        return self._values[key]
