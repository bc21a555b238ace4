"""Which branch of a conditional each op is in."""

from __future__ import annotations

from collections.abc import Mapping

from whale.ir.program import split_tensor
from whale.sharding.order import MERGES, SWITCHES, Order


def branches(order: Order) -> Mapping[str, str]:
    """By op in a conditional: the Switch output that brings it to life, that of the innermost conditional.

    The Switches of loops do not count: what is in a loop lives as long as it.
    """
    found: dict[str, tuple[str, ...]] = {}
    if not any(op.type in SWITCHES for op in order.ops):
        return {}
    types = {op.name: op.type for op in order.ops}
    conditional = {
        op.name for op in order.ops if op.type in SWITCHES and types.get(split_tensor(op.inputs[1])[0]) != "LoopCond"
    }
    for op in order.ops:
        around: tuple[str, ...] = ()
        for tensor in op.inputs:
            name = split_tensor(tensor)[0]
            path = found.get(name, ())
            path = (*path, tensor) if name in conditional else path
            around = path if len(path) > len(around) else around
        for control in op.controls:
            path = found.get(control, ())
            around = path if len(path) > len(around) else around
        if op.type in MERGES:
            around = around[:-1]
        if around:
            found[op.name] = around
    return {name: path[-1] for name, path in found.items()}
