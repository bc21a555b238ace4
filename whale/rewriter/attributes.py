"""Attributes that a copy of an op must not share with the original."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorflow.core.framework import attr_value_pb2

from whale.ir.placement import Sharded
from whale.ir.program import Op
from whale.rewriter.build import shape_attr
from whale.sharding.facts import Decision
from whale.sharding.order import ENTERS
from whale.sharding.rules.source import RANDOM
from whale.sharding.rules.state import HOLDERS

if TYPE_CHECKING:
    from whale.rewriter.lower import Lowering

SEED_STEP = 1_000_003
"""What separates the seeds of the copies of a random op that draw independently."""

_ELEMENT_SHAPES = ("element_shape", "element_shape_except0")

_OUTPUT_SHAPES = {"AccumulateNV2": "shape", "EnsureShape": "shape", "OptionalGetValue": "output_shapes"}
"""Attributes that state the shapes of an op's outputs, which its kernel checks or which readers rely on."""

_OWN = ENTERS | HOLDERS | RANDOM | _OUTPUT_SHAPES.keys()
"""Op types whose copies differ in attributes."""


def adapt(lowering: Lowering, op: Op, replica: int) -> dict[str, attr_value_pb2.AttrValue]:
    """The attributes to overwrite in a copy; empty where the copy may be the original."""
    edits: dict[str, attr_value_pb2.AttrValue] = {}
    decision = lowering.analysis.decisions[op.name]
    if op.type not in _OWN and not decision.params and not any(key in op.attrs for key in _ELEMENT_SHAPES):
        return edits
    for key, value in decision.params.get("attrs", {}).items():
        edits[key] = attr_value_pb2.AttrValue(list=attr_value_pb2.AttrValue.ListValue(i=value))
    if op.type in ENTERS:
        frame = lowering.frame_name(op.attrs.get("frame_name", ""), replica)
        edits["frame_name"] = attr_value_pb2.AttrValue(s=frame.encode())
    if op.type in HOLDERS and replica:
        shared = op.attrs.get("shared_name") or op.name
        edits["shared_name"] = attr_value_pb2.AttrValue(s=f"replica_{replica}/{shared}".encode())
    seeded = op.attrs.get("seed") or op.attrs.get("seed2")
    if op.type in RANDOM and replica and decision.distributed and seeded:
        edits["seed2"] = attr_value_pb2.AttrValue(i=int(op.attrs["seed2"]) + replica * SEED_STEP)
    for key in _ELEMENT_SHAPES:
        cut = _element_cut(lowering, op) if key in op.attrs else None
        if cut is not None:
            edits[key] = _without_dim(op.attrs[key], cut.dim, key)
    if op.type in _OUTPUT_SHAPES:
        edits.update(_stated(op, decision))
    for key, value in decision.params.get("shapes", {}).items():
        edits[key] = shape_attr(value)
    return edits


def _stated(op: Op, decision: Decision) -> dict[str, attr_value_pb2.AttrValue]:
    """The stated shapes of outputs, the size of a dim that is cut left open."""
    key = _OUTPUT_SHAPES[op.type]
    cuts = [fact.sharded for fact in decision.outputs]
    if not any(cuts):
        return {}
    stated = op.attrs[key] if key == "output_shapes" else (op.attrs[key],)
    shapes = [_without_dim(s, c.dim, key) if c else shape_attr(s) for s, c in zip(stated, cuts)]
    if key == "shape":
        return {key: shapes[0]}
    values = attr_value_pb2.AttrValue.ListValue(shape=[s.shape for s in shapes])
    return {key: attr_value_pb2.AttrValue(list=values)}


def _element_cut(lowering: Lowering, op: Op) -> Sharded | None:
    """How the elements of the container that an op makes or reads are cut."""
    for tensor in (*op.outputs_named(), *op.inputs):
        fact = lowering.analysis.facts.get(tensor)
        if fact is not None and fact.origin is not None:
            return lowering.analysis.containers.cut(fact.origin)
    return None


def _without_dim(shape: tuple[int | None, ...] | None, dim: int, key: str) -> attr_value_pb2.AttrValue:
    if shape is None:
        return shape_attr(None)
    at = dim - 1 if key.endswith("except0") else dim
    return shape_attr([None if i == at else d for i, d in enumerate(shape)])
