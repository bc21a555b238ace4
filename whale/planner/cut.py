"""Which sources of a run are cut, and on which dim.

Any choice is correct; they differ in how much of the work ends up on pieces. First all sources are cut on dim 0. Where
that leaves much work whole, each source in turn is tried on dim 1 (time-major inputs, fed-back states; not the
features of ``[None, 4]``: to cut those is not data parallelism, and pays little) and whole,
and a choice that puts clearly more work on pieces is kept. Sources of which no work is on pieces (a fed vector of
settings, taken apart one by one) are left whole. The search is greedy, at most ``2 x sources + 1`` propagations.

The work that counts is all that depends on a source, cut or not: what is left whole is done by every device.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from whale.ir import dims as D
from whale.ir.placement import EACH, PARTIAL, REPLICATED, Sharded
from whale.ir.program import Op, Phase, Program, TensorType, split_tensor
from whale.sharding.propagate import Analysis, Request, Source, propagate
from whale.sharding.residence import Residence, reside
from whale.sharding.rules.state import on_variable, writes_variable

ENOUGH = 0.5
"""Part of the batch's work that must be on pieces for a run to be cut."""

GOOD = 0.8
"""Part of the work on pieces with which the search is content."""

BETTER = 0.02
"""Part of the work that a choice must put on pieces beyond the one before it: sizes are guesses where they are not
known, and runs of one session should not be cut in different ways for nothing."""

_TYPICAL = 16
"""Stands for sizes that are not known before the run."""

_PASSES = frozenset({"Identity", "StopGradient", "Cast"})
"""Ops that hand a tensor on: to run them on pieces is no gain."""

_SIZES = frozenset({"Shape", "ShapeN", "Size", "Rank"})
"""Ops that read a tensor's shape alone: what is made of it is no work on the samples."""

_ROWS = {
    **{f"{order}Segment{kind}": 0 for order in ("", "Unsorted") for kind in ("Sum", "Prod", "Min", "Max", "Mean")},
    "ScatterNd": 1,
    "TensorScatterAdd": 2,
    "TensorScatterSub": 2,
    "TensorScatterUpdate": 2,
}
"""By type of the ops that put rows into a table: the input that holds these. The rows are the work, not the table."""


@dataclasses.dataclass(frozen=True)
class Left:
    """A source that is left whole."""

    tensor: str
    """The source."""
    reason: str
    """Why it is not cut."""
    culprit: Op | None = None
    """The op that would need it whole; ``declined`` says why."""
    declined: str = ""


@dataclasses.dataclass(frozen=True)
class Choice:
    """What is cut, and what comes of it."""

    analysis: Analysis
    """Where every tensor is."""
    residence: Residence
    """Where every op runs."""
    on_pieces: float
    """Part of the work that depends on a source, cut or not, and runs on pieces, 0 to 1."""
    worst: Op | None
    """The op that keeps most work whole."""
    left: tuple[Left, ...] = ()
    """The sources that are not cut."""

    @property
    def worthwhile(self) -> bool:
        """Whether enough of the work is on pieces."""
        return self.on_pieces >= ENOUGH


def choose(
    program: Program,
    request: Request,
    sources: tuple[Source, ...],
    shapes: Mapping[str, tuple[int | None, ...]],
    small: tuple[Source, ...] = (),
) -> Choice:
    """Finds what to cut.

    Args:
        program: the captured graph.
        request: ops and feeds of the run.
        sources: candidates, each on dim 0.
        shapes: sizes of the candidates' values where known (None for an unknown dim), by tensor.
        small: sources of fewer samples than there are devices, which are not cut.
    """
    every = frozenset(s.tensor for s in (*sources, *small))
    left = [Left(s.tensor, "it has fewer samples than there are devices") for s in small]
    best = attempt(program, request, sources, every)
    current = list(sources)
    idle = _idle(best, request)
    if idle:
        busy = [s for s in sources if s.tensor not in idle]
        found = attempt(program, request, tuple(busy), every)
        if busy and found.on_pieces >= best.on_pieces:
            left.extend(_left(t, "none of its work would be on pieces", idle[t], best) for t in idle)
            best, current = found, busy
    if best.on_pieces >= GOOD:
        return dataclasses.replace(best, left=tuple(left))
    for source in list(current):
        declared = request.feeds.get(source.tensor) or program.tensor(source.tensor)
        features = _has_features(declared)
        for option in _options(source, shapes.get(source.tensor, ()), declared):
            # What every copy draws for itself has no whole that is every copy's.
            if (features and option is not None) or (option is None and source.tensor in request.drawn):
                continue
            trial = [option if s.tensor == source.tensor else s for s in current]
            found = attempt(program, request, tuple(s for s in trial if s is not None), every)
            if found.on_pieces > best.on_pieces + BETTER:
                if option is None:
                    left.append(_left(source.tensor, "more work is on pieces without", best.worst, best))
                best, current = found, [s for s in trial if s is not None]
    if best.worst is None and left:
        best = dataclasses.replace(best, worst=left[-1].culprit)
    return dataclasses.replace(best, left=tuple(left))


