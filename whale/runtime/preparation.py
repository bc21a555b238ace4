"""From a run signature to what the shadow graph runs for it."""

from __future__ import annotations

import dataclasses
import time

from whale import _tf
from whale.annotations.inline import function_ops, inline
from whale.errors import VerifyError
from whale.ir.program import Op, Program, reachable, split_tensor
from whale.planner.cut import Choice, choose
from whale.rewriter.keys import KeyAllocator
from whale.rewriter.lower import Feed, Lowered, Mesh, lower
from whale.rewriter.shadow import Shadow
from whale.runtime.options import Options
from whale.runtime.own_parallelism import already_parallel
from whale.runtime.report import Report
from whale.runtime.signature import Run
from whale.sharding.order import Order, order
from whale.sharding.propagate import Request
from whale.sharding.rules.state import holder_of, writes_variable
from whale.sharding.sources import candidates


FUNCTIONAL = frozenset(
    {
        "While",
        "StatelessWhile",
        "If",
        "StatelessIf",
        "Case",
        "StatelessCase",
        "PartitionedCall",
        "StatefulPartitionedCall",
    }
)
"""Ops that run functions of the graph's library."""


@dataclasses.dataclass(frozen=True)
class Prepared:
    """How one kind of run is executed."""

    cut: bool
    """Whether it runs on pieces; else the user's own fetches, feeds and targets are run."""
    writes: frozenset[str]
    """Variables that only home holds the new value of afterwards."""
    small: bool = False
    """Whether it is not cut because its batch is too small."""
    trains: bool = False
    """Whether it updates variables from gradients."""
    groups: tuple[tuple[tuple[str, int], ...], ...] = ()
    """Fed tensors and dims that are cut together: they must agree in size."""
    pinned: bool = False
    """Whether it is right only for fed values of exactly these shapes."""
    fetches: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    feeds: tuple[Feed, ...] = ()
    mirrored: frozenset[str] = frozenset()


def prepare(
    program: Program, run: Run, shadow: Shadow, mesh: Mesh, keys: KeyAllocator, options: Options, number: int
) -> tuple[Prepared, Report]:
    """Analyses a run, decides whether to cut it, and adds what it needs to the shadow graph."""
    start = time.perf_counter()
    signature, user = run.signature, program
    ops = reachable(program, signature.fetches, signature.targets, signature.feeds)
    program, fetches, targets = _without_functions(program, run, ops)
    if program is not user:
        ops = reachable(program, fetches, targets, signature.feeds)
    ordered = order(ops, frozenset(signature.feeds))
    written = frozenset(_written(program, ordered))
    sources = tuple(candidates(ordered, run.feeds, run.shapes))
    trains = bool(written) and (bool(sources) or any(_applies(o) for o in ops))

    def stay(reason: str, small: bool = False) -> tuple[Prepared, Report]:
        return Prepared(False, written, small, trains), Report(number, False, trains, reason)

    if len(mesh.devices) == 1:
        return stay("one device")
    parallel = already_parallel(ops)
    if parallel:
        return stay(parallel)
    small = [s for s in sources if s.count is not None and s.count < len(mesh.devices)]
    sources = tuple(s for s in sources if s not in small)
    if not sources:
        if small:
            return stay("the batch has fewer samples than there are devices", small=True)
        return stay("nothing is fed or drawn that can be cut")
    sync, mode = options.config.batch.sync, options.config.random.mode
    request = Request(
        ordered,
        dict(run.feeds),
        sync=not mesh.local if sync is None else bool(sync),
        independent=mode == "independent" or (not mode and mesh.local),
    )
    shapes = {s.tensor: run.shapes.get(s.tensor) or _shape(program, s.tensor) for s in sources}
    choice = choose(program, request, sources, shapes)
    analysed = time.perf_counter()
    if not choice.worthwhile:
        return stay(_why_whole(choice))
    try:
        lowered = lower(
            program,
            choice.analysis,
            choice.residence,
            shadow,
            mesh,
            keys,
            fetches,
            targets,
            dict(run.feeds),
            user,
            "" if number == 1 else f"run_{number}/",
        )
    except (VerifyError, AssertionError) as fault:
        shadow.discard()
        return stay(f"it cannot be rewritten: {fault}")
    emitted = time.perf_counter()
    added = shadow.flush()
    seconds = {"analyse": analysed - start, "lower": emitted - analysed, "import": time.perf_counter() - emitted}
    prepared = Prepared(
        True,
        lowered.home_writes,
        False,
        trains,
        _groups(choice, run),
        bool(choice.analysis.batches.pinned),
        lowered.fetches,
        lowered.targets,
        lowered.feeds,
        lowered.mirrored,
    )
    reduced = sum(t.bytes for bucket in lowered.collectives for t in bucket)
    return prepared, Report(number, True, trains, "", _lines(choice, lowered, mesh), seconds, added, reduced)


