"""A cut run in words."""

from __future__ import annotations

from whale.errors import PlanError
from whale.ir.program import Op, Phase
from whale.planner.cut import Choice, Left
from whale.rewriter.mesh import Lowered, Mesh
from whale.runtime.pipeline_text import order_lines, pipeline_lines
from whale.runtime.pipelining import Pipelining
from whale.sharding.order import ENTERS, Order
from whale.sharding.rules.source import RANDOM


def why_whole(choice: Choice) -> str:
    """Why too little of a run is on pieces, naming the op that keeps most of it whole."""
    if all(source.held for source in choice.analysis.sources):
        return "nothing is fed or drawn that can be cut, and little of the work reads data that the graph holds"
    worst = choice.worst
    if worst is None:
        return "no work depends on the batch"
    decision = choice.analysis.decisions[worst.name]
    reason = decision.declined or "it needs the whole batch"
    return f"{worst.described()}: {reason}"


def why_not_again(op: Op) -> str:
    """Why a run cannot be cut that takes padded draws apart again."""
    return (
        f"{op.described()}: it needs the draws of all replicas together, and each may be padded to a length of its own"
    )


def _why_left(left: Left) -> str:
    """Why a source is left whole."""
    if left.culprit is None:
        return left.reason
    return f"{left.reason} ({left.culprit.described()}: {left.declined or 'it needs the whole batch'})"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def uncut(pipelining: Pipelining, reason: str) -> PlanError:
    """The error for a training step that cannot be taken apart into micro-batches."""
    request, stages = pipelining.request, pipelining.stages
    named = ", ".join(stages.title(number) for number in range(len(stages.stages))) if pipelining.staged else ""
    return PlanError(
        f"the batch cannot be cut into {request.micro_batches} micro-batches"
        + (f" for {named}" if named else "")
        + f": {reason}",
        site=request.site,
        fix="write that part sample by sample, with the batch on the first dim of what is fed or drawn, or do without "
        "micro-batches",
    )


def _copies(mesh: Mesh) -> list[str]:
    """The copies of a step in words."""
    if mesh.pipeline is not None and len(mesh.pipeline.stages.stages) > 1:
        return pipeline_lines(mesh.pipeline, mesh.local)
    micro = mesh.pipeline.micro_batches if mesh.pipeline is not None else mesh.micro_batches
    devices = mesh.all_devices
    shares = mesh.shares[:: len(mesh.shares) // len(devices)]
    drawn = f"{micro} batches" if micro > 1 else "its own"
    lines = [
        f"batch: local, every replica draws {drawn}" if mesh.local else "batch: global, the script's batch is cut",
        f"{_plural(len(devices), 'replica')} on {', '.join(devices)}, shares {':'.join(str(s) for s in shares)}",
    ]
    if micro > 1:
        runs = f" (EPL needs {micro})" if mesh.local else ""
        lines.append(f"gradients of {micro} micro-batches are accumulated; one run is one update{runs}")
    return lines


def _drawn_in_any_order(order: Order) -> Op | None:
    """A random op in a loop of which TensorFlow runs several turns at a time."""
    parallel = {
        op.attrs.get("frame_name") for op in order.ops if op.type in ENTERS and op.attrs.get("parallel_iterations") != 1
    }
    random = (op for op in order.ops if op.type in RANDOM)
    return next((op for op in random if not parallel.isdisjoint(order.frame(op.name))), None)


def plan_lines(choice: Choice, lowered: Lowered, mesh: Mesh, unrolled: str = "") -> tuple[str, ...]:
    """What is parallel, where, and whether it is exact; ``unrolled`` says why micro-batches go through no loop."""
    analysis = choice.analysis
    lines = [
        *_copies(mesh),
        "batch cut: " + ", ".join(f"{s.tensor} on dim {s.dim}" for s in analysis.sources),
        f"{choice.on_pieces:.1%} of the batch's work on pieces",
    ]
    if lowered.collectives:
        count = sum(len(b) for b in lowered.collectives)
        total = sum(t.bytes for b in lowered.collectives for t in b)
        buckets = len(lowered.collectives)
        lines.append(f"all-reduce: {_plural(count, 'tensor')} in {_plural(buckets, 'bucket')}, {total} bytes")
    if lowered.order is not None and not unrolled:
        lines.extend(order_lines(lowered.order))
    if lowered.loops is not None and lowered.loops.count > 1:
        again = _plural(lowered.loops.again, "node")
        lines.append(
            f"{lowered.loops.count} loops over micro-batches, as sums are read on the way: {again} computed again"
        )
    if unrolled:
        lines.append(f"a copy of the graph per micro-batch, no loop: {unrolled}")
    lines.extend(f"whole: {left.tensor} is not cut: {_why_left(left)}" for left in choice.left)
    whole = [(op, analysis.decisions[op.name]) for op in analysis.order.ops]
    for op, decision in whole:
        if decision.declined and op.phase is not Phase.UPDATE:
            lines.append(f"whole: {op.described()}: {decision.declined}")
    unordered = _drawn_in_any_order(analysis.order)
    if unordered is not None:
        lines.append(
            f"{unordered.described()} draws in a loop, whose turns take the numbers in no fixed order, on one device "
            "too (parallel_iterations = 1 of the loop fixes it)"
        )
    rough = sorted({d.approximate for _, d in whole if d.approximate})
    lines.extend(f"approximate: {text}" for text in rough)
    if not rough:
        lines.append("exact: equals one device up to rounding")
    return tuple(lines)