def _left(tensor: str, reason: str, culprit: Op | None, before: Choice) -> Left:
    """A source left whole, with what the op at fault said where the source was cut."""
    declined = before.analysis.decisions[culprit.name].declined if culprit is not None else ""
    return Left(tensor, reason, culprit, declined)


def _idle(choice: Choice, request: Request) -> dict[str, Op | None]:
    """The sources of whose pieces nothing is computed, with the first op that takes each whole.

    What every copy draws for itself is none: there is no whole to leave it.
    """
    batches, facts = choice.analysis.batches, choice.analysis.facts
    busy: set[int] = set()
    takers: dict[int, Op] = {}
    for op in choice.analysis.order.ops:
        read = (facts[t].sharded for t in op.inputs if t in facts)
        roots = {batches.find(cut.batch) for cut in read if cut is not None}
        if _is_on_pieces(op, choice.analysis):
            busy.update(roots if op.type not in _PASSES and op.type not in _SIZES else ())
        elif choice.analysis.decisions[op.name].declined:
            for root in roots:
                takers.setdefault(root, op)
    found: dict[str, Op | None] = {}
    for source in choice.analysis.sources:
        cut = facts[source.tensor].sharded if source.tensor in facts else None
        if cut is not None and source.tensor not in request.drawn and batches.find(cut.batch) not in busy:
            found[source.tensor] = takers.get(batches.find(cut.batch))
    return found


def repeat(
    program: Program,
    request: Request,
    sources: tuple[Source, ...],
    shapes: Mapping[str, tuple[int | None, ...]],
    dims: Mapping[str, int],
) -> Choice:
    """Cuts what another choice cut: ``dims`` gives the dim by tensor, other candidates stay whole.

    For a run that computes part of what another does, and is to compute it alike.
    """
    chosen: list[Source] = []
    for source in sources:
        dim = dims.get(source.tensor)
        declared = request.feeds.get(source.tensor) or program.tensor(source.tensor)
        options = [source, *_options(source, shapes.get(source.tensor, ()), declared)]
        chosen.extend(option for option in options if option is not None and option.dim == dim)
    return attempt(program, request, tuple(chosen), frozenset(s.tensor for s in sources))


def _options(source: Source, shape: tuple[int | None, ...], declared: TensorType) -> list[Source | None]:
    options: list[Source | None] = []
    if len(shape) > 1 and shape[1] != 1:
        static = declared.shape[1] if declared.shape is not None else None
        options.append(dataclasses.replace(source, dim=1, static=static, count=shape[1]))
    options.append(None)
    return options


def _has_features(declared: TensorType) -> bool:
    """Whether a matrix has rows of features: real numbers, their count open and their length written in the script."""
    shape = declared.shape or ()
    real = declared.dtype.startswith(("float", "bfloat", "complex"))
    return real and len(shape) == 2 and shape[0] is None and shape[1] is not None


def attempt(program: Program, request: Request, sources: tuple[Source, ...], every: frozenset[str]) -> Choice:
    """Propagates one choice of sources; ``every`` names all that batches enter by, cut or not."""
    analysis = propagate(request, sources)
    return _rate(analysis, reside(program, analysis, request.feeds), every - {s.tensor for s in sources})