def _without_functions(
    program: Program, run: Run, ops: tuple[Op, ...]
) -> tuple[Program, tuple[str, ...], tuple[str, ...]]:
    """The program with functional control flow written out, and what is then fetched and run."""
    signature = run.signature
    fed = {split_tensor(t)[0] for t in signature.feeds}
    names = [n for n in function_ops(program, ops) if n not in fed] if any(_is_function(o) for o in ops) else []
    if not names:
        return program, signature.fetches, signature.targets
    inlined = inline(program, names)
    fetches = tuple(inlined.tensors.get(t, t) for t in signature.fetches)
    targets = tuple(inlined.ops.get(t, t) for t in signature.targets)
    return inlined.program, fetches, targets


def _is_function(op: Op) -> bool:
    return op.type in FUNCTIONAL or _tf.op_definition(op.type) is None


def _applies(op: Op) -> bool:
    return op.type.startswith(("Apply", "ResourceApply", "SparseApply", "ResourceSparseApply"))


def _groups(choice: Choice, run: Run) -> tuple[tuple[tuple[str, int], ...], ...]:
    """Fed sources by batch."""
    groups: dict[int, list[tuple[str, int]]] = {}
    batches = choice.analysis.batches
    for number, source in enumerate(choice.analysis.sources):
        if source.tensor in run.feeds:
            groups.setdefault(batches.find(number), []).append((source.tensor, source.dim))
    return tuple(tuple(g) for g in groups.values())


def _shape(program: Program, tensor: str) -> tuple[int | None, ...]:
    return program.tensor(tensor).shape or ()


def _written(program: Program, ordered: Order) -> list[str]:
    found = []
    for op in ordered.ops:
        if writes_variable(op.type) and op.inputs:
            holder = holder_of(program.ops, op.inputs[0])
            if holder is not None:
                found.append(holder)
    return found


def _why_whole(choice: Choice) -> str:
    worst = choice.worst
    if worst is None:
        return "no work depends on the batch"
    decision = choice.analysis.decisions[worst.name]
    reason = decision.declined or "it needs the whole batch"
    return f"{_where(worst)}: {reason}"


def _where(op: Op) -> str:
    return f"{op.type} '{op.name}'" + (f" at {op.site}" if op.site else "")


def _lines(choice: Choice, lowered: Lowered, mesh: Mesh) -> tuple[str, ...]:
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
        lines.append(f"all-reduce: {count} tensors in {len(lowered.collectives)} buckets, {total} bytes")
    whole = [(op, analysis.decisions[op.name]) for op in analysis.order.ops]
    for op, decision in whole:
        if decision.declined:
            lines.append(f"whole: {_where(op)}: {decision.declined}")
    rough = sorted({d.approximate for _, d in whole if d.approximate})
    lines.extend(f"approximate: {text}" for text in rough)
    if not rough:
        lines.append("exact: equals one device up to rounding")
    return tuple(lines)
