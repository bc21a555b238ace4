"""Gradients found by structure, in graphs where ``tf.gradients`` left no note.

An imported MetaGraph and a gradient tape say nothing about which ops are the backward pass. Two facts tell:

* The backward pass is read by updates and by itself only. An activation has a reader in the forward pass as well,
  since the loss depends on it. So, from the updates up, an op all of whose readers belong to the pass does too.
* ``tf.gradients`` starts from a Fill of ones, made after all of the forward pass and before all of the backward pass.
  The order of a graph survives export and import, so no op before that Fill is backward. A tape leaves no such mark;
  there the only activation without a forward reader is a loss that its own gradient reads (a square root).

Both hold for what updates do with gradients, too: ``peel.py`` tells that from the backward pass.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from whale.annotations.writes import Write
from whale.ir.flow import Flow
from whale.ir.program import Op, split_tensor

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


@dataclasses.dataclass(frozen=True)
class Region:
    """Ops that can only be backward pass or update, where no note says what is backward."""

    ops: frozenset[str]
    """The ops; those that updates do not depend on are left out."""
    starts: Mapping[str, int]
    """For each of these ops whose backward pass starts from a Fill of ones: where in the graph that is."""
    seeded: Mapping[str, int]
    """For each op of the graph that descends from such a Fill: where that is."""


def backward_region(
    edges: Flow, writes: Iterable[Write], trainable: frozenset[str], free: set[str], noted: set[str]
) -> Region:
    """Finds what is backward pass or update.

    Args:
        edges: the program's edges.
        writes: the updates.
        trainable: the trainable variables; without an update of one that no note leads to, nothing is searched.
        free: ops whose values depend on no batch and no variable; their readers decide where they belong.
        noted: ops of the backward pass that ``tf.gradients`` noted; what they lead to needs no search.
    """
    after_notes = _descendants(edges, noted)
    unexplained = [write for write in writes if write.op.name not in after_notes]
    bits = {write.op.name: 1 << number for number, write in enumerate(unexplained)}
    if not any(write.variable in trainable for write in unexplained):
        return Region(frozenset(), {}, {})
    reach = edges.reach(bits)
    position = positions(edges)
    seeds = {op.name: position[op.name] for op in edges.ops.values() if op.name in reach and is_seed(edges, op)}
    first = _first_positions(reach, seeds)
    seeded = _seeded(edges, seeds)
    inside = set(bits)
    for op in reversed(edges.order):
        name = op.name
        start = first.get(reach.get(name, 0), 0)
        if name in inside or position[name] < start or name not in reach:
            continue
        readers = edges.readers[name]
        descends = start and seeded.get(name, 0) >= start
        if descends or (readers and all(reader in inside for reader in readers) and not _is_output(edges, op)):
            inside.add(name)
    used = set(first.values())
    return Region(
        ops=frozenset(inside - free),
        starts={name: first[reach[name]] for name in inside - free if reach[name] in first},
        seeded={name: at for name, at in seeded.items() if at in used},
    )


def positions(edges: Flow) -> dict[str, int]:
    """Where each op was made. A loop stands where its first op stands: ``tf.gradients`` adds ops to forward loops."""
    frames = edges.frames()
    starts: dict[str, int] = {}
    found: dict[str, int] = {}
    for number, name in enumerate(edges.ops, 1):
        frame = frames.get(name)
        found[name] = number if frame is None else starts.setdefault(frame, number)
    return found


def _seeded(edges: Flow, seeds: Mapping[str, int]) -> dict[str, int]:
    """For each op that descends from a seed: the position of the latest one."""
    found = dict(seeds)
    for op in edges.order if seeds else ():
        latest = max((found.get(name, 0) for name in edges.producers[op.name]), default=0)
        if latest > found.get(op.name, 0):
            found[op.name] = latest
    return found


def same_pass(edges: Flow, region: Region, backward: set[str]) -> set[str]:
    """What belongs to a backward pass beside the gradients that reach a variable.

    ``tf.gradients`` makes all of its ops in one go: what comes before the last op that is surely backward is so too
    (indices of sparse gradients; gradients that no update reads, such as that of a batch). Loops belong to it as a
    whole.
    """
    number = {name: at for at, name in enumerate(edges.ops)}
    last: dict[int, int] = {}
    for name in backward:
        if name in region.starts:
            start = region.starts[name]
            last[start] = max(last.get(start, 0), number[name])
    found = {name for name, start in region.starts.items() if number[name] < last.get(start, 0)}
    found |= {name for name, start in region.seeded.items() if number[name] < last.get(start, 0)}
    frames = edges.frames()
    loops = {frames[name] for name in backward if name in frames}
    return found | {name for name, frame in frames.items() if frame in loops}


def _descendants(edges: Flow, roots: set[str]) -> set[str]:
    found = set(roots)
    for op in edges.order:
        if any(name in found for name in edges.producers[op.name]):
            found.add(op.name)
    return found


def _first_positions(reach: Mapping[str, int], seeds: Mapping[str, int]) -> dict[int, int]:
    """For each set of updates that some op reaches: the position from which on their backward pass was made.

    Empty where no Fill of ones says so.
    """
    by_update: dict[int, int] = {}
    for seed, at in seeds.items():
        for number in _bits(reach[seed]):
            # The latest seed counts: an earlier one is that of an inner gradient, which the loss reads.
            by_update[number] = max(by_update.get(number, 0), at)
    found: dict[int, int] = {}
    for bits in set(reach.values()) if by_update else ():
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


def _is_output(edges: Flow, op: Op) -> bool:
    """Whether a gradient op reads an output of the op as a value of the forward pass."""
    for name in edges.readers[op.name]:
        at = _OUTPUT_READERS.get(edges.ops[name].type)
        if at is not None and split_tensor(edges.ops[name].inputs[at])[0] == op.name:
            return True
    return False
