"""From a run signature to what the shadow graph runs for it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from whale.errors import PlanError
from whale.ir.program import Phase, Program, reachable
from whale.planner.cut import Choice, choose, repeat
from whale.planner.stage_checks import check_gradients
from whale.planner.task_graphs import summed_once
from whale.rewriter.arrivals import Arrival, count_arrivals
from whale.rewriter.collectives import check_collectives
from whale.rewriter.keys import KeyAllocator
from whale.rewriter.loop_checks import Unloopable
from whale.rewriter.lower import lower
from whale.rewriter.mesh import Feed, Lowered, Mesh
from whale.rewriter.outside import type_waits
from whale.rewriter.shadow import Shadow
from whale.runtime.description import plan_lines, uncut, why_not_again, why_whole
from whale.runtime.faults import TO_REPORT, told
from whale.runtime.fed_sizes import FedSizes, fed_sizes
from whale.runtime.options import Options
from whale.runtime.own_parallelism import already_parallel
from whale.runtime.pipelining import Pipelining
from whale.runtime.report import Report
from whale.runtime.signature import Run, Signature
from whale.runtime.subject import Subject, subject_of
from whale.runtime.whole_ops import whole_updates
from whale.sharding.draw_lengths import cut_again
from whale.sharding.held import Variables
from whale.sharding.propagate import Request, Source
from whale.sharding.sources import DRAWS


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
    fed: FedSizes = dataclasses.field(default_factory=FedSizes)
    """Sizes of fed values: for which of them this holds."""
    least: int = 0
    """Fewest samples that each fed batch must have: with fewer than copies a run is not cut."""
    pinned: bool = False
    """Whether it is right only for fed values of exactly these shapes."""
    fetches: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    feeds: tuple[Feed, ...] = ()
    mirrored: frozenset[str] = frozenset()
    observed: tuple[str, ...] = ()
    """Tensors that can be fetched without the rest of the run."""
    cut_dims: Mapping[str, int] = dataclasses.field(default_factory=dict[str, int])
    """By tensor where a batch enters: the dim that is cut."""
    sent: tuple[str, ...] = ()
    """Nodes that send random ops their inputs; a run that is not cut, or that observes, runs them besides."""
    mesh: Mesh | None = None
    """The copies, of a run that is cut."""
    approximate: bool = False
    """Whether the script chose to give up exactness somewhere."""
    arrival: Arrival | None = None
    """Counts the runs whose input has come, of a run that draws some."""


def prepare(
    program: Program,
    run: Run,
    shadow: Shadow,
    mesh: Mesh,
    keys: KeyAllocator,
    options: Options,
    number: int,
    like: Mapping[str, int] | None = None,
    merges: Mapping[str, str] = MappingProxyType({}),
    observe: Callable[[Sequence[str]], Sequence[str]] = lambda held: (),
    pipelining: Pipelining | None = None,
    variables: Variables | None = None,
) -> tuple[Prepared, Report]:
    """Analyses a run, decides whether to cut it, and adds what it needs to the shadow graph.

    What cannot be analysed or rewritten is not cut: the report says why, and the run is the user's own.

    Args:
        program: the user's.
        run: the kind of run.
        shadow: where nodes are added.
        mesh: the devices.
        keys: of collectives.
        options: modes.
        number: of the report.
        like: cut it as another run is, even if that pays little: by source, the dim.
        merges: how pieces of fetched tensors are merged, where not by joining them.
        observe: asked, for a run that trains, which of its tensors are to be observable, given those that it cuts and
            are held by the graph.
        pipelining: the stages, for a graph that has some.
        variables: which are trained; without it, data that the graph holds is no batch.

    Raises:
        PlanError: a run that trains a pipeline cannot be cut into micro-batches, or lacks gradients.
    """
    start = time.perf_counter()
    subject, whole_mesh = subject_of(program, run, mesh.local, variables, like), mesh
    if pipelining is not None:
        subject, mesh = _staged(subject, mesh, pipelining)

    if mesh.has_micro_batches:
        subject = subject.putting_off_updates(run)

    def stay(reason: str, small: bool = False, fed: FedSizes | None = None) -> tuple[Prepared, Report]:
        sent = senders(program, run.signature, shadow)
        prepared = Prepared(False, subject.written, small, subject.trains, fed or FedSizes(), sent=sent)
        renews = frozenset[str]() if subject.trains or not subject.written else subject.renewed(run)
        return prepared, Report(number, False, subject.trains, reason, renews=renews)

    copies = len(mesh.copies)
    backward = any(op.phase is Phase.BACKWARD for op in subject.ordered.ops)
    piped = pipelining if subject.trains and backward else None
    drawn = {s.tensor for s in subject.sources if mesh.local and s.tensor not in run.feeds}
    cut_once = [s for s in subject.sources if s.tensor not in drawn and piped is None]
    short = piped is not None or (subject.draws_alone and not mesh.local)
    # A batch of fewer samples than there are copies is then cut as well, and some pieces are empty.
    small = [s for s in cut_once if s.count is not None and s.count < copies and not short]
    sources = tuple(s for s in subject.sources if s not in small)
    if copies * mesh.micro_batches == 1 and mesh.pipeline is None:
        return stay("one device")
    parallel = already_parallel(subject.ordered.ops)
    if parallel:
        return stay(parallel)
    if not sources:
        # A source of one sample is no candidate; a later run of this kind may feed more.
        tiny = bool(small) or any(shape and shape[0] < copies for shape in run.shapes.values())
        few = "the batch has fewer samples than there are devices"
        if short:
            # A single row is one piece and empty ones. The plan for two rows serves it, where it serves any.
            wider = run.with_two_rows()
            if wider != run:
                prepared, report = prepare(
                    program,
                    wider,
                    shadow,
                    whole_mesh,
                    keys,
                    options,
                    number,
                    like,
                    merges,
                    observe,
                    pipelining,
                    variables,
                )
                if prepared.cut and not prepared.pinned:
                    return prepared, report
        if piped is not None:
            raise uncut(piped, _nothing_to_cut(subject, run, mesh.local))
        return stay(few if tiny else _nothing_to_cut(subject, run, mesh.local), tiny)
    try:
        asked = pipelining is None or pipelining.request.is_asked
        choice = _choose(subject, run, sources, mesh, options, like, asked, not short, tuple(small))
        analysed = time.perf_counter()
        fed = fed_sizes(choice.analysis, run.signature.feeds)
        if fed.clash is not None:
            one, other = fed.clash
            return stay(f"TensorFlow refuses what it is fed: sizes {one} and {other} meet", fed=fed)
        if not choice.worthwhile and like is None:
            if piped is not None:
                raise uncut(piped, why_whole(choice))
            return stay(why_whole(choice))
        again = cut_again(choice.analysis, choice.residence)
        if again is not None:
            if piped is not None:
                raise uncut(piped, why_not_again(again))
            return stay(why_not_again(again))
        kept = [source.tensor for source in choice.analysis.sources if source.held]
        seen = [subject.renamed.get(t, t) for t in observe(kept)] if subject.trains else []
        merged = {after: merges.get(name, "") for name, after in zip(run.signature.fetches, subject.fetches)}

        def lowered_on(mesh: Mesh) -> Lowered:
            return lower(
                subject.program,
                choice.analysis,
                choice.residence,
                shadow,
                mesh,
                keys,
                subject.fetches,
                subject.targets,
                dict(run.feeds),
                subject.user,
                "" if number == 1 else f"run_{number}/",
                merged,
                seen,
            )

        rolled = ""
        try:
            lowered = lowered_on(mesh)
        except Unloopable as why:
            assert pipelining is not None, "only micro-batches go through loops"
            shadow.discard()
            rolled, mesh = str(why), pipelining.unrolled(mesh)
            lowered = lowered_on(mesh)
        check_collectives(shadow, [*lowered.fetches, *lowered.targets], subject.program.ops)
        if lowered.observed:
            check_collectives(shadow, lowered.observed, subject.program.ops)
        emitted = time.perf_counter()
        added = shadow.flush()
        arrival = None
        if options.config.hang.seconds and any(type_waits(op.type) for op in subject.ordered.ops):
            roots = [*lowered.fetches, *lowered.targets]
            arrival = count_arrivals(shadow, roots, {feed.node for feed in lowered.feeds}, "/device:CPU:0")
            added += shadow.flush()
    except PlanError:
        raise
    except Exception as fault:  # a fault of ours must not take the user's training down
        shadow.discard()
        prepared, report = stay(told(fault))
        return prepared, dataclasses.replace(report, lines=(TO_REPORT,), fault=True)
    seconds = {"analyse": analysed - start, "lower": emitted - analysed, "import": time.perf_counter() - emitted}
    prepared = Prepared(
        True,
        lowered.home_writes,
        False,
        subject.trains,
        fed,
        0 if short else copies,
        bool(choice.analysis.batches.pinned),
        lowered.fetches,
        lowered.targets,
        lowered.feeds,
        lowered.mirrored,
        lowered.observed,
        {source.tensor: source.dim for source in choice.analysis.sources},
        lowered.sent,
        mesh,
        any(decision.approximate for decision in choice.analysis.decisions.values()),
        arrival,
    )
    reduced = sum(t.bytes for bucket in lowered.collectives for t in bucket)
    lines = plan_lines(choice, lowered, mesh, rolled)
    if options.config.communication.sparse_as_dense:
        lines = (
            *lines,
            "communication.sparse_as_dense: rows are sent all the same; the numbers are those of dense sums",
        )
    return prepared, Report(number, True, subject.trains, "", lines, seconds, added, reduced)


def _nothing_to_cut(subject: Subject, run: Run, local: bool) -> str:
    """Why there is no source in a run, with what is drawn of one row, as the script's shapes say."""
    said = "nothing is fed or drawn that can be cut"
    drawn = [op for op in subject.ordered.ops if op.type in DRAWS]
    components = [(t, kind.shape) for op in drawn for t, kind in zip(op.outputs_named(), op.outputs)]
    single = next((t for t, shape in components if shape and shape[0] == 1 and t not in run.feeds), None)
    if single is None:
        return said
    way = ": leave its number of rows open (no drop_remainder), and every replica draws its own" if local else ""
    return f"{said}; {single} always has one row, which the script's shapes do not tell from other dims of one{way}"


