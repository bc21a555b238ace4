"""Where a model can be cut: the forward pass as a sequence of segments, and which of them repeat.

A cut is a place in the forward pass that few tensors cross. First every place is taken that a single tensor crosses.
Where that leaves most of the work in one segment (long skip connections), the segment is cut at the place that the
fewest bytes cross; what crosses is the price of the cut, however far it goes on from there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from whale.cost_model.curve import ZERO, Curve
from whale.cost_model.tensors import SHAPES, Tensors
from whale.ir.cost import Kind
from whale.ir.program import Op, Phase, split_tensor

LARGEST_PART = 0.25
"""A segment with more than this part of the forward FLOPs is cut on, where it holds several heavy ops."""

LONGEST_PERIOD = 8
"""Repeated groups of more segments are not looked for."""

_TYPICAL = 8
"""Samples at which places are compared."""

HEAVY = frozenset({Kind.MATMUL, Kind.CONVOLUTION})


@dataclasses.dataclass(frozen=True)
class Segment:
    """A run of the forward pass between two cuts."""

    ops: tuple[Op, ...]
    """Ops that flow from the batch, in data-flow order."""
    output: Curve
    """Floating-point elements that cross the cut behind it."""
    stage: int = 0
    """The stage of the script's pipeline that it is part of."""


@dataclasses.dataclass(frozen=True)
class Group:
    """Segments that make one block."""

    start: int
    """First segment."""
    period: int
    """Segments of one block."""
    count: int
    """How often the block repeats."""


def find_segments(tensors: Tensors, stages: Mapping[str, int]) -> list[Segment]:
    """The segments of the forward pass, in order.

    Args:
        tensors: the program.
        stages: by op: the stage it belongs to, where the script names stages. No segment is part of two.
    """
    ops = [op for op in tensors.ops if op.phase is Phase.FORWARD and op.name in tensors.flowing]
    stage = [stages.get(op.name, 0) for op in ops]
    order = sorted(range(len(ops)), key=lambda i: (stage[i], i))
    ops, stage = [ops[i] for i in order], [stage[i] for i in order]
    crossing = _crossing(tensors, ops)
    cuts = [i for i, (number, _) in enumerate(crossing[:-1]) if number == 1 or stage[i] != stage[i + 1]]
    work = [float(_flops(tensors, op)) for op in ops]
    cuts = _refined(cuts, crossing, work, [tensors.costs[op.name].kind in HEAVY for op in ops])
    bounds = [0, *(cut + 1 for cut in cuts), len(ops)]
    return [
        Segment(tuple(ops[a:b]), crossing[b - 1][1] if b < len(ops) else ZERO, stage[a])
        for a, b in zip(bounds, bounds[1:])
        if a < b
    ]


def _flops(tensors: Tensors, op: Op) -> float:
    from_cost = tensors.costs[op.name].flops
    return float(from_cost) if isinstance(from_cost, int) else sum(float(c) for _, c in from_cost.terms)


def _crossing(tensors: Tensors, ops: Sequence[Op]) -> list[tuple[int, Curve]]:
    """For each op: how many buffers cross the place behind it, and their floating-point elements."""
    place = {op.name: i for i, op in enumerate(ops)}
    last: dict[str, int] = {}
    for i, op in enumerate(ops):
        if op.type in SHAPES:
            continue
        for tensor in op.inputs:
            root = tensors.root(tensor)
            if split_tensor(root)[0] in place:
                last[root] = i
    changes: list[list[tuple[int, Curve]]] = [[] for _ in range(len(ops) + 1)]
    for root, end in last.items():
        start = place[split_tensor(root)[0]]
        if end > start:
            changes[start].append((1, tensors.elements(root)))
            changes[end].append((-1, tensors.elements(root)))
    number, size = 0, ZERO
    result: list[tuple[int, Curve]] = []
    for i in range(len(ops)):
        for sign, elements in changes[i]:
            number += sign
            size = size + elements.scaled(sign)
        result.append((number, size))
    return result


