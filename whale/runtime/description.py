"""A cut run in words."""

from __future__ import annotations

from whale.ir.program import Op
from whale.planner.cut import Choice
from whale.rewriter.mesh import Lowered, Mesh


def why_whole(choice: Choice) -> str:
    """Why too little of a run is on pieces, naming the op that keeps most of it whole."""
    worst = choice.worst
    if worst is None:
        return "no work depends on the batch"
    decision = choice.analysis.decisions[worst.name]
    reason = decision.declined or "it needs the whole batch"
    return f"{_where(worst)}: {reason}"


def _where(op: Op) -> str:
    return f"{op.type} '{op.name}'" + (f" at {op.site}" if op.site else "")


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def plan_lines(choice: Choice, lowered: Lowered, mesh: Mesh) -> tuple[str, ...]:
    """What is parallel, where, and whether it is exact."""
    analysis = choice.analysis
    lines = [
        "batch: local, every replica draws its own" if mesh.local else "batch: global, the script's batch is cut",
        f"{len(mesh.devices)} replicas on {', '.join(mesh.devices)}, shares {':'.join(str(s) for s in mesh.shares)}",
        "batch cut: " + ", ".join(f"{s.tensor} on dim {s.dim}" for s in analysis.sources),
        f"{choice.on_pieces:.1%} of the batch's work on pieces",
    ]
    if lowered.collectives:
        count = sum(len(b) for b in lowered.collectives)
        total = sum(t.bytes for b in lowered.collectives for t in b)
        buckets = len(lowered.collectives)
        lines.append(f"all-reduce: {_plural(count, 'tensor')} in {_plural(buckets, 'bucket')}, {total} bytes")
    whole = [(op, analysis.decisions[op.name]) for op in analysis.order.ops]
    for op, decision in whole:
        if decision.declined:
            lines.append(f"whole: {_where(op)}: {decision.declined}")
    rough = sorted({d.approximate for _, d in whole if d.approximate})
    lines.extend(f"approximate: {text}" for text in rough)
    if not rough:
        lines.append("exact: equals one device up to rounding")
    return tuple(lines)
