"""The forward op of each op of the backward pass."""

from __future__ import annotations

from whale.annotations.op_kinds import SHAPES
from whale.ir.flow import Flow
from whale.ir.program import Op, Phase


def forward_ops(edges: Flow, phases: dict[str, Phase]) -> dict[str, str]:
    """The forward op of each op of the backward pass: as noted, else as structure says, else as its neighbours'."""
    backward = [op for op in edges.order if phases[op.name] is Phase.BACKWARD]
    found: dict[str, str] = {}
    for op in backward:
        forward = op.forward if op.forward in edges.ops else _counterpart(edges, phases, op)
        if forward is not None:
            found[op.name] = forward
    # Loops close upon themselves, so one sweep each way is not always enough.
    missing = [op.name for op in backward if op.name not in found]
    before = -1
    while missing and len(missing) != before:
        before = len(missing)
        for neighbours, names_left in ((edges.producers, missing), (edges.readers, missing[::-1])):
            for name in names_left:
                inherited = next((found[other] for other in neighbours[name] if other in found), None)
                if name not in found and inherited is not None:
                    found[name] = inherited
        missing = [name for name in missing if name not in found]
    return found


def _counterpart(edges: Flow, phases: dict[str, Phase], op: Op) -> str | None:
    """The forward op that an op without a note is the gradient of, by the values it reads of the forward pass.

    It is one that makes or reads such a value, and whose type its own type begins with (ReluGrad of Relu); else, the
    one that makes the value.
    """
    if op.forward is not None or op.type in SHAPES:
        return None
    made: str | None = None
    for name in edges.producers[op.name]:
        if phases[name] not in (Phase.FORWARD, Phase.INPUT):
            continue
        for candidate in (name, *edges.readers[name]):
            other = edges.ops[candidate].type.rstrip("V23")
            if phases[candidate] is Phase.FORWARD and op.type.startswith(other):
                return candidate
        if made is None and phases[name] is Phase.FORWARD and edges.producers[name]:
            made = name
    return made