def senders(program: Program, signature: Signature, shadow: Shadow) -> tuple[str, ...]:
    """The nodes that send their inputs to the random ops that a run of the user's own ops reaches."""
    if not shadow.streams:
        return ()
    ops = reachable(program, signature.fetches, signature.targets, signature.feeds)
    return tuple(name for op in ops for name in shadow.streams.get(op.name, ()))


def _staged(subject: Subject, mesh: Mesh, pipelining: Pipelining) -> tuple[Subject, Mesh]:
    """A run of a pipeline: the ops that were written out of functions get phases and stages too."""
    forward = any(op.phase is Phase.FORWARD for op in subject.ordered.ops)
    if pipelining.staged and subject.sources and forward:
        check_gradients(subject.user, pipelining.stages, subject.written)
    if subject.program is subject.user:
        return subject, mesh
    completed, stages = pipelining.written_out(subject.program)
    user = subject.user.ops  # whose ops are told by identity
    own = {name: op if user.get(name) is op else completed.ops[name] for name, op in subject.program.ops.items()}
    ordered = dataclasses.replace(subject.ordered, ops=tuple(own[op.name] for op in subject.ordered.ops))
    if mesh.pipeline is not None:
        mesh = dataclasses.replace(mesh, pipeline=dataclasses.replace(mesh.pipeline, stages=stages))
    program = dataclasses.replace(completed, ops=own)
    return dataclasses.replace(subject, program=program, ordered=ordered), mesh