def _refined(
    cuts: list[int], crossing: Sequence[tuple[int, Curve]], work: Sequence[float], heavy: Sequence[bool]
) -> list[int]:
    """Cuts segments that hold too much of the work, each where the fewest elements cross."""
    whole = sum(work)
    found = sorted(cuts)
    pending = list(zip([-1, *found], [*found, len(work) - 1]))
    while pending:
        start, end = pending.pop()
        inner = range(start + 1, end)
        heavies = [i for i in range(start + 1, end + 1) if heavy[i]]
        if sum(work[start + 1 : end + 1]) <= LARGEST_PART * whole or len(heavies) < 2:
            continue
        places = [i for i in inner if heavies[0] <= i < heavies[-1]]
        if not places:
            continue
        best = min(places, key=lambda i: (crossing[i][1].at(_TYPICAL), abs(i - (start + end) / 2)))
        found.append(best)
        pending += [(start, best), (best, end)]
    return sorted(found)


def fold_stages(
    segments: Sequence[Segment], signatures: Sequence[object], significant: Sequence[bool]
) -> Iterator[Group]:
    """``fold`` within each stage."""
    changes = [i for i in range(1, len(segments)) if segments[i].stage != segments[i - 1].stage]
    for start, stop in zip([0, *changes], [*changes, len(segments)]):
        for group in fold(signatures[start:stop], significant[start:stop]):
            yield dataclasses.replace(group, start=start + group.start)


def fold(signatures: Sequence[object], significant: Sequence[bool]) -> list[Group]:
    """Groups segments into blocks: repeated sequences become one block each, what is left joins its neighbours.

    Args:
        signatures: equal for segments that do equal work.
        significant: whether a segment is a block of its own where it does not repeat; others join the next segment
            that is not part of a repetition, else the one before.
    """
    groups: list[Group] = []
    at = 0
    while at < len(signatures):
        group = _repetition(signatures, significant, at)
        groups.append(group or Group(at, 1, 1))
        at += groups[-1].period * groups[-1].count
    return _joined(groups, significant)


def _repetition(signatures: Sequence[object], significant: Sequence[bool], at: int) -> Group | None:
    """The longest repetition from a segment on; the shortest period of those."""
    best: Group | None = None
    for period in range(1, LONGEST_PERIOD + 1):
        unit = list(signatures[at : at + period])
        count = 1
        while list(signatures[at + count * period : at + (count + 1) * period]) == unit:
            count += 1
        if count < 2 or not any(significant[at : at + period]):
            continue
        if best is None or count * period > best.count * best.period:
            best = Group(at, period, count)
    return best


def _joined(groups: Sequence[Group], significant: Sequence[bool]) -> list[Group]:
    """Groups in which light segments belong to a neighbour that does not repeat."""
    result: list[Group] = []
    open_start: int | None = None
    for group in groups:
        if group.count > 1:
            if open_start is not None:
                result.append(Group(open_start, group.start - open_start, 1))
                open_start = None
            result.append(group)
            continue
        start = group.start if open_start is None else open_start
        if significant[group.start]:
            result.append(Group(start, group.start + 1 - start, 1))
            open_start = None
        else:
            open_start = start
    if open_start is not None:
        end = groups[-1].start + 1
        if result and result[-1].count == 1:
            last = result.pop()
            result.append(Group(last.start, end - last.start, 1))
        else:
            result.append(Group(open_start, end - open_start, 1))
    return _light_joined(result, significant)


def _light_joined(groups: Sequence[Group], significant: Sequence[bool]) -> list[Group]:
    """A light group that stands before a repetition belongs to the single group before it, where there is one."""
    result: list[Group] = []
    for group in groups:
        light = group.count == 1 and not any(significant[group.start : group.start + group.period])
        if light and result and result[-1].count == 1:
            last = result.pop()
            group = Group(last.start, last.period + group.period, 1)
        result.append(group)
    return result
