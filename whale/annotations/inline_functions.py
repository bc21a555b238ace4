"""Function bodies of a graph's library, read into a form whose tensors are named as in a graph.

A FunctionDef names tensors ``node:output_argument:index``. Here they are (node, flat output index) pairs, so that a
body can be copied into a graph by renaming nodes.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from tensorflow.core.framework import function_pb2, node_def_pb2

from whale import _tf

LOOPS = frozenset({"While", "StatelessWhile"})
CONDITIONALS = frozenset({"If", "StatelessIf"})
CASES = frozenset({"Case", "StatelessCase"})
CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
FUNCTION_OPS = LOOPS | CONDITIONALS | CASES | CALLS
"""Op types that can be inlined, beside the ops that call a function by having its name as type."""

_V1 = frozenset({"Switch", "RefSwitch", "Enter", "RefEnter"})


class Unsupported(Exception):
    """A function op cannot be inlined; the message says why. It then runs whole."""


@dataclasses.dataclass(frozen=True)
class Value:
    """A tensor inside a body."""

    node: str | None
    """The node that makes it; None for an argument of the function."""
    index: int
    """Index of the output, or of the argument."""


@dataclasses.dataclass(frozen=True)
class Node:
    """One node of a body."""

    proto: node_def_pb2.NodeDef
    """The NodeDef, its inputs still in the function's naming; not to be changed."""
    inputs: tuple[Value, ...]
    """Data inputs."""
    controls: tuple[Value, ...]
    """What runs before; an argument, where a node waits for one."""
    calls: bool
    """Whether it is a function op that may be inlined."""
    functional: bool
    """Whether it needs functions of the library, by its type or its attributes."""


@dataclasses.dataclass(frozen=True)
class Body:
    """A function as a list of nodes."""

    name: str
    """Name in the library."""
    arguments: tuple[int, ...]
    """Type (enum number) of each argument."""
    types: tuple[int, ...]
    """Type (enum number) of each result."""
    nodes: dict[str, Node]
    """By name, in the order of the FunctionDef."""
    results: tuple[Value, ...]
    """What it returns."""
    effects: tuple[str, ...]
    """Nodes that run even though no result reads them, as the function's control outputs say."""
    stateful: tuple[str, ...]
    """Nodes with side effects or state: all of them run where TensorFlow calls the function without lowering it."""
    mixed: bool
    """Whether it holds Switch or Enter nodes of its own."""

    def passed(self, result: int) -> int | None:
        """The argument that a result returns as it came, seen through identities; None for none."""
        value = self.results[result]
        while value.node is not None:
            node = self.nodes[value.node]
            if node.proto.op != "Identity" or node.controls:
                return None
            value = node.inputs[0]
        return value.index


class Library:
    """The functions of a program."""

    def __init__(self, serialized: bytes) -> None:
        library = function_pb2.FunctionDefLibrary()
        library.ParseFromString(serialized)
        self._functions = {f.signature.name: f for f in library.function}
        self._bodies: dict[str, Body] = {}

    def calls(self, op_type: str) -> bool:
        """Whether ops of a type run functions of the library and can be inlined."""
        return op_type in FUNCTION_OPS or op_type in self._functions

    def body(self, name: str) -> Body:
        """Reads a function.

        Raises:
            Unsupported: the function is not there, or uses what a plain body cannot express.
        """
        if name not in self._bodies:
            if name not in self._functions:
                raise Unsupported(f"function {name} is not in the graph's library")
            self._bodies[name] = _Reading(self, self._functions[name]).body()
        return self._bodies[name]

    def definition(self, name: str) -> function_pb2.FunctionDef | None:
        """A function as the graph holds it; None where it has none of that name."""
        return self._functions.get(name)

    def signature(self, op_type: str) -> Any:
        """The OpDef of an op type, or of the function of that name.

        Raises:
            Unsupported: neither exists.
        """
        if op_type in self._functions:
            return self._functions[op_type].signature
        definition = _tf.op_definition(op_type)
        if definition is None:
            raise Unsupported(f"op type {op_type} is not registered")
        return definition


class _Reading:
    """Reads one FunctionDef."""

    def __init__(self, library: Library, function: function_pb2.FunctionDef) -> None:
        self.library = library
        self.function = function
        self.arguments = {a.name: i for i, a in enumerate(function.signature.input_arg)}
        self.protos = {n.name: n for n in function.node_def}
        self._offsets: dict[str, dict[str, int]] = {}
        """By node, or by op type where all nodes of the type have the same number of outputs."""

    def body(self) -> Body:
        function, signature = self.function, self.function.signature
        for argument in (*signature.input_arg, *signature.output_arg):
            if argument.number_attr or argument.type_list_attr or argument.type_attr:
                raise Unsupported(f"function {signature.name} has arguments of variable type or number")
        if "_XlaMustCompile" in function.attr and function.attr["_XlaMustCompile"].b:
            raise Unsupported(f"function {signature.name} must be compiled by XLA")
        nodes = {name: self._node(proto) for name, proto in self.protos.items()}
        stateful = tuple(n for n, p in self.protos.items() if self.library.signature(p.op).is_stateful)
        return Body(
            signature.name,
            tuple(a.type for a in signature.input_arg),
            tuple(a.type for a in signature.output_arg),
            nodes,
            tuple(self._value(function.ret[a.name]) for a in signature.output_arg),
            tuple(dict.fromkeys(function.control_ret[name] for name in signature.control_output)),
            stateful,
            any(p.op in _V1 for p in self.protos.values()),
        )

    def _node(self, proto: node_def_pb2.NodeDef) -> Node:
        functional = False
        for attr in proto.attr.values():
            kind = attr.WhichOneof("value")
            if kind == "placeholder":
                raise Unsupported(f"function {self.function.signature.name} is polymorphic")
            functional |= kind == "func" or (kind == "list" and len(attr.list.func) > 0)
        calls = self.library.calls(proto.op)
        inputs: list[Value] = []
        controls: list[Value] = []
        for text in proto.input:
            if not text.startswith("^"):
                inputs.append(self._value(text))
            elif text[1:] in self.protos:
                controls.append(Value(text[1:], 0))
            else:
                controls.append(Value(None, self.arguments[text[1:]]))
        return Node(proto, tuple(inputs), tuple(controls), calls, functional or calls)

    def _value(self, text: str) -> Value:
        """``node:output_argument:index``, or the name of an argument."""
        name, _, rest = text.partition(":")
        if name not in self.protos:
            return Value(None, self.arguments[name])
        output, _, index = rest.partition(":")
        return Value(name, self._offset(name, output) + int(index or 0))

    def _offset(self, name: str, output: str) -> int:
        """Index of the first tensor of an output argument."""
        proto = self.protos[name]
        offsets = self._offsets.get(proto.op) or self._offsets.get(name)
        if offsets is None:
            offsets, count, key = {}, 0, proto.op
            for argument in self.library.signature(proto.op).output_arg:
                offsets[argument.name] = count
                if argument.number_attr:
                    count, key = count + proto.attr[argument.number_attr].i, name
                elif argument.type_list_attr:
                    count, key = count + len(proto.attr[argument.type_list_attr].list.type), name
                else:
                    count += 1
            self._offsets[key] = offsets
        return offsets[output]
