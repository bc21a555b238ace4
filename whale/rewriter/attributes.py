"""Attributes that a copy of an op must not share with the original."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorflow.core.framework import attr_value_pb2

from whale.ir.placement import Sharded
from whale.ir.program import Op
from whale.rewriter.build import shape_attr
from whale.sharding.order import ENTERS
from whale.sharding.rules.source import RANDOM
from whale.sharding.rules.state import HOLDERS

if TYPE_CHECKING:
    from whale.rewriter.lower import Lowering

SEED_STEP = 1_000_003
"""What separates the seeds of the copies of a random op that draw independently."""

_ELEMENT_SHAPES = ("element_shape", "element_shape_except0")


def adapt(lowering: Lowering, op: Op, replica: int) -> dict[str, attr_value_pb2.AttrValue]:
    """The attributes to overwrite in a copy; empty where the copy may be the original."""
    edits: dict[str, attr_value_pb2.AttrValue] = {}
    decision = lowering.analysis.decisions[op.name]
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
    return edits


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
