"""The gradient tensors of a variable: what remains when the arithmetic of the update is peeled off.

Starting from what is written to a variable, clipping, unscaling, weight decay and moments are followed up along the
operands that have the variable's shape (or, for sparse gradients, the shape of some of its rows) until they come from
the backward pass. Norms are scalars, so the gradients of other variables, which come in by a global norm, are not
followed. Where an update goes by way of another variable of the same shape (a moment), what is written to that counts.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping, Sequence

from whale.annotations.op_kinds import names
from whale.annotations.writes import Write
from whale.ir.flow import Flow
from whale.ir.program import Op, Shape, split_tensor
from whale.sharding.rules.state import HOLDERS, holder_of

UPDATE_ARITHMETIC = names(
    "Add AddV2 Sub Mul RealDiv Div DivNoNan Neg Maximum Minimum ClipByValue Identity Cast Sqrt Rsqrt Square Pow Sign "
    "Select SelectV2 CheckNumerics Reciprocal StopGradient UnsortedSegmentSum Abs"
)
"""Op types of which updates are made between a gradient tensor and the variable."""

_PASSES_ON = frozenset({"Identity", "Cast", "CheckNumerics", "StopGradient", "Reshape"})
_NO_NUMBERS = frozenset({"resource", "string", "bool", "variant", "int32", "int64"})


class Part(enum.Enum):
    """Where an op stands, seen from an update."""

    GRADIENT = "gradient"
    """In the backward pass."""
    UPDATE = "update"
    """Between the backward pass and the variables."""
    EITHER = "either"
    """One of the two; only structure can tell."""
    OUTSIDE = "outside"
    """Elsewhere: what it computes is no gradient and comes from none."""


@dataclasses.dataclass(frozen=True)
class Peeling:
    """What is needed to peel updates of one program."""

    edges: Flow
    """The program's edges."""
    updates: Mapping[str, Sequence[Write]]
    """Updates by variable."""
    by_op: Mapping[str, Write]
    """Updates by op."""
    reads: set[str]
    """Ops that do nothing but hand on a variable."""
    part: Callable[[str], Part]
    """Where each op stands."""

    def gradients(self, variable: str) -> list[str]:
        """The gradient tensors that the updates of a variable write, in the order of the updates."""
        shape: Shape = self.edges.ops[variable].attrs.get("shape")
        found: dict[str, None] = {}
        seen: set[str] = set()
        stack = [tensor for write in reversed(self.updates.get(variable, ())) for tensor in _values(write)]
        while stack:
            tensor = stack.pop()
            if tensor in seen:
                continue
            seen.add(tensor)
            op = self.edges.ops[split_tensor(tensor)[0]]
            part = self.part(op.name)
            if part is Part.GRADIENT:
                if self._fits(tensor, shape):
                    found[tensor] = None
            elif op.name in self.reads:
                stack.extend(self._written(tensor, variable, shape))
            elif op.name in self.by_op:
                stack.extend(_values(self.by_op[op.name]))
            elif part is Part.UPDATE:
                stack.extend(reversed(self._operands(op, shape)))
            elif part is Part.EITHER:
                inner = [t for t in self._operands(op, shape) if self._goes_on(t)]
                if inner and op.type in UPDATE_ARITHMETIC and not self._hands_on(op):
                    stack.extend(reversed(inner))
                elif not self._over_variables(op):
                    found[tensor] = None
        return list(found)

    def _goes_on(self, tensor: str) -> bool:
        name = split_tensor(tensor)[0]
        return self.part(name) is not Part.OUTSIDE or name in self.reads

    def _written(self, tensor: str, variable: str, shape: Shape) -> list[str]:
        """What updates write to another variable of the same shape, given a read of that."""
        other = holder_of(self.edges.ops, tensor)
        if other is None or other == variable or self.edges.ops[other].attrs.get("shape") != shape:
            return []
        return [value for write in self.updates.get(other, ()) for value in _values(write)]

    def _hands_on(self, op: Op) -> bool:
        """Whether an op is the last of ``tf.gradients``: the Identity that waits for the other gradients of one op."""
        while op.type == "Identity":
            op = self.edges.ops[self.edges.producers[op.name][0]]
            if op.type not in UPDATE_ARITHMETIC and op.name not in self.reads and op.name not in self.by_op:
                return True
        return False

    def _operands(self, op: Op, shape: Shape) -> list[str]:
        """Inputs of an op that may hold one number for each element of the variable, or of some rows of it."""
        if op.type == "UnsortedSegmentSum":
            return [op.inputs[0]]
        return [t for t in op.inputs if op.type in _PASSES_ON or self._fits(t, shape)]

    def _fits(self, tensor: str, shape: Shape) -> bool:
        """Whether a tensor may have the shape of the variable, or of some rows of it."""
        name, index = split_tensor(tensor)
        kind = self.edges.ops[name].outputs[index]
        if kind.dtype.replace("_ref", "") in _NO_NUMBERS:
            return self.edges.ops[name].type in HOLDERS
        if shape is None or kind.shape is None:
            return True
        if len(shape) != len(kind.shape):
            return False
        same = [a is None or b is None or a == b for a, b in zip(shape, kind.shape)]
        return all(same[1:]) and (not same or same[0] or len(same) > 1)

    def _over_variables(self, op: Op) -> bool:
        """Whether an op is arithmetic over variables and constants alone, as weight decay is."""
        return op.type in UPDATE_ARITHMETIC and all(
            name in self.reads or self.part(name) is Part.OUTSIDE for name in self.edges.producers[op.name]
        )


def _values(write: Write) -> list[str]:
    return [write.value] if write.value is not None else list(write.op.inputs[1:])
