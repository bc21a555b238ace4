"""Kernels: what is launched as one. Op by op, or with neighbouring element-wise ops fused.

A kernel written by hand does a whole softmax or normalisation. A compiler such as XLA ends a kernel at each reduction:
what reads the sum is another kernel, which reads the other operands again.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping, Sequence, Set

from whale.cost_model.block import Work, WorkClass
from whale.cost_model.curve import ZERO, Curve, from_dim, total
from whale.cost_model.tensors import SHAPES, Tensors
from whale.ir.cost import Kind
from whale.ir.program import Op, Phase, split_tensor

_LIGHT = frozenset({Kind.ELEMENTWISE, Kind.REDUCTION, Kind.MOVEMENT})
_HEAVY = frozenset({Kind.CONVOLUTION, Kind.MATMUL, Kind.UNKNOWN})

_SOFTMAX = frozenset({"LogSoftmax", "Softmax"})
"""Ops that a compiler takes apart."""

_SOFTMAX_TRAFFIC = 2.5
"""Of such an op as a compiler runs it, against once in and out: the largest is found, exponentials are written with
their sum, and divided; that reads three times and writes twice."""


class Fusion(enum.Enum):
    """Who joins ops into kernels."""

    NONE = "none"
    """Nobody: each op is a kernel."""
    COMPILER = "compiler"
    HAND = "hand"
    """Authors of kernels for whole layers."""


@dataclasses.dataclass(frozen=True)
class Placement:
    """What the grouping of ops into kernels needs to know beside the program."""

    segments: Mapping[str, int]
    """The segment of each op that counts."""
    split: frozenset[str]
    """Ops that tensor parallelism divides."""
    redone: frozenset[str]
    """Ops that selective recomputation runs again."""


def kernels(tensors: Tensors, placement: Placement, fusion: Fusion) -> list[tuple[int, Work]]:
    """The work of a step as (segment, kernel), in data-flow order of the first op of each."""
    ops = [op for op in tensors.ops if op.name in placement.segments and tensors.costs[op.name].kind is not Kind.NONE]
    groups = [[op] for op in ops] if fusion is Fusion.NONE else _groups(tensors, ops, placement, fusion)
    readers = _readers(tensors)
    result: list[tuple[int, Work]] = []
    for group in groups:
        first = group[0]
        elements, other = _moved(tensors, first) if len(group) == 1 else _external(tensors, group, readers)
        if fusion is Fusion.COMPILER:
            elements, other = elements + _again(tensors, group, elements), other
        work = Work(
            work_class=_class(tensors, group, fusion),
            phase=first.phase,
            flops=total(from_dim(tensors.costs[o.name].flops, tensors.sizes, tensors.static_of(o)) for o in group),
            elements=elements,
            other_bytes=other,
            split=first.name in placement.split,
            redone=any(op.name in placement.redone for op in group),
        )
        result.append((placement.segments[first.name], work))
    return result


def _again(tensors: Tensors, group: Sequence[Op], elements: Curve) -> Curve:
    """What a compiled kernel moves again, on top of its elements: what a reduction and its reader both read."""
    result = ZERO
    for op in group:
        if op.type in _SOFTMAX:
            result = result + elements.scaled(_SOFTMAX_TRAFFIC - 1)
        elif _normalizes(op):
            operands = op.inputs[: 2 if "Grad" in op.type else 1]
            result = result + total(tensors.elements(tensor) for tensor in operands)
    return result


def _normalizes(op: Op) -> bool:
    """Whether it is a batch normalisation, or its gradient, which a compiler joins with what follows."""
    return op.type.startswith("FusedBatchNorm")


def _class(tensors: Tensors, group: Sequence[Op], fusion: Fusion) -> WorkClass:
    op = group[0]
    kind = tensors.costs[op.name].kind
    if any(_normalizes(member) for member in group):
        return WorkClass.NORMALIZATION
    if kind is Kind.CONVOLUTION:
        return WorkClass.CONVOLUTION
    if kind is not Kind.MATMUL:
        sums = any(tensors.costs[member.name].kind is Kind.REDUCTION for member in group)
        return WorkClass.REDUCTION if sums and fusion is Fusion.COMPILER else WorkClass.MEMORY
    forward = tensors.program.ops.get(op.forward or "") if op.phase is Phase.BACKWARD else op
    weighted = forward is None or tensors.weight_operand(forward) is not None
    return WorkClass.MATMUL if weighted else WorkClass.BATCH_MATMUL


def _moved(tensors: Tensors, op: Op) -> tuple[Curve, Curve]:
    """Floating-point elements and other bytes that one op reads and writes."""
    moved = from_dim(tensors.costs[op.name].bytes, tensors.sizes, tensors.static_of(op))
    other = total(tensors.other_bytes(t) for t in (*op.inputs, *op.outputs_named()))
    elements = total(tensors.elements(t) for t in (*op.inputs, *op.outputs_named()))
    if not elements.coefficients:
        return ZERO, moved
    # A rule may count less than whole tensors (rows of a table) or more (slots behind a handle).
    return (moved + other.scaled(-1.0)).scaled(0.25), other


def _external(tensors: Tensors, group: Sequence[Op], readers: Mapping[str, Sequence[Op]]) -> tuple[Curve, Curve]:
    """What a fused kernel reads from others and leaves to others."""
    names = {op.name for op in group}
    buffers: dict[str, None] = {}
    for op in group:
        for tensor in op.inputs:
            root = tensors.root(tensor)
            if split_tensor(root)[0] not in names:
                buffers[root] = None
        for tensor in op.outputs_named():
            root = tensors.root(tensor)
            if any(reader.name not in names for reader in readers.get(root, ())):
                buffers[root] = None
    return total(tensors.elements(b) for b in buffers), total(tensors.other_bytes(b) for b in buffers)


def _readers(tensors: Tensors) -> dict[str, list[Op]]:
    """For each buffer, the ops that do work on it. A forward buffer that only the backward pass reads is made again."""
    found: dict[str, list[Op]] = {}
    for op in tensors.ops:
        if op.type in SHAPES or tensors.costs[op.name].kind is Kind.NONE:
            continue
        for tensor in op.inputs:
            root = tensors.root(tensor)
            if not (op.phase is Phase.BACKWARD and tensors.producer(root).phase is Phase.FORWARD):
                found.setdefault(root, []).append(op)
    return found


def _groups(tensors: Tensors, ops: Sequence[Op], placement: Placement, fusion: Fusion) -> list[list[Op]]:
    """Joins light ops along their buffers when they are of one phase, segment and share of a tensor-parallel group, and
    equally many ops that end a kernel lie before them, so that no kernel waits for itself."""
    level = _levels(tensors, fusion)
    parent: dict[str, str] = {op.name: op.name for op in ops}

    def find(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    def key(op: Op) -> tuple[object, ...]:
        return (op.phase, placement.segments[op.name], op.name in placement.split, level[op.name])

    light = {op.name: op for op in ops if tensors.costs[op.name].kind in _LIGHT and not _is_alone(op, fusion)}
    makers: dict[str, list[Op]] = {}
    for op in light.values():
        for tensor in dict.fromkeys(tensors.root(t) for t in op.inputs):
            producer = light.get(split_tensor(tensor)[0])
            others = makers.setdefault(tensor, [])
            for other in ([producer] if producer is not None else []) + others[:1]:
                if key(other) == key(op):
                    parent[find(op.name)] = find(other.name)
            others.append(op)
    groups: dict[str, list[Op]] = {}
    for op in ops:
        groups.setdefault(find(op.name), []).append(op)
    return list(groups.values())


def _is_alone(op: Op, fusion: Fusion) -> bool:
    return fusion is Fusion.COMPILER and op.type in _SOFTMAX


def _levels(tensors: Tensors, fusion: Fusion) -> dict[str, int]:
    """For each op, how many ops that end a kernel lie before it on the longest way."""
    ends = {*_HEAVY, Kind.REDUCTION} if fusion is Fusion.COMPILER else _HEAVY
    level: dict[str, int] = {}
    for op in tensors.ops:
        before = [split_tensor(t)[0] for t in op.inputs]
        level[op.name] = max((level.get(name, 0) + _ends_kernel(tensors, name, ends) for name in before), default=0)
    return level


def _ends_kernel(tensors: Tensors, name: str, ends: Set[Kind]) -> bool:
    return name in tensors.costs and tensors.costs[name].kind in ends and not _normalizes(tensors.program.ops[name])


def alive(tensors: Tensors, updates: Iterable[str]) -> frozenset[str]:
    """Ops that the updates depend on by data: what is left when a compiler has removed the rest."""
    seen: set[str] = set()
    stack = [name for name in updates if name in tensors.costs]
    while stack:
        name = stack.pop()
        if name in seen:
            continue
        seen.add(name)
        stack.extend(p for p in (split_tensor(t)[0] for t in tensors.program.ops[name].inputs) if p in tensors.costs)
    return frozenset(seen)
