"""Copying a function's body into the graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from tensorflow.core.framework import node_def_pb2

from whale.annotations.inline_attributes import of_type
from whale.annotations.inline_functions import Body, Value
from whale.annotations.inline_nodes import Nodes, Region


@dataclasses.dataclass(frozen=True)
class Caller:
    """A function op to be replaced, with its inputs as they are named in the graph."""

    proto: node_def_pb2.NodeDef
    """Its NodeDef, for the attributes; not to be changed."""
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


class BodyCopy:
    """One copy of a body, its nested function ops replaced in turn."""

    def __init__(
        self,
        nodes: Nodes,
        body: Body,
        arguments: Sequence[str],
        region: Region,
        prefix: str,
        device: str,
        replace: Callable[[Caller], Replaced | None],
    ) -> None:
        """``replace`` makes the nodes that stand for a function op, or returns None for an op that stays."""
        self.body = body
        self._nodes = nodes
        self._arguments = arguments
        self._region = dataclasses.replace(region, mixed=True) if body.mixed else region
        self._prefix = prefix
        self._device = device
        self._replace = replace
        self._names = {name: nodes.unique(prefix + name) for name in body.nodes}
        self._replaced: dict[str, Replaced | None] = {}
        self._arrivals: dict[int, str] = {}

    def emit(self) -> tuple[list[str], Callable[[str], str]]:
        """Makes the nodes; returns the results, and a function from a node to the op that runs when it has run."""
        for name in self.body.nodes:
            self._visit(name)
        return [self._value(v) for v in self.body.results], self._end

    def _visit(self, name: str) -> Replaced | None:
        """Makes a node unless it is there; returns what stands for it, where it is not itself."""
        if name in self._replaced:
            return self._replaced[name]
        node = self.body.nodes[name]
        if node.calls:
            inputs = tuple(self._value(v) for v in node.inputs)
            controls = tuple(self._control(v) for v in node.controls)
            device = node.proto.device or self._device
            caller = Caller(node.proto, self._names[name], inputs, controls, device, self._region)
            replaced = self._replace(caller)
            self._replaced[name] = replaced
            if replaced is not None:
                return replaced
        self._replaced[name] = None
        self._nodes.functional |= node.functional
        self._nodes.adopt(
            node.proto,
            self._names[name],
            [self._value(v) for v in node.inputs],
            [self._control(v) for v in node.controls],
            self._region,
            self._device,
            self._prefix,
        )
        return None

    def _value(self, value: Value) -> str:
        """The graph's tensor for one of the body. Only function ops need be made before their outputs are named."""
        if value.node is None:
            return self._arguments[value.index]
        replaced = self._visit(value.node) if self.body.nodes[value.node].calls else None
        return replaced.outputs[value.index] if replaced is not None else f"{self._names[value.node]}:{value.index}"

    def _end(self, name: str) -> str:
        replaced = self._visit(name) if self.body.nodes[name].calls else None
        return replaced.done if replaced is not None else self._names[name]

    def _control(self, value: Value) -> str:
        if value.node is not None:
            return self._end(value.node)
        if value.index not in self._arrivals:
            # The producer of an argument may be a Switch, which runs for the other branch too: an Identity does not.
            hint = f"{self._prefix}argument_{value.index}"
            attrs = {"T": of_type(self.body.arguments[value.index])}
            inputs = [self._arguments[value.index]]
            name = self._nodes.add("Identity", hint, inputs, self._region, self._device, attrs)
            self._arrivals[value.index] = name
        return self._arrivals[value.index]
