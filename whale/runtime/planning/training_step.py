"""A training step of a captured graph as the planner sees it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

import tensorflow.compat.v1 as tf

from whale.annotations.op_kinds import is_source
from whale.annotations.state import annotations_of
from whale.annotations.strategies import Kind
from whale.annotations.variables import tabulate, trainable_names, variables_in
from whale.cost_model import Chain, build_chain
from whale.cost_model.curve import grows
from whale.cost_model.tensors import Tensors
from whale.errors import PlanError, nearest
from whale.ir import dims as D
from whale.ir.plan import graph_print
from whale.ir.program import Op, Phase, Program, reachable, split_tensor
from whale.ir.task_graphs import PipelineRequest, TaskGraphs
from whale.planner.cut import Choice, choose
from whale.planner.stage_checks import check
from whale.planner.task_graphs import assign
from whale.runtime.description import why_whole
from whale.runtime.options import Options
from whale.runtime.own_parallelism import already_parallel
from whale.runtime.pipelining import requested
from whale.runtime.planning.batch_size import stated_batch
from whale.runtime.signature import Run
from whale.runtime.subject import Subject, subject_of
from whale.sharding.propagate import Request


@dataclasses.dataclass(frozen=True)
class Given:
    """Sizes that the graph does not say."""

    batch_size: int | None = None
    """Samples of a batch of the script."""
    sizes: Mapping[str, int] = dataclasses.field(default_factory=dict[str, int])
    """Other open sizes by name: ``tensor[dim]``, such as ``IteratorGetNext:0[1]``."""
    assumed_batch: int | None = None
    """Used, and said, where nothing tells the batch size."""
    assumes_feeds: bool = False
    """Whether the sizes of what is fed are assumptions as well."""
    assumed_size: int | None = None
    """The same for other open sizes of inputs."""


@dataclasses.dataclass(frozen=True)
class TrainingStep:
    """What is planned for."""

    program: Program
    """The captured graph with phases and variables, functions of the run written out."""
    ops: tuple[Op, ...]
    """Those of the step, in data-flow order."""
    graph: str
    """Print of what updates the trainable variables (``ir.plan.graph_print``), whatever is fetched beside it."""
    tensors: Tensors
    """Its tensors as the cost model reads them."""
    chain: Chain
    """Its blocks."""
    batch: int
    """Samples of one batch that the script makes: the global one, or, drawn locally, that of a micro-batch."""
    is_batch_known: bool
    """Whether that is more than an assumption."""
    local: bool
    """Whether every copy draws its own batch."""
    draws: bool
    """Whether such a batch is drawn in the graph; one that is fed is cut all the same."""
    pipeline: PipelineRequest | None
    """The stages and micro-batches that the script asks for."""
    stages: tuple[int, ...]
    """The first block of each stage that the script names; empty without."""
    replicated: bool
    """Whether the script asks for copies."""
    allowed: tuple[Kind, ...]
    """The strategies that the script leaves to Whale with ``auto_parallel``; empty for all."""
    notes: tuple[str, ...]
    """What was assumed, and what does not count."""
    numerics: tuple[str, ...]
    """Whether the numbers are those of one device, or where not."""

    @property
    def needs_whole_batch(self) -> bool:
        """Whether it normalises over the batch."""
        return any(op.type.startswith("FusedBatchNorm") and op.attrs.get("is_training") for op in self.ops)

    @property
    def is_fixed(self) -> bool:
        """Whether the script leaves nothing to choose.

        Copies that draw batches of their own set the batch of a step by their number, and have equal shares.
        """
        stages = self.pipeline.stages if self.pipeline is not None else ()
        return self.local or any(stage.devices or stage.device_count > 1 for stage in stages)


def training_step(graph: tf.Graph, program: Program, run: Run, options: Options, given: Given) -> TrainingStep:
    """Analyses a run that trains.

    Args:
        graph: the user's graph, for what the script said about it; not changed.
        program: the captured graph, with phases and variables.
        run: the step.
        options: modes and configuration.
        given: sizes that are not in the graph.

    Raises:
        PlanError: the step cannot be taken apart, or a size is not known.
    """
    said = annotations_of(graph)
    request = requested(said, options)
    local = options.draws_locally(said)
    subject = subject_of(program, run, local, variables_in(graph))
    if subject.program is not program:
        trainable = trainable_names(graph)
        subject = dataclasses.replace(subject, program=tabulate(subject.program, trainable & program.ops.keys()))
    choice = _cut(subject, run, options)
    notes: list[str] = []
    batch = _batch_size(subject, choice, given, notes)
    _check_given(choice, given.sizes)
    sizes = {**choice.analysis.batches.known, **given.sizes}
    sizes.update(_assumed_sizes(subject.program, choice, sizes, given, notes))
    named = _named_stages(program, request)
    stage_of = named.of if named is not None else {}
    chain = build_chain(subject.program, choice.analysis, sizes, stages=stage_of)
    if any(op.type in _LOOPS for op in subject.ordered.ops):
        notes.append("loops count one iteration: a step with loops takes longer than predicted")
    if chain.unknown:
        kinds = ", ".join(f"{kind} ({count})" for kind, count in chain.unknown[:4])
        notes.append(f"op types without a cost rule count only the bytes they move: {kinds}")
    rough = sorted({d.approximate for d in choice.analysis.decisions.values() if d.approximate})
    scopes = said.scopes if said is not None else ()
    return TrainingStep(
        program=subject.program,
        ops=tuple(subject.program.ops[op.name] for op in subject.ordered.ops),
        graph=print_of(program),
        tensors=Tensors(subject.program, choice.analysis, sizes),
        chain=chain,
        batch=batch or given.assumed_batch or 1,
        is_batch_known=batch is not None,
        local=local,
        draws=any(source.tensor not in run.feeds for source in choice.analysis.sources),
        pipeline=request,
        stages=_first_blocks(chain, named) if named is not None else (),
        allowed=(said.auto or ()) if said is not None else (),
        replicated=any(scope.kind is Kind.REPLICA for scope in scopes),
        notes=tuple(notes),
        numerics=tuple(f"approximate: {text}" for text in rough) or ("exact: equals one device up to rounding",),
    )


def _cut(subject: Subject, run: Run, options: Options) -> Choice:
    parallel = already_parallel(subject.ordered.ops)
    if parallel:
        raise PlanError(parallel, fix="remove it: Whale makes a script for one device parallel")
    if not subject.sources:
        raise PlanError(
            "nothing is fed or drawn in the training step that can be cut",
            fix="feed or draw the batch on the first dim of its tensors",
        )
    request = Request(
        subject.ordered,
        dict(run.feeds),
        sync=options.config.batch.sync is not False,
        shares=(1, 1),
        sure=subject.program is subject.user,
        shapes=run.shapes,
    )
    choice = choose(subject.program, request, subject.sources, subject.shapes(subject.sources, run))
    if not choice.worthwhile:
        raise PlanError(
            f"the training step cannot be taken apart: {why_whole(choice)}",
            fix="write that part sample by sample; the script runs on one device as it is",
        )
    return choice


def _batch_size(subject: Subject, choice: Choice, given: Given, notes: list[str]) -> int | None:
    """Samples of a batch; None where a number is assumed."""
    if given.batch_size is not None:
        return given.batch_size
    sources = choice.analysis.sources
    sizes = [source.static or (None if given.assumes_feeds else source.count) for source in sources]
    known = [size for size in sizes if size]
    if known:
        return max(known)
    stated = [size for s in sources for size in [stated_batch(subject.program, s.tensor)] if size is not None]
    if stated:
        return max(stated)
    name = sources[0].tensor
    if given.assumed_batch is not None:
        notes.append(f"the batch size of {name} is not known before the first step: planned for {given.assumed_batch}")
        return None
    raise PlanError(
        f"the batch size is not known: {name} leaves it open, and the input pipeline does not state it",
        site=subject.program.producer(name).site,
        fix="say it with --batch-size N",
    )


_LOOPS = frozenset({"LoopCond", "While", "StatelessWhile"})


def _check_given(choice: Choice, sizes: Mapping[str, int]) -> None:
    """A size that the graph does not leave open must not be passed over in silence."""
    known = {name for fact in choice.analysis.facts.values() for dim in fact.dims or () for name in D.symbols_of(dim)}
    for name in sizes:
        if name not in known:
            raise PlanError(f"no size of the training step is open under the name {name!r}", fix=nearest(name, known))


def _assumed_sizes(
    program: Program, choice: Choice, sizes: Mapping[str, int], given: Given, notes: list[str]
) -> dict[str, int]:
    """Sizes of inputs must be known, unless some are assumed. Those that the step works out count as 1."""
    open_sizes: dict[str, None] = {}
    for tensor, fact in choice.analysis.facts.items():
        if program.producer(tensor).phase in (Phase.INPUT, Phase.FORWARD) and fact.dims is not None:
            for dim in fact.dims:
                for name in D.symbols_of(dim):
                    open_sizes.setdefault(name)
    unknown = [name for name in open_sizes if name not in sizes and not grows(D.symbol(name))]
    inputs = [name for name in unknown if _is_input(program, name)]
    if inputs and given.assumed_size is None:
        op = program.ops[split_tensor(inputs[0].rpartition("[")[0])[0]]
        raise PlanError(
            f"the size {inputs[0]} is not known: {op.type} '{op.name}' leaves it open",
            site=op.site,
            fix=f"set the shape in the input pipeline, or say it with --size '{inputs[0]}=N'",
        )
    if inputs:
        notes.append(f"open sizes of inputs are planned as {given.assumed_size}: {', '.join(inputs[:3])}")
    elif unknown:
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        notes.append(f"sizes that only the run knows count as 1: {unknown[0]}{more} (--size 'NAME=N' says one)")
    return dict.fromkeys(inputs, given.assumed_size or 1)


def _is_input(program: Program, size: str) -> bool:
    """Whether an open size is that of a tensor that is fed or drawn, not worked out from one."""
    tensor, bracket, _ = size.rpartition("[")
    name = tensor.rpartition(":")[0]
    return bool(bracket) and name in program.ops and is_source(program.ops[name])


def _named_stages(program: Program, request: PipelineRequest | None) -> TaskGraphs | None:
    if request is None or len(request.stages) < 2:
        return None
    stages = assign(program, request.stages, {})
    check(program, stages)
    return stages


def _first_blocks(chain: Chain, named: TaskGraphs) -> tuple[int, ...]:
    """The first block of each stage.

    Raises:
        PlanError: a stage has no forward op that depends on the batch.
    """
    of_block = [named.of.get(ops[0], 0) for ops in chain.ops]
    first = [of_block.index(stage) if stage in of_block else -1 for stage in range(len(named.stages))]
    for stage, block in enumerate(first):
        if block < 0:
            raise PlanError(
                f"{named.title(stage)} does nothing with the batch",
                site=named.stages[stage].site,
                fix="put the layers that are to run there inside the scope",
            )
    return tuple(first)


def print_of(program: Program) -> str:
    """Print of what updates the trainable variables of a graph with phases."""
    return graph_print(reachable(program, (), updates(program), ()))


def trains(program: Program, ops: Iterable[Op]) -> bool:
    """Whether a run of some ops reaches gradients and the update of a variable."""
    phases = {op.name: op.phase for op in ops}
    if Phase.BACKWARD not in phases.values():
        return False
    return any(not phases.keys().isdisjoint(variable.updates) for variable in program.variables.values())


def updates(program: Program) -> tuple[str, ...]:
    """The ops that update the variables of a graph by gradients: what a training step of it runs.

    A script that adds gradients up by itself updates the variables that hold the sums in its steps, and now and then
    the trained ones by them.
    """
    trained = [v for v in program.variables.values() if v.trainable and v.gradients]
    found = tuple(dict.fromkeys(update for variable in trained for update in variable.updates))
    if any(op.phase is Phase.BACKWARD for op in reachable(program, (), found, ())):
        return found
    return tuple(dict.fromkeys(update for v in program.variables.values() for update in v.updates)) if trained else ()
