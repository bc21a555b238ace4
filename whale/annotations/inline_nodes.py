"""Nodes made by inlining, and what they hang on.

A node inside a loop or a branch must run only when, and as often as, its iteration or branch does. TensorFlow decides
that by the node's inputs: one that comes from inside suffices. A node without such an input gets a control edge from
the region's pivot.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Mapping, Sequence

from tensorflow.core.framework import attr_value_pb2, node_def_pb2

_ENTERS = frozenset({"Enter", "RefEnter"})


@dataclasses.dataclass(frozen=True)
class Region:
    """A loop's condition or body, a branch, or the body of a call."""

    pivot: str = ""
    """An op that runs once whenever the region runs; empty where everything always runs."""
    constant: frozenset[str] = frozenset()
    """Tensors seen inside that are there whether or not the region runs: constant Enters, arguments of a call."""
    mixed: bool = False
    """Whether Switch or Enter ops of the script's own lie between the pivot and ops of the region."""


EVERYWHERE = Region()
"""For nodes whose inputs are known to come from inside."""


class Nodes:
    """Collects new nodes under names nobody has."""

    def __init__(self, taken: Container[str]) -> None:
        self.made: dict[str, node_def_pb2.NodeDef] = {}
        """By name."""
        self.functional = False
        """Whether one of them needs functions of the library."""
        self._taken = taken
        self._reserved: set[str] = set()

    def unique(self, hint: str) -> str:
        """Gives out a name."""
        name, number = hint, 0
        while name in self._reserved or name in self._taken:
            number += 1
            name = f"{hint}_{number}"
        self._reserved.add(name)
        return name

    def add(
        self,
        op_type: str,
        hint: str,
        inputs: Sequence[str],
        region: Region,
        device: str,
        attrs: Mapping[str, attr_value_pb2.AttrValue] | None = None,
        controls: Sequence[str] = (),
    ) -> str:
        """Makes a node; returns its name."""
        return self.add_named(op_type, self.unique(hint), inputs, region, device, attrs, controls)

    def add_named(
        self,
        op_type: str,
        name: str,
        inputs: Sequence[str],
        region: Region,
        device: str,
        attrs: Mapping[str, attr_value_pb2.AttrValue] | None = None,
        controls: Sequence[str] = (),
    ) -> str:
        """Makes a node under a name given out before."""
        node = node_def_pb2.NodeDef(name=name, op=op_type, device=device)
        for key, value in (attrs or {}).items():
            node.attr[key].CopyFrom(value)
        return self._connect(node, inputs, controls, region)

    def adopt(
        self,
        proto: node_def_pb2.NodeDef,
        name: str,
        inputs: Sequence[str],
        controls: Sequence[str],
        region: Region,
        device: str,
        frame_prefix: str,
    ) -> str:
        """Copies a node of a body under a name given out before."""
        node = node_def_pb2.NodeDef()
        node.CopyFrom(proto)
        node.name = name
        node.device = proto.device or device
        del node.input[:]
        # Colocation names nodes of the body or of a graph around it, neither of which is called so here.
        node.attr.pop("_class", None)
        if node.op in _ENTERS:
            frame = node.attr["frame_name"]
            frame.s = frame_prefix.encode() + frame.s
        return self._connect(node, inputs, controls, region)

    def _connect(
        self, node: node_def_pb2.NodeDef, inputs: Sequence[str], controls: Sequence[str], region: Region
    ) -> str:
        if region.pivot and not controls and region.constant.issuperset(inputs):
            controls = (region.pivot,)
        node.input.extend(inputs)
        node.input.extend(f"^{c}" for c in dict.fromkeys(controls))
        self.made[node.name] = node
        return node.name
