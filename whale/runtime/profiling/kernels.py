"""Measured times of nodes beside what the cost model has for them.

TensorFlow runs another graph than the script's: its graph optimizers fuse, fold and rename. A node that has the name of
an op is that op, even where its type changed. A node of a fused type (``_FusedMatMul``) stands for the op of its name
and for those before it that were not run themselves: the product, its bias, its activation. An op that was neither run
nor fused was removed; nodes of other names were made by the optimizers.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Mapping, Sequence

from whale.cost_model.block import Work
from whale.cost_model.calibration import Kernel
from whale.cost_model.fusion import Fusion, Placement, kernels
from whale.cost_model.tensors import Tensors
from whale.ir.cost import Kind
from whale.ir.program import Op, Phase, Program, split_tensor
from whale.runtime.profiling.trace import Span, Trace, busy_seconds, seconds_of_each


@dataclasses.dataclass(frozen=True)
class StepParts:
    """Where the time of a traced step went, in seconds: medians over the steps."""

    kernels: tuple[Kernel, ...]
    """The ops that the cost model counts."""
    between: float
    """Between the first and the last of them, when none ran and no input was waited for."""
    launch: float
    """In which the host handed nodes to the device; on a CPU all of the step."""
    handing: float
    """The executor's own time for one node."""
    other: float
    """Of nodes that the cost model does not count: of shapes, constants, and those that graph optimizers made."""
    removed: tuple[tuple[str, Work], ...]
    """Ops that the cost model counts and TensorFlow did not run, with what it counts for them."""


def work_of(tensors: Tensors) -> dict[str, Work]:
    """What the cost model has for each op of a step that it counts, by the op's name."""
    phases = (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE)
    counted = [op.name for op in tensors.ops if op.phase in phases and tensors.costs[op.name].kind is not Kind.NONE]
    placement = Placement(dict.fromkeys(counted, 0), frozenset(), frozenset())
    return {name: work for name, (_, work) in zip(counted, kernels(tensors, placement, Fusion.NONE))}


def take_apart(program: Program, work: Mapping[str, Work], traces: Sequence[Trace]) -> StepParts:
    """The parts of a step.

    Args:
        program: the captured graph, with phases.
        work: what the cost model counts (``work_of``).
        traces: traced steps.
    """
    types = {span.node: span.type for trace in traces for span in trace.host}
    ran = {span.node for trace in traces for span in trace.kernels}
    members = _members(program, work, types, ran)
    parts = [_parts(trace, members, program) for trace in traces]
    found: list[Kernel] = []
    for name, ops in members.items():
        seconds = statistics.median(p.seconds.get(name, 0.0) for p in parts)
        runs = statistics.median(p.runs.get(name, 0) for p in parts)
        if seconds > 0 and runs >= 1:
            op = program.ops[name]
            source = program.ops.get(op.forward or "", op)
            kind, counted = types.get(name) or op.type, tuple(work[o] for o in ops)
            found.append(Kernel(name, kind, counted, seconds / runs, runs, source.site))
    there = {op for ops in members.values() for op in ops}
    return StepParts(
        kernels=tuple(found),
        between=statistics.median(p.between for p in parts),
        launch=statistics.median(busy_seconds(_launches(program, trace)) for trace in traces),
        handing=statistics.median([s.handing for t in traces for s in t.host if s.node in members] or [0.0]),
        other=statistics.median(p.other for p in parts),
        removed=tuple((name, each) for name, each in work.items() if name not in there),
    )


def _members(
    program: Program, work: Mapping[str, Work], types: Mapping[str, str], ran: Iterable[str]
) -> dict[str, list[str]]:
    """The counted ops that each node which ran stands for; nodes without any are left out."""
    executed = set(ran) | set(types)
    found: dict[str, list[str]] = {}
    for name in ran:
        op = program.ops.get(name)
        if op is None:
            continue
        ops = [name]
        if "Fused" in types.get(name, "") and "Fused" not in op.type:
            ops = _fused(program, op, executed)
        counted = [o for o in ops if o in work]
        if counted:
            found[name] = counted
    return found


def _fused(program: Program, op: Op, executed: set[str]) -> list[str]:
    """An op and those before it that did not run themselves."""
    found = [op.name]
    for name in found:
        for tensor in program.ops[name].inputs:
            before = split_tensor(tensor)[0]
            if before not in executed and before not in found and program.ops[before].phase is op.phase:
                found.append(before)
    return found


@dataclasses.dataclass(frozen=True)
class _Parts:
    """Of one traced step."""

    seconds: dict[str, float]
    """Of each counted node."""
    runs: dict[str, int]
    between: float
    other: float


def _parts(trace: Trace, members: Mapping[str, list[str]], program: Program) -> _Parts:
    counted = [span for span in trace.kernels if span.node in members]
    others = [span for span in trace.kernels if span.node not in members]
    inputs = [span for span in others if _is_input(program, span)]
    runs: dict[str, int] = {}
    for span in trace.host:
        if span.node in members:
            runs[span.node] = runs.get(span.node, 0) + 1
    seconds = seconds_of_each(counted)
    between = 0.0
    if counted:
        start, end = min(s.start for s in counted), max(s.end for s in counted)
        waits = [Span("", "", max(s.start, start), min(s.end, end)) for s in inputs if s.start < end and s.end > start]
        between = end - start - busy_seconds([*counted, *waits])
    return _Parts(seconds, runs, between, busy_seconds([*counted, *others]) - busy_seconds(counted))


def _launches(program: Program, trace: Trace) -> list[Span]:
    """What the host did for the device's nodes, but for those that wait for input or for another device."""
    return [span for span in trace.host if span.type not in _WAITING and not _is_input(program, span)]


_WAITING = frozenset({"_Recv", "_HostRecv", "_Send", "_HostSend", ""})
"""Transfers between devices; TensorFlow's transfers have no type in a trace."""


def _is_input(program: Program, span: Span) -> bool:
    op = program.ops.get(span.node)
    return op is not None and op.phase is Phase.INPUT
