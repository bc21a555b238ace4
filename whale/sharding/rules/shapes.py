"""Ops that ask for shapes, and arithmetic on them that has ops of its own.

``Shape`` and its kin speak of the whole tensor, also where they read a piece. What depends on broadcasting
(``BroadcastGradientArgs``) every copy works out for its own piece.
"""

from __future__ import annotations

from collections.abc import Callable

from whale.ir import dims as D
from whale.ir.dims import Dim
from whale.ir.placement import EACH, REPLICATED
from whale.sharding.call import Call
from whale.sharding.facts import Decision, Fact, Local, Value, Want
from whale.sharding.values import array, broadcast

Rule = Callable[[Call], Decision]


def shape_of(call: Call) -> Decision:
    """Shape and Size: of the whole tensor; from a piece they are completed by the batch size."""
    fact = call.ins[0]
    if fact.sharded is None:
        return call.decide([None], call.fact(REPLICATED, () if call.op.type == "Size" else None))
    return call.decide([None], call.fact(REPLICATED, None), recipe="global_" + call.op.type.lower())


def shape_n(call: Call) -> Decision:
    """Shapes of several tensors."""
    outputs = [
        call.fact(REPLICATED, None, i, value=None if f.dims is None else array(list(f.dims)))
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
    scaled = [_scaled(call, list(v)) for v in (left, right)]
    batch = next((s[0] for s in scaled if s), None)
    if batch is None or any(s and s[0] != batch for s in scaled):
        facts = [call.fact(REPLICATED, None, i, value=a) for i, a in enumerate(outputs)]
        return call.decide([REPLICATED, REPLICATED], *facts)
    wants: list[Want] = [Local(batch, s[1]) if s else REPLICATED for s in scaled]
    facts = [call.fact(EACH, None, i, value=a) for i, a in enumerate(outputs)]
    return call.decide(wants, *facts)


def _scaled(call: Call, sizes: list[Dim]) -> tuple[int, tuple[int, ...]] | None:
    """Which entries of a shape vector scale with a batch whose size is a symbol."""
    for batch in call.batches.roots():
        size = call.batches.size(batch)
        if isinstance(size, int):
            continue
        name = f"n{batch}"
        at = tuple(i for i, s in enumerate(sizes) if D.degree(s, name) == (1, 1))
        if at:
            return batch, at
    return None


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
