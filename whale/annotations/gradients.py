"""Gradients found by structure, in graphs where ``tf.gradients`` left no note.

An imported MetaGraph and a gradient tape say nothing about which ops are the backward pass. Two facts tell:

* The backward pass is read by updates and by itself only. An activation has a reader in the forward pass as well,
  since the loss depends on it. So, from the updates up, an op all of whose readers belong to the pass does too.
* ``tf.gradients`` starts from a Fill of ones, made after all of the forward pass and before all of the backward pass.
  The order of a graph survives export and import, so no op before that Fill is backward. A tape leaves no such mark;
  there the only activation without a forward reader is a loss that its own gradient reads (a square root).

Gradient tensors of a variable are then what remains when the arithmetic of the update is peeled off the tensors that
are written to it: clipping, unscaling, moments and decay keep the shape of the variable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from whale.annotations.writes import Write
from whale.ir.flow import Flow
from whale.ir.program import Op, Shape, split_tensor

_OUTPUT_READERS: Mapping[str, int] = {
    "SqrtGrad": 0,
    "RsqrtGrad": 0,
    "InvGrad": 0,
    "ReciprocalGrad": 0,
    "SigmoidGrad": 0,
    "TanhGrad": 0,
    "ReluGrad": 1,
    "Relu6Grad": 1,
    "EluGrad": 1,
    "SeluGrad": 1,
}
"""Gradient ops by the input that is a value of the forward pass."""

UPDATE_ARITHMETIC = frozenset(
    "Add AddV2 Sub Mul RealDiv Div DivNoNan Neg Maximum Minimum ClipByValue Identity Cast Sqrt Rsqrt Square Pow Sign "
    "Select SelectV2 CheckNumerics Reciprocal StopGradient UnsortedSegmentSum Abs".split()
)
"""Op types of which updates are made between a gradient tensor and the variable."""

_PASSES_ON = frozenset({"Identity", "Cast", "CheckNumerics", "StopGradient", "Reshape"})


def backward_region(edges: Flow, writes: Iterable[Write], free: set[str], noted: set[str]) -> set[str]:
    """Ops that only updates depend on, where no note says what is backward: the backward pass and the update.

    Args:
        edges: the program's edges.
        writes: the updates.
        free: ops whose values depend on no batch and no variable; their readers decide where they belong.
        noted: ops of the backward pass that ``tf.gradients`` noted; what they lead to needs no search.
    """
    after_notes = _descendants(edges, noted)
    bits: dict[str, int] = {}
    for number, write in enumerate(w for w in writes if w.op.name not in after_notes):
        bits[write.op.name] = 1 << number
    if not bits:
        return set()
    reach = edges.reach(bits)
    position = {name: number for number, name in enumerate(edges.ops)}
    first = _first_positions(edges, reach, position)
    frames = edges.frames()
    frame_start: dict[str, int] = {}
    for name, frame in frames.items():
        frame_start[frame] = min(frame_start.get(frame, position[name]), position[name])
    region = set(bits)
    grown = True
    while grown:
        grown = False
        for op in reversed(edges.order):
            name = op.name
            if name in region or name in free or name not in reach:
                continue
            readers = [reader for reader in edges.readers[name] if reader not in free]
            inside = readers and all(reader in region for reader in readers)
            # Both ends of a loop's back edge wait for one another: the rest of the loop decides.
            if not inside and name in frames:
                inside = frame_start[frames[name]] >= first.get(reach[name], len(position))
            if not inside or _is_output(edges, op, readers):
                continue
            start = frame_start[frames[name]] if name in frames else position[name]
            if start >= first.get(reach[name], 0):
                region.add(name)
                grown = edges.looping
    return region


def _descendants(edges: Flow, roots: set[str]) -> set[str]:
    found = set(roots)
    for op in edges.order:
        if any(name in found for name in edges.producers[op.name]):
            found.add(op.name)
    return found


def _first_positions(edges: Flow, reach: Mapping[str, int], position: Mapping[str, int]) -> dict[int, int]:
    """For each set of updates that some op reaches: where in the graph their backward pass begins.

    Empty where no Fill of ones says so.
    """
    seeds = [(position[op.name], reach[op.name]) for op in edges.ops.values() if op.name in reach and is_seed(edges, op)]
    by_update: dict[int, int] = {}
    for at, bits in seeds:
        for number in _bits(bits):
            by_update[number] = at  # the latest wins: an earlier one is the seed of an inner gradient
    found: dict[int, int] = {}
    if by_update:
        for bits in set(reach.values()):
            starts = [by_update[number] for number in _bits(bits) if number in by_update]
            if starts:
                found[bits] = min(starts)
    return found


def _bits(bits: int) -> Iterable[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def is_seed(edges: Flow, op: Op) -> bool:
    """Whether an op is a Fill of ones, from which ``tf.gradients`` starts."""
    if op.type != "Fill" or len(op.inputs) != 2:
        return False
    value = edges.ops[split_tensor(op.inputs[1])[0]].value
    return value is not None and value.dtype.kind in "fV" and value.size == 1 and float(value.reshape(())) == 1.0


def _is_output(edges: Flow, op: Op, readers: Iterable[str]) -> bool:
    """Whether a gradient op reads an output of the op as a value of the forward pass."""
    for name in readers:
        at = _OUTPUT_READERS.get(edges.ops[name].type)
        if at is not None and split_tensor(edges.ops[name].inputs[at])[0] == op.name:
            return True
    return False


def gradient_tensors(edges: Flow, write: Write, shape: Shape, is_gradient: Callable[[str], bool | None]) -> list[str]:
    """The gradient tensors that one update writes to a variable of a shape.

    Args:
        edges: the program's edges.
        write: the update.
        shape: the variable's shape.
        is_gradient: for an op, whether it belongs to the backward pass; None where only structure can tell, and
            the op belongs to the backward pass or to the update.
    """
    found: dict[str, None] = {}
    seen: set[str] = set()
    start = [write.value] if write.value is not None else list(write.op.inputs[1:])
    stack = [tensor for tensor in start if tensor is not None]
    while stack:
        tensor = stack.pop()
        if tensor in seen:
            continue
        seen.add(tensor)
        name = split_tensor(tensor)[0]
        op = edges.ops[name]
        verdict = is_gradient(name)
        if verdict:
            if _same_values(edges, tensor, shape):
                found[tensor] = None
            continue
        inner = _operands(edges, op, shape)
        if verdict is None:
            inner = [operand for operand in inner if is_gradient(split_tensor(operand)[0]) is not False]
            if op.type not in UPDATE_ARITHMETIC or not inner:
                if not _reads_variables_only(edges, op, is_gradient):
                    found[tensor] = None
                continue
        stack.extend(reversed(inner))
    return list(found)


def _operands(edges: Flow, op: Op, shape: Shape) -> list[str]:
    """Inputs of an op that may hold one number for each element of the variable, or of the rows of it."""
    if op.type == "UnsortedSegmentSum":
        return [op.inputs[0]]
    if op.type in ("Switch", "Merge", "Select", "SelectV2"):
        return [t for t in op.inputs if _same_values(edges, t, shape)]
    return [t for t in op.inputs if op.type in _PASSES_ON or _same_values(edges, t, shape)]


def _same_values(edges: Flow, tensor: str, shape: Shape) -> bool:
    """Whether a tensor may have the shape of the variable, or of some rows of it, which sparse gradients have."""
    name, index = split_tensor(tensor)
    kind = edges.ops[name].outputs[index]
    if kind.dtype.replace("_ref", "") in ("resource", "string", "bool", "variant", "int32", "int64"):
        return False
    if shape is None or kind.shape is None:
        return True
    if len(shape) != len(kind.shape):
        return False
    return all(a is None or b is None or a == b for a, b in zip(shape[1:], kind.shape[1:])) and (
        not shape or shape[0] is None or kind.shape[0] is None or kind.shape[0] == shape[0] or len(shape) > 1
    )


def _reads_variables_only(edges: Flow, op: Op, is_gradient: Callable[[str], bool | None]) -> bool:
    """Whether the arithmetic is over variables and constants alone, as weight decay is."""
    return op.type in UPDATE_ARITHMETIC and all(
        is_gradient(name) is False for name in edges.producers[op.name]
    ) and all(not edges.producers[name] or len(edges.producers[name]) == 1 for name in edges.producers[op.name])
