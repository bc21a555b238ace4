"""A run as names: its ops in data-flow order, functional control flow written out, and where batches enter it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping

from whale import _tf
from whale.annotations.inline import function_ops, functions_of, inline
from whale.ir.program import Op, Program, reachable, split_tensor
from whale.runtime.signature import Run
from whale.sharding.held import Variables, held, held_alike
from whale.sharding.order import Order, order
from whale.sharding.propagate import Source
from whale.sharding.rules.source import RANDOM
from whale.sharding.rules.state import HOLDERS, written
from whale.sharding.sources import DRAWS, candidates
from whale.sharding.update_waits import put_off

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
class Subject:
    """A run, functional control flow written out."""

    user: Program
    """The program that the shadow graph holds verbatim."""
    program: Program
    """The same with functions written out."""
    fetches: tuple[str, ...]
    targets: tuple[str, ...]
    renamed: Mapping[str, str]
    """What became of tensors of the user's program where functions were written out."""
    ordered: Order
    """The ops of the run."""
    sources: tuple[Source, ...]
    """What is fed or drawn and may be cut."""
    written: frozenset[str]
    """Variables it writes."""
    trains: bool
    """Whether it writes variables from a batch or from gradients."""

    @property
    def draws_alone(self) -> bool:
        """Whether a random op of the run has a generator that other plans do not share: one in a loop or function."""
        drawing = (op.name for op in self.ordered.ops if op.type in RANDOM)
        return any(name in self.ordered.frames or name not in self.user.ops for name in drawing)

    def shapes(self, sources: Iterable[Source], run: Run) -> dict[str, tuple[int | None, ...]]:
        """The shape of each source: that of the value fed, else what the script declares."""
        known = ((s.tensor, run.shapes.get(s.tensor) or self.program.tensor(s.tensor).shape or ()) for s in sources)
        return dict(known)

    def putting_off_updates(self, run: Run) -> Subject:
        """The same where only those ops wait for updates that must (``sharding/update_waits``)."""
        moved = put_off(self.ordered, frozenset(run.feeds), self.fetches, self.targets)
        return dataclasses.replace(self, ordered=moved.order, targets=(*self.targets, *moved.awaited))

    def renewed(self, run: Run) -> frozenset[str]:
        """Variables that get a value made from samples or from what they held, as an optimizer of the script's own
        does. One that is initialised, restored or set to a scalar that is fed is none."""
        samples = {tensor for tensor, shape in run.shapes.items() if shape}
        within: dict[str, frozenset[str]] = {}
        """By op: the variables that its value depends on; the empty name stands for samples."""
        found: set[str] = set()
        for op in self.ordered.ops:
            read = [_SAMPLES if t in samples else within.get(split_tensor(t)[0], _NOTHING) for t in op.inputs]
            found.update(v for v in written(self.program.ops, op) if any(not d.isdisjoint((v, "")) for d in read[1:]))
            own = frozenset([op.name]) if op.type in HOLDERS else _SAMPLES if op.type in DRAWS else _NOTHING
            within[op.name] = own.union(*read)
        return frozenset(found)


_NOTHING: frozenset[str] = frozenset()
_SAMPLES = frozenset([""])


def subject_of(
    program: Program, run: Run, local: bool, variables: Variables | None = None, like: Collection[str] | None = None
) -> Subject:
    """The ops of a run.

    Args:
        program: the user's.
        run: what is fetched, run and fed.
        local: whether every copy draws its own batch.
        variables: which are trained; without it, data that the graph holds is no batch. Where something is fed or
            drawn that may be one, or nothing is trained, it is none either.
        like: sources of a run that is to be cut alike: data that it cut is a batch here too.
    """
    signature = run.signature
    ops = reachable(program, signature.fetches, signature.targets, signature.feeds)
    inlined, fetches, targets, renamed = _without_functions(program, run, ops)
    if inlined is not program:
        ops = reachable(inlined, fetches, targets, signature.feeds)
    ordered = order(ops, frozenset(signature.feeds))
    written = frozenset(_written(inlined, ordered))
    sources = tuple(candidates(ordered, run.feeds, run.shapes, local))
    if like is not None:
        sources = (*sources, *held_alike(ordered, frozenset(run.feeds), like))
    elif variables is not None and not local and not sources and written & variables.trainable:
        sources = tuple(held(ordered, frozenset(run.feeds), variables))
    trains = bool(written) and (bool(sources) or any(_applies(o) for o in ops))
    return Subject(program, inlined, fetches, targets, renamed, ordered, sources, written, trains)


def _without_functions(
    program: Program, run: Run, ops: tuple[Op, ...]
) -> tuple[Program, tuple[str, ...], tuple[str, ...], Mapping[str, str]]:
    """The program with functional control flow written out, what is then fetched and run, and new names of tensors."""
    signature = run.signature
    fed = {split_tensor(t)[0] for t in signature.feeds}
    called = function_ops(functions_of(program), ops) if any(is_function(op) for op in ops) else ()
    names = [name for name in called if name not in fed]
    if not names:
        return program, signature.fetches, signature.targets, {}
    inlined = inline(program, names)
    fetches = tuple(inlined.tensors.get(t, t) for t in signature.fetches)
    targets = tuple(inlined.ops.get(t, t) for t in signature.targets)
    return inlined.program, fetches, targets, inlined.tensors


def is_function(op: Op) -> bool:
    """Whether an op runs a function of the graph's library."""
    return op.type in FUNCTIONAL or _tf.op_definition(op.type) is None


def _applies(op: Op) -> bool:
    return op.type.startswith(("Apply", "ResourceApply", "SparseApply", "ResourceSparseApply"))


def _written(program: Program, ordered: Order) -> list[str]:
    return [variable for op in ordered.ops for variable in written(program.ops, op)]
