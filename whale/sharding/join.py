"""The common placement of tensors that arrive over different paths."""

from __future__ import annotations

from collections.abc import Sequence

from whale.ir import dims as D
from whale.ir.dims import Dim
from whale.ir.placement import PARTIAL, REPLICATED, Placement, Sharded
from whale.sharding.batches import Batches
from whale.sharding.facts import Fact, PartDims


def join(a: Placement, b: Placement, a_zero: bool = False, b_zero: bool = False) -> Placement:
    """Where a tensor is that comes from ``a`` or ``b``.

    A whole value can be cut, so B with S is S; replicated zeros are partial, so B with P is P when B is zero; anything
    else that differs must be whole.
    """
    if a == b:
        return a
    for one, other, one_zero in ((a, b, a_zero), (b, a, b_zero)):
        if one == REPLICATED and isinstance(other, Sharded):
            return other
        if one == REPLICATED and other == PARTIAL and one_zero:
            return PARTIAL
    return REPLICATED


def common_dims(shapes: Sequence[PartDims], name: str) -> PartDims:
    """What is known of the sizes of a tensor that has one of several shapes; None where their ranks differ.

    A size that is one in some of them and another in others is named as such, after ``name``, which stands for the
    tensor: who meets it must be ready for both. Others that differ are None.
    """
    first = shapes[0]
    if first is None or any(s is None or len(s) != len(first) for s in shapes):
        return None
    merged: list[Dim | None] = []
    for dim, sizes in enumerate(zip(*(s for s in shapes if s is not None))):
        broadcast = any(size == 1 or (size is not None and D.is_either(size)) for size in sizes)
        other = D.either(f"{name}[{dim}]") if broadcast else None
        merged.append(sizes[0] if len(set(sizes)) == 1 else other)
    return tuple(merged)


def spans(batches: Batches, fact: Fact, cut: Sharded, carried: bool) -> bool:
    """Whether a whole value that arrives where others are cut has the samples of the cut, so that it can be cut too.

    What a loop carries keeps its sizes from one iteration to the next: open ones are taken to be the cut's. Branches
    of a conditional may well differ in size, so of these it must be known.
    """
    if fact.dims is None or cut.dim >= len(fact.dims):
        return False
    size = fact.dims[cut.dim]
    expected = D.multiply(D.multiply(cut.outer, cut.inner), batches.size(cut.batch))
    if size == expected or not carried:
        return size == expected
    if isinstance(size, int):
        if cut.plain and size > 1:
            batches.fix(cut.batch, size)
        return size == D.multiply(D.multiply(cut.outer, cut.inner), batches.size(cut.batch))
    batches.equate(size, expected)
    return True