def _rate(analysis: Analysis, residence: Residence, whole_sources: frozenset[str]) -> Choice:
    """How much of the work that depends on a source is on pieces.

    An update is done once for all, however the batch is cut: what a variable holds afterwards is not counted on.
    """
    cut = whole = rest = 0.0
    blame: dict[str, Op | None] = {}
    """By op that runs whole and depends on samples: the op that needs them whole; None where the source is whole."""
    sums: dict[str, float] = {}
    for op in analysis.order.ops:
        if op.phase is Phase.UPDATE:
            continue
        if _is_on_pieces(op, analysis):
            cut += weight(op, analysis)
            continue
        rest += weight(op, analysis) if _computes(op) else 0.0
        came = [t for t in op.inputs if t in whole_sources or split_tensor(t)[0] in blame]
        if _gathers(op, analysis) and not any(split_tensor(t)[0] in blame for t in came):
            blame[op.name] = op
        elif came and op.type not in _SIZES:
            causes = (blame.get(split_tensor(t)[0]) for t in came)
            blame[op.name] = next((cause for cause in causes if cause is not None), None)
        else:
            continue
        work = weight(op, analysis)
        if writes_variable(op.type):
            known = [t for t in op.inputs if t in analysis.facts]
            rows = [_elements(analysis.facts[t].dims) for t in known if t in came or analysis.facts[t].sharded]
            work = min(work, max(rows, default=work))
        whole += work
        culprit = blame[op.name]
        if culprit is not None:
            sums[culprit.name] = sums.get(culprit.name, 0.0) + work
        if writes_variable(op.type):
            del blame[op.name]
    if all(source.held for source in analysis.sources):  # nothing says that this is a batch but the work it makes
        whole = rest
    worst = max(sums, key=lambda name: sums[name]) if sums else None
    by_name = {op.name: op for op in analysis.order.ops}
    share = cut / (cut + whole) if cut else 0.0
    return Choice(analysis, residence, share, by_name[worst] if worst is not None else None)


def _computes(op: Op) -> bool:
    """Whether an op is work for a batch: an update is not, nor what gives the value of a variable or constant."""
    return op.phase is not Phase.UPDATE and op.type not in ("Const", "Identity") and not on_variable(op.type)


def _is_on_pieces(op: Op, analysis: Analysis) -> bool:
    """Whether each copy computes a part of what an op makes."""
    placements = (analysis.facts[t].placement for t in op.outputs_named() if t in analysis.facts)
    return any(isinstance(p, Sharded) or p in (PARTIAL, EACH) for p in placements)


def _gathers(op: Op, analysis: Analysis) -> bool:
    """Whether an op has pieces put together, to run on the whole."""
    decision = analysis.decisions[op.name]
    wanted = zip(op.inputs, decision.wants)
    return decision.recipe == "copy" and any(w == REPLICATED and analysis.facts[t].sharded for t, w in wanted)


def weight(op: Op, analysis: Analysis) -> float:
    """A rough count of the work of an op: multiply-adds of products, elements of everything else."""
    total = 0.0
    for i in range(len(op.outputs)):
        fact = analysis.facts.get(op.output(i))
        total += _elements(fact.dims if fact is not None else None)
    if op.type in ("MatMul", "BatchMatMul", "BatchMatMulV2", "Einsum") or op.type.startswith(("Conv", "Depthwise")):
        inputs = [_elements(analysis.facts[t].dims) for t in op.inputs if t in analysis.facts]
        total += (total * max(inputs, default=1.0) * min(inputs, default=1.0)) ** 0.5
    rows = _ROWS.get(op.type)
    if rows is not None and op.inputs[rows] in analysis.facts:
        total = min(total, _elements(analysis.facts[op.inputs[rows]].dims))
    return total


def _elements(dims: tuple[D.Dim, ...] | None) -> float:
    if dims is None:
        return 1.0
    count = 1.0
    for dim in dims:
        known = dim if isinstance(dim, int) else D.evaluate(dim, {s: _TYPICAL for s in D.symbols_of(dim)})
        count *= max(known or 1, 1)
    return count
