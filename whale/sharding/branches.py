"""Which branch of a conditional each op is in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from whale.ir.program import split_tensor
from whale.sharding.order import BACK_EDGES, MERGES, SWITCHES, Order


def _path(tensor: str, found: Mapping[str, tuple[str, ...]], conditional: set[str]) -> tuple[str, ...]:
    """The branches that a tensor is there in, outermost first."""
    name = split_tensor(tensor)[0]
    path = found.get(name, ())
    return (*path, tensor) if name in conditional else path


def _shared(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The beginning that several paths have in common."""
    shared: list[str] = []
    for steps in zip(*paths):
        if len(set(steps)) > 1:
            break
        shared.append(steps[0])
    return tuple(shared)


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
        forward = [tensor for tensor in op.inputs if types.get(split_tensor(tensor)[0]) not in BACK_EDGES]
        arriving = [_path(tensor, found, conditional) for tensor in forward]
        if op.type in MERGES:  # it closes every branch that one of its inputs comes from and another does not
            around = _shared(arriving)
        else:
            around = max([*arriving, *(found.get(control, ()) for control in op.controls)], key=len, default=())
        if around:
            found[op.name] = around
    return {name: path[-1] for name, path in found.items()}
