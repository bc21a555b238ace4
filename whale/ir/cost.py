"""The cost of one op, and the sizes around it that a rule for costs reads."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Optional

from whale.ir import dims as D
from whale.ir.dims import Dim
from whale.ir.program import Op

Dims = Optional[tuple[Dim, ...]]
"""Sizes of a tensor; None where the rank is unknown."""


class Kind(enum.Enum):
    """Classes of ops that run at different fractions of a device's peak."""

    MATMUL = "matmul"
    CONVOLUTION = "convolution"
    REDUCTION = "reduction"
    ELEMENTWISE = "elementwise"
    MOVEMENT = "movement"
    NONE = "none"
    """No work on data: constants, shapes, views, control flow, variables."""
    UNKNOWN = "unknown"
    """No rule for the type, or sizes are missing."""


@dataclasses.dataclass(frozen=True)
class Cost:
    """The cost of one run of an op."""

    flops: Dim
    """Floating-point operations."""
    bytes: Dim
    """Bytes read and written at least; tensors of unknown rank count nothing."""
    kind: Kind
    """How the work is done."""

    @property
    def known(self) -> bool:
        """Whether a rule said so."""
        return self.kind is not Kind.UNKNOWN


@dataclasses.dataclass(frozen=True)
class Sizes:
    """The sizes of the tensors around one op."""

    op: Op
    """The op."""
    ins: tuple[Dims, ...]
    """Sizes of its inputs."""
    outs: tuple[Dims, ...]
    """Sizes of its outputs."""
    in_types: tuple[str, ...]
    """Element types of its inputs."""

    def rank(self, index: int) -> int:
        """Rank of an input.

        Raises:
            Unsized: it is unknown.
        """
        return len(self.dims(index))

    def dims(self, index: int) -> tuple[Dim, ...]:
        """Sizes of an input.

        Raises:
            Unsized: its rank is unknown, or there is no such input.
        """
        found = self.ins[index] if index < len(self.ins) else None
        if found is None:
            raise Unsized
        return found

    def out_dims(self, index: int = 0) -> tuple[Dim, ...]:
        """Sizes of an output.

        Raises:
            Unsized: its rank is unknown, or there is no such output.
        """
        found = self.outs[index] if index < len(self.outs) else None
        if found is None:
            raise Unsized
        return found

    def count(self, index: int = 0) -> Dim:
        """Number of elements of an input."""
        return D.product(self.dims(index))

    def out_count(self, index: int = 0) -> Dim:
        """Number of elements of an output."""
        return D.product(self.out_dims(index))

    def moved(self) -> Dim:
        """Bytes of all inputs and outputs."""
        total: Dim = 0
        for dims, dtype in zip(self.ins, self.in_types):
            total = D.add(total, tensor_bytes(dims, dtype))
        for dims, kind in zip(self.outs, self.op.outputs):
            total = D.add(total, tensor_bytes(dims, kind.dtype))
        return total


class Unsized(Exception):
    """A rule needs sizes that are not known; the op's cost is then unknown."""


def tensor_bytes(dims: Dims, dtype: str) -> Dim:
    """Bytes of a tensor; 0 where its rank is unknown or its elements have no fixed size (strings, handles)."""
    return 0 if dims is None else D.multiply(D.product(dims), ELEMENT_BYTES.get(dtype.replace("_ref", ""), 0))


ELEMENT_BYTES: Mapping[str, int] = {
    **dict.fromkeys(("bool", "int8", "uint8", "qint8", "quint8", "float8_e5m2", "float8_e4m3fn"), 1),
    **dict.fromkeys(("int16", "uint16", "float16", "half", "bfloat16", "qint16", "quint16"), 2),
    **dict.fromkeys(("int32", "uint32", "float32", "qint32"), 4),
    **dict.fromkeys(("int64", "uint64", "float64", "complex64"), 8),
    "complex128": 16,
}
"""Bytes of an element by TensorFlow's name of the type."""
