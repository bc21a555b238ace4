"""The program: a captured training graph as data.

Ops stay in the order of the user's graph. A tensor is named as TensorFlow names it, ``op:index``, always with the
index. Everything a pass does not read stays in the op's serialized NodeDef.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional

import numpy as np

from whale.errors import Site

Shape = Optional[tuple[Optional[int], ...]]
"""Static shape: None for unknown rank, None inside for an unknown dim."""


class Phase(enum.Enum):
    """What an op is for in a training step."""

    INPUT = "input"
    FORWARD = "forward"
    BACKWARD = "backward"
    UPDATE = "update"
    INIT = "init"
    SAVE = "save"
    OTHER = "other"


@dataclasses.dataclass(frozen=True)
class TensorType:
    """Type of one output of an op."""

    dtype: str
    """TensorFlow's name of the type; reference types end in ``_ref``."""
    shape: Shape
    """Static shape as TensorFlow inferred it."""

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.dtype}[*]"
        return f"{self.dtype}[{','.join('?' if d is None else str(d) for d in self.shape)}]"


@dataclasses.dataclass(frozen=True)
class Op:
    """One operation of the captured graph."""

    name: str
    """Name in the user's graph."""
    type: str
    """TensorFlow op type."""
    inputs: tuple[str, ...]
    """Data inputs as ``op:index``."""
    controls: tuple[str, ...]
    """Names of the ops that run before."""
    outputs: tuple[TensorType, ...]
    """Types of the outputs."""
    attrs: Mapping[str, Any]
    """Attributes as plain Python values; those no pass can read (functions, large tensors) are absent."""
    node: bytes
    """The serialized NodeDef."""
    device: str = ""
    """Device string the script asked for; empty for none."""
    value: np.ndarray[Any, np.dtype[Any]] | None = None
    """Value of a small constant."""
    stateful: bool = False
    """Whether the op has side effects or reads state."""
    state: tuple[int, ...] = ()
    """Inputs that the op takes by reference or handle, as its definition says: where it writes, it may write them."""
    scope: int | None = None
    """Index of the annotation scope the op was made in."""
    phase: Phase = Phase.OTHER
    """What the op is for."""
    forward: str | None = None
    """For an op of the backward pass: the forward op whose gradient it computes."""
    site: Site | None = None
    """The user's line that made the op."""

    def output(self, index: int = 0) -> str:
        """Name of an output tensor."""
        return f"{self.name}:{index}"

    def described(self) -> str:
        """The op as messages name it: by type, name and the user's line."""
        return f"{self.type} '{self.name}'" + (f" at {self.site}" if self.site else "")

    def classified(self, phase: Phase, forward: str | None) -> Op:
        """The op with another phase and forward op.

        It copies the fields as they are: of tens of thousands of ops, to construct each anew takes longer than to find
        the phases.
        """
        other = object.__new__(Op)
        other.__dict__.update(self.__dict__, phase=phase, forward=forward)
        return other

    def outputs_named(self) -> tuple[str, ...]:
        """Names of all output tensors."""
        return tuple(f"{self.name}:{i}" for i in range(len(self.outputs)))


MOST_NAMED = 3
"""Ops of a list that a message names."""


def described(ops: Sequence[Op]) -> str:
    """The first ops of a list, as messages name them, and how many more there are."""
    more = f" and {len(ops) - MOST_NAMED} more" if len(ops) > MOST_NAMED else ""
    return ", ".join(op.described() for op in ops[:MOST_NAMED]) + more


@dataclasses.dataclass(frozen=True)
class Variable:
    """One logical variable."""

    name: str
    """Name of the op that holds it (VariableV2 or VarHandleOp)."""
    dtype: str
    """Type of the value."""
    shape: Shape
    """Shape of the value."""
    trainable: bool = False
    """Whether the script's collection of trainable variables holds it."""
    initial_value: str | None = None
    """Tensor that initialises it."""
    updates: tuple[str, ...] = ()
    """Ops that write it, other than its initialiser and restores."""
    slot_of: str | None = None
    """For an optimizer slot: the variable it belongs to."""
    gradients: tuple[str, ...] = ()
    """Gradient tensors that reach its updates (dense, or the values of IndexedSlices)."""


@dataclasses.dataclass(frozen=True)
class Program:
    """A captured graph."""

    ops: Mapping[str, Op]
    """By name, in the order of the user's graph."""
    variables: Mapping[str, Variable] = dataclasses.field(default_factory=lambda: dict[str, Variable]())
    """By the name of the op that holds the variable."""
    library: bytes = b""
    """The serialized FunctionDefLibrary."""
    versions: bytes = b""
    """The serialized VersionDef."""

    def tensor(self, name: str) -> TensorType:
        """Type of a tensor.

        Raises:
            KeyError: no such tensor.
        """
        op, index = split_tensor(name)
        return self.ops[op].outputs[index]

    def producer(self, tensor: str) -> Op:
        """The op that makes a tensor."""
        return self.ops[split_tensor(tensor)[0]]


@functools.lru_cache(maxsize=1 << 17)
def split_tensor(name: str) -> tuple[str, int]:
    """``"op:1"`` as ``("op", 1)``."""
    op, _, index = name.rpartition(":")
    return op, int(index)


def reachable(program: Program, tensors: Iterable[str], targets: Iterable[str], feeds: Iterable[str]) -> tuple[Op, ...]:
    """The ops that TensorFlow would run for a set of fetched tensors and target ops, in graph order.

    ``feeds`` are tensors whose value is given: nothing behind them runs on their account.
    """
    fed = set(feeds)
    stack = [split_tensor(t)[0] for t in tensors if t not in fed] + list(targets)
    seen: set[str] = set()
    while stack:
        name = stack.pop()
        if name in seen:
            continue
        seen.add(name)
        op = program.ops[name]
        stack.extend(split_tensor(t)[0] for t in op.inputs if t not in fed)
        stack.extend(op.controls)
    return tuple(op for name, op in program.ops.items() if name in seen)
