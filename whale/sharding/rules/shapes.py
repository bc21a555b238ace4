"""Ops that ask for shapes, and arithmetic on them that has ops of its own.

``Shape`` and its kin speak of the whole tensor, also where they read a piece. What depends on broadcasting
(``BroadcastGradientArgs``) every copy works out for its own piece.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from whale.ir import dims as D
from whale.ir.dims import Dim
from whale.ir.placement import EACH, REPLICATED, Sharded
from whale.sharding.call import Call
from whale.sharding.facts import Decision, Fact, Local, Value, Want
from whale.sharding.values import array, broadcast

Rule = Callable[[Call], Decision]


def shape_of(call: Call) -> Decision:
    """Shape and Size: of the whole tensor; from a piece they are completed by the batch size."""
    fact = call.ins[0]
    out = call.fact(REPLICATED, () if call.op.type == "Size" else None)
    if call.op.type == "Shape":
        out = dataclasses.replace(out, shape_of=fact.placement)
    recipe = "copy" if fact.sharded is None else "global_" + call.op.type.lower()
    return call.decide([None], out, recipe=recipe)


def shape_n(call: Call) -> Decision:
    """Shapes of several tensors."""
    outputs = [
        dataclasses.replace(
            call.fact(REPLICATED, None, i, value=None if f.dims is None else array(list(f.dims))),
            shape_of=f.placement,
        )
        for i, f in enumerate(call.ins)
    ]
    recipe = "global_shape_n" if any(f.sharded for f in call.ins) else "copy"
    return call.decide([None] * len(call.ins), *outputs, recipe=recipe)


def rank_of(call: Call) -> Decision:
    """Rank: the same for a piece as for the whole."""
    return call.decide([None], call.fact(REPLICATED, ()))


def broadcast_gradient_args(call: Call) -> Decision:
    """The axes over which gradients of a broadcast are summed, worked out by every copy for its own pieces."""
    left, right = call.ins[0].value, call.ins[1].value
    if left is None or right is None:
        return call.whole()
    rank = max(len(left), len(right))
    merged = broadcast(tuple(left), tuple(right))
    outputs: list[Value | None] = []
    for own in (left, right):
        axes: list[int] = []
        for i in range(rank):
            at = i - (rank - len(own))
            # Sizes that are not comparable before the run are taken as equal, as element-wise ops of one shape are.
            if at < 0 or (own[at] == 1 and merged[i] != 1):
                axes.append(i)
        outputs.append(None if any(D.is_either(size) for size in own) else array(axes))
    found = _cut_of_result(call, left, right)
    wants = None if found is None else _own_shapes(found, left, right)
    if wants is None:  # the axes are the same for whole shapes
        facts = [call.fact(REPLICATED, None, i, value=a) for i, a in enumerate(outputs)]
        return call.decide([REPLICATED, REPLICATED], *facts)
    facts = [call.fact(EACH, None, i, value=a) for i, a in enumerate(outputs)]
    return call.decide(wants, *facts)


def _cut_of_result(call: Call, left: Value, right: Value) -> tuple[int, int] | None:
    """The batch and the dim, counted from the last, that the result of a broadcast is cut on; None where not known.

    Known from where the tensors are whose shapes these are: the first that is cut decides, as in the op itself. Where
    that was lost on the way (loops hand shapes to their gradients) the one dim that scales with a batch tells.
    """
    cuts = [f.shape_of for f in call.ins]
    for cut, vector in zip(cuts, (left, right)):
        if isinstance(cut, Sharded):
            return call.batches.find(cut.batch), cut.dim - len(vector)
    found: set[tuple[int, int]] = set()
    if None in cuts:
        for batch in call.batches.roots():
            if not isinstance(call.batches.size(batch), int):
                scaled = [(v, i) for v in (left, right) for i, s in enumerate(v) if D.degree(s, f"n{batch}") == (1, 1)]
                found.update((batch, i - len(v)) for v, i in scaled)
    return found.pop() if len(found) == 1 else None


def _own_shapes(cut: tuple[int, int], left: Value, right: Value) -> list[Want] | None:
    """What a copy wants of the two shapes: those of its pieces; None where that is not clear."""
    batch, dim = cut
    sizes = [v[dim] if -dim <= len(v) else 1 for v in (left, right)]
    if 1 not in sizes and sizes[0] != sizes[1]:
        return None
    return [REPLICATED if size == 1 else Local(batch, (len(v) + dim,)) for size, v in zip(sizes, (left, right))]


def concat_offset(call: Call) -> Decision:
    """Offsets of concatenated tensors, of the whole."""
    facts: list[Fact] = []
    axis: int | None = None if call.ins[0].value is None else call.ins[0].value.item()
    running: Dim = 0
    shapes = [f.value for f in call.ins[1:]]
    for i, shape in enumerate(shapes):
        value = None
        if axis is not None and all(s is not None for s in shapes) and shape is not None:
            offsets: list[Dim] = [0] * len(shape)
            offsets[axis] = running
            running = D.add(running, shape[axis])
            value = array(offsets)
        facts.append(call.fact(REPLICATED, None, i, value=value))
    return call.decide([REPLICATED] * len(call.ins), *facts)


RULES: dict[str, Rule] = {
    "Shape": shape_of,
    "Size": shape_of,
    "ShapeN": shape_n,
    "Rank": rank_of,
    "BroadcastGradientArgs": broadcast_gradient_args,
    "ConcatOffset": concat_offset,
}
