"""The common placement of tensors that arrive over different paths."""

from __future__ import annotations

from whale.ir.placement import PARTIAL, REPLICATED, Placement, Sharded


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