def _choose(
    subject: Subject,
    run: Run,
    sources: tuple[Source, ...],
    mesh: Mesh,
    options: Options,
    like: Mapping[str, int] | None,
    asked: bool,
    filled: bool,
    small: tuple[Source, ...],
) -> Choice:
    sync, mode = options.config.batch.sync, options.config.random.mode
    request = Request(
        subject.ordered,
        dict(run.feeds),
        # Between micro-batches exact statistics cost what a pipeline is for: where the script asks for these, they are
        # exact only where it asks for that as well.
        sync=not mesh.local and not (mesh.has_micro_batches and asked) if sync is None else bool(sync),
        independent=mode == "independent" or (not mode and mesh.local),
        shares=mesh.pieces,
        sure=subject.program is subject.user,
        whole_ops=whole_updates(subject, sources, run, mesh),
        drawn=frozenset(s.tensor for s in sources if mesh.local and s.tensor not in run.feeds),
        summed=summed_once(subject.ordered.ops, mesh.stage) if mesh.has_micro_batches else frozenset(),
        shapes=run.shapes,
        filled=filled,
    )
    shapes = subject.shapes(sources, run)
    if like is not None:
        return repeat(subject.program, request, sources, shapes, like)
    return choose(subject.program, request, sources, shapes, small)
