"""Which sources of a run are cut, and on which dim.

Any choice is correct; they differ in how much of the work ends up on pieces. First all sources are cut on dim 0. Where
that leaves much work whole, each source in turn is tried on dim 1 (time-major inputs, fed-back states; not the
features of ``[None, 4]``: to cut those is not data parallelism, and pays little) and whole,
and a choice that puts clearly more work on pieces is kept. The search is greedy, at most ``2 x sources + 1``
propagations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from whale.ir import dims as D
from whale.ir.placement import EACH, PARTIAL, REPLICATED, Sharded
from whale.ir.program import Op, Phase, Program, TensorType, split_tensor
from whale.sharding.propagate import Analysis, Request, Source, propagate
from whale.sharding.residence import Residence, reside
from whale.sharding.rules.state import on_variable

ENOUGH = 0.5
"""Part of the batch's work that must be on pieces for a run to be cut."""

GOOD = 0.8
"""Part of the work on pieces with which the search is content."""

BETTER = 0.02
"""Part of the work that a choice must put on pieces beyond the one before it: sizes are guesses where they are not
known, and runs of one session should not be cut in different ways for nothing."""

_TYPICAL = 16
"""Stands for sizes that are not known before the run."""


@dataclasses.dataclass(frozen=True)
class Choice:
    """What is cut, and what comes of it."""

    analysis: Analysis
    """Where every tensor is."""
    residence: Residence
    """Where every op runs."""
    on_pieces: float
    """Part of the work that depends on the batch and runs on pieces, 0 to 1."""
    worst: Op | None
    """The op that keeps most work whole."""

    @property
    def worthwhile(self) -> bool:
        """Whether enough of the work is on pieces."""
        return self.on_pieces >= ENOUGH


def choose(
    program: Program, request: Request, sources: tuple[Source, ...], shapes: Mapping[str, tuple[int | None, ...]]
) -> Choice:
    """Finds what to cut.

    Args:
        program: the captured graph.
        request: ops and feeds of the run.
        sources: candidates, each on dim 0.
        shapes: sizes of the candidates' values where known (None for an unknown dim), by tensor.
    """
    best = attempt(program, request, sources)
    if best.on_pieces >= GOOD:
        return best
    current = list(sources)
    for source in sources:
        declared = request.feeds.get(source.tensor) or program.tensor(source.tensor)
        features = _has_features(declared)
        for option in _options(source, shapes.get(source.tensor, ()), declared):
            if features and option is not None:
                continue
            trial = [option if s.tensor == source.tensor else s for s in current]
            found = attempt(program, request, tuple(s for s in trial if s is not None))
            if found.on_pieces > best.on_pieces + BETTER:
                best, current = found, [s for s in trial if s is not None]
    return best


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
    return attempt(program, request, tuple(chosen))


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


def attempt(program: Program, request: Request, sources: tuple[Source, ...]) -> Choice:
    """Propagates one choice of sources."""
    analysis = propagate(request, sources)
    return _rate(analysis, reside(program, analysis, request.feeds))


def _rate(analysis: Analysis, residence: Residence) -> Choice:
    """How much of the work that depends on the batch is on pieces."""
    cut = whole = rest = 0.0
    tainted: set[str] = set()
    worst: tuple[float, Op | None] = (0.0, None)
    blame: dict[str, Op] = {}
    for op in analysis.order.ops:
        if op.phase is Phase.UPDATE:  # once for all, however the batch is cut
            continue
        decision = analysis.decisions[op.name]
        if any(
            isinstance(analysis.facts[t].placement, Sharded) or analysis.facts[t].placement in (PARTIAL, EACH)
            for t in op.outputs_named()
            if t in analysis.facts
        ):
            cut += weight(op, analysis)
            continue
        rest += weight(op, analysis) if _computes(op) else 0.0
        culprit = next((blame[split_tensor(t)[0]] for t in op.inputs if split_tensor(t)[0] in tainted), None)
        gathers = any(
            w == REPLICATED and isinstance(analysis.facts[t].placement, Sharded)
            for t, w in zip(op.inputs, decision.wants)
        )
        if culprit is None and gathers and decision.recipe == "copy":
            culprit = op
        if culprit is not None:
            tainted.add(op.name)
            blame[op.name] = culprit
            whole += weight(op, analysis)
    sums: dict[str, float] = {}
    for name in tainted:
        sums[blame[name].name] = sums.get(blame[name].name, 0.0) + weight(_op(analysis, name), analysis)
    if sums:
        name = max(sums, key=lambda n: sums[n])
        worst = (sums[name], _op(analysis, name))
    if all(source.held for source in analysis.sources):  # nothing says that this is a batch but the work it makes
        whole = rest
    share = cut / (cut + whole) if cut else 0.0
    return Choice(analysis, residence, share, worst[1])


def _computes(op: Op) -> bool:
    """Whether an op is work for a batch: an update is not, nor what gives the value of a variable or constant."""
    return op.phase is not Phase.UPDATE and op.type not in ("Const", "Identity") and not on_variable(op.type)


def _op(analysis: Analysis, name: str) -> Op:
    return next(op for op in analysis.order.ops if op.name == name)


def weight(op: Op, analysis: Analysis) -> float:
    """A rough count of the work of an op: multiply-adds of products, elements of everything else."""
    total = 0.0
    for i in range(len(op.outputs)):
        fact = analysis.facts.get(op.output(i))
        total += _elements(fact.dims if fact is not None else None)
    if op.type in ("MatMul", "BatchMatMul", "BatchMatMulV2", "Einsum") or op.type.startswith(("Conv", "Depthwise")):
        inputs = [_elements(analysis.facts[t].dims) for t in op.inputs if t in analysis.facts]
        total += (total * max(inputs, default=1.0) * min(inputs, default=1.0)) ** 0.5
    return total


def _elements(dims: tuple[D.Dim, ...] | None) -> float:
    if dims is None:
        return 1.0
    count = 1.0
    for dim in dims:
        known = dim if isinstance(dim, int) else D.evaluate(dim, {s: _TYPICAL for s in D.symbols_of(dim)})
        count *= max(known or 1, 1)
    return count
