"""Which ops hold, read and write variables.

Every copy has its own mirror of a variable, and writes it with whole values, so mirrors stay equal.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from whale.ir.program import Op, split_tensor

HOLDERS = frozenset({"VariableV2", "Variable", "VarHandleOp"})
"""Ops that hold a variable; one per device."""

READERS = frozenset(
    {
        "ReadVariableOp",
        "ResourceGather",
        "ResourceGatherNd",
        "VariableShape",
        "VarIsInitializedOp",
        "IsVariableInitialized",
    }
)
"""Ops that read a variable through its handle or reference and write nothing."""

_WRITE_PREFIXES = (
    "Assign",
    "Apply",
    "SparseApply",
    "ResourceApply",
    "ResourceSparseApply",
    "ResourceScatter",
    "ResourceStridedSliceAssign",
    "StridedSliceAssign",
    "CountUpTo",
    "ResourceCountUpTo",
    "DestroyTemporaryVariable",
)

_SCATTERS = frozenset(
    f"Scatter{kind}{name}" for kind in ("", "Nd") for name in ("Update", "Add", "Sub", "Mul", "Div", "Min", "Max")
)

_TRAINERS = frozenset({"NegTrain", "SdcaShrinkL1"})
"""Ops that compute an update and apply it in one."""

GENERATORS = frozenset(
    {
        "StatefulUniform",
        "StatefulUniformInt",
        "StatefulUniformFullInt",
        "StatefulStandardNormal",
        "StatefulStandardNormalV2",
        "StatefulTruncatedNormal",
        "StatefulRandomBinomial",
        "RngSkip",
        "RngReadAndSkip",
    }
)
"""Random ops that keep the state of their generator in a variable, and write it. They run once, at home."""


@functools.cache
def writes_variable(op_type: str) -> bool:
    """Whether an op type updates the variable in its first input, on every device that has a mirror of it."""
    return op_type.startswith(_WRITE_PREFIXES) or op_type in _SCATTERS or op_type in _TRAINERS


@functools.cache
def on_variable(op_type: str) -> bool:
    """Whether an op type touches a mirror of a variable: it runs wherever the mirror is."""
    return op_type in HOLDERS or op_type in READERS or writes_variable(op_type)


def written(ops: Mapping[str, Op], op: Op) -> tuple[str, ...]:
    """The variables that an op writes, each once: the one it updates and its slots."""
    if not (writes_variable(op.type) or op.type in GENERATORS):
        return ()
    holders = (holder_of(ops, op.inputs[i]) for i in op.state if i < len(op.inputs))
    return tuple(dict.fromkeys(holder for holder in holders if holder is not None))


def holder_of(ops: Mapping[str, Op], tensor: str) -> str | None:
    """The variable behind a handle or reference, through loops, branches and identities."""
    name = split_tensor(tensor)[0]
    seen: set[str] = set()
    while name in ops and name not in seen:
        seen.add(name)
        op = ops[name]
        if op.type in HOLDERS:
            return name
        if not op.inputs:
            return None
        name = split_tensor(op.inputs[0])[0]
    return None
