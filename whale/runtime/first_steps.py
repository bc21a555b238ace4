"""First steps: what updates read is checked before the first update, and before the first on other pieces.

A plan serves batches of many sizes. What holds where all pieces are alike need not where they differ by a row, or where
one has a single row: the first step with such pieces is checked like the very first. Runs that compare the same tensors
of the same batch ask the same question, whatever else they fetch: it is put once, and its answer holds for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

import numpy as np
import tensorflow.compat.v1 as tf

from whale.planner.witness import Witness, witness
from whale.runtime.dynamic_check import Verdict, compare, merged, size_of_sum
from whale.runtime.pieces import NO_PIECES, Pieces, pieces_of
from whale.runtime.plans import Plan
from whale.runtime.report import Report
from whale.runtime.signature import Signature
from whale.runtime.subject import is_function

if TYPE_CHECKING:
    from whale.runtime.binding import Binding

Question = Union[Signature, tuple[Witness, tuple[str, ...], tuple[tuple[str, int], ...]]]
"""What is compared, what is fed, and which dims are cut; the kind of run itself, where nothing is compared."""

MOST_TO_CHECK = 30_000
"""Ops times devices up to which the first step is checked by itself: beyond, the check takes more than some seconds."""


class FirstSteps:
    """The checks of one session."""

    def __init__(self) -> None:
        self._seen: dict[Signature, Witness | str] = {}
        """For kinds of runs that were planned and not taken yet: what to compare, or why nothing is."""
        self._judged: set[Signature] = set()
        self._told: set[Question] = set()
        self._due: dict[tuple[Question, Pieces], object] = {}
        """Which pieces a question was met with: by each, who met them first."""
        self._refuted: dict[Question, Verdict] = {}
        """Questions whose answer is that whole and cut differ."""
        self._sides: dict[tuple[Question, bool], list[Plan]] = {}
        """The plans that compute what is compared, whole and cut, for the next check."""

    def drawn(self, binding: Binding, signature: Signature, held: Sequence[str] = ()) -> tuple[str, ...]:
        """The tensors that must be observable in a run of some kind for it to be checked.

        Args:
            binding: whose checks these are.
            signature: the kind of run.
            held: tensors that are its batch though nothing is fed or drawn for them.
        """
        mode = binding.options.config.check.mode
        if mode == "off":
            return ()
        if signature in self._judged:  # another plan of its kind, whose pieces may be checked again
            seen = self._seen.get(signature)
            return seen.drawn if isinstance(seen, Witness) else ()
        self._judged.add(signature)
        size = len(binding.program.ops) * len(binding.mesh.devices)
        if binding.mesh.local:
            self._seen[signature] = "every replica draws its own batch"
        elif mode == "auto" and size > MOST_TO_CHECK:
            self._seen[signature] = "the graph is large; check.mode = on checks it"
        else:
            program = binding.program
            found = witness(program, signature.fetches, signature.targets, signature.feeds, is_function, held)
            self._seen[signature] = found.barred or found
            return found.drawn
        return ()

    def due(self, plan: Plan, feeds: Sequence[tuple[tf.Tensor, Any]]) -> Witness | str | None:
        """What to compare before a run by this plan, or why nothing is: once for each question and kind of pieces."""
        if not (plan.prepared.cut and plan.prepared.trains) or plan.signature not in self._seen:
            return None
        seen, own = self._seen[plan.signature], object()
        question = _question(seen, plan)
        pieces = NO_PIECES if isinstance(seen, str) else pieces_of(plan.prepared, dict((t.name, v) for t, v in feeds))
        first = self._due.setdefault((question, pieces), own) is own
        return seen if first or question in self._refuted else None

    def take(
        self,
        binding: Binding,
        seen: Witness | str,
        plan: Plan,
        targets: Sequence[tf.Operation],
        fetches: Sequence[tf.Tensor],
        feeds: Sequence[tuple[tf.Tensor, Any]],
        options: Any,
        metadata: Any,
    ) -> list[Any]:
        """The first step of its kind: what updates read is computed whole and cut, and the step cut if they agree.

        No lock is held: a batch may have to wait for a thread that fills a queue, and that for its first plan. While
        the two are computed, which waits for nobody, other threads' runs that write variables are kept out.
        """
        if plan.prepared.approximate:
            seen = "the plan is approximate by choice"
        if isinstance(seen, str) or not seen.compared:
            self._announce(binding, plan, Verdict(0, failure=seen if isinstance(seen, str) else ""))
            return binding.run_plan(plan, targets, fetches, feeds, options, metadata)
        question = _question(seen, plan)
        if question in self._refuted:
            self._announce(binding, plan, self._refuted[question], "as for a kind of run before")
            binding.refuse(plan)
            return binding.run_plan(binding.plan(targets, fetches, feeds), targets, fetches, feeds, options, metadata)
        graph = binding.session.graph
        drawn = [graph.get_tensor_by_name(name) for name in seen.drawn]
        values = binding.observe(plan, feeds) if drawn else []
        fixed = [*feeds, *zip(drawn, values)]
        compared = [graph.get_tensor_by_name(name) for name in seen.compared]
        with binding.writers.kept_out() as alone:
            verdict = self._compare(binding, plan, seen, compared, fixed)
        if verdict.mismatch and not alone:
            verdict = Verdict(0, failure="another thread's run, which writes variables, did not end meanwhile")
        self._announce(binding, plan, verdict, "with pieces of other sizes" if question in self._told else "")
        self._told.add(question)
        known = dict(zip(seen.drawn, values))
        rest = [t for t in fetches if t.name not in known]
        if verdict.mismatch:
            self._refuted[question] = verdict
            binding.refuse(plan)
        step = plan
        if drawn or verdict.mismatch:
            step = binding.plan(targets, rest, fixed, like={} if verdict.mismatch else plan.prepared.cut_dims)
        results = binding.run_plan(step, targets, rest, fixed, options, metadata)
        return merged([t.name for t in fetches], known, results)

    def _compare(
        self,
        binding: Binding,
        plan: Plan,
        seen: Witness,
        tensors: Sequence[tf.Tensor],
        feeds: Sequence[tuple[tf.Tensor, Any]],
    ) -> Verdict:
        values = list[list[Any]]()
        for dims in ({}, plan.prepared.cut_dims):
            try:
                side = self._side(binding, plan, seen, tensors, feeds, dims)
                values.append(binding.run_plan(side, [], tensors, feeds))
            except tf.errors.OpError as error:
                what = f"{type(error).__name__}: {str(error.message).splitlines()[0]}"
                if values:
                    return Verdict(0, mismatch=f"what can be computed whole cannot be computed cut ({what})")
                return Verdict(0, failure=what)  # a tensor that this step does not need; the step itself will say
        verdict = compare(seen, *values)
        if not verdict.mismatch:
            return verdict
        return compare(seen, *values, made_of=self._made_of(binding, seen, values[0], feeds))

    def _side(
        self,
        binding: Binding,
        plan: Plan,
        seen: Witness,
        tensors: Sequence[tf.Tensor],
        feeds: Sequence[tuple[tf.Tensor, Any]],
        dims: Mapping[str, int],
    ) -> Plan:
        """The plan for one side of a comparison: that of an earlier one, where it serves."""
        sides = self._sides.setdefault((_question(seen, plan), bool(dims)), [])
        shapes = {tensor.name: tuple(np.shape(value)) for tensor, value in feeds}
        for side in sides:
            names = side.signature.feeds
            fits = set(names) == set(shapes)
            if fits and side.accepts(names, tuple(shapes[name] for name in names), len(binding.mesh.copies)):
                return side
        sides.append(binding.plan([], tensors, feeds, like=dims))
        return sides[-1]

    def _made_of(
        self, binding: Binding, seen: Witness, whole: Sequence[Any], feeds: Sequence[tuple[tf.Tensor, Any]]
    ) -> list[float]:
        """What compared tensors are made of: those that are sums may cancel to rounding, and then differ by all."""
        graph = binding.session.graph
        names = dict.fromkeys(name for pair in seen.sums if pair is not None for name in pair)
        tensors = [graph.get_tensor_by_name(name) for name in names]
        computed = binding.run_plan(binding.plan([], tensors, feeds, like={}), [], tensors, feeds) if tensors else []
        values = dict(zip(names, computed))
        return [
            size_of_sum(value, values[pair[0]], values[pair[1]]) if pair is not None else 0.0
            for value, pair in zip(whole, seen.sums)
        ]

    def _announce(self, binding: Binding, plan: Plan, verdict: Verdict, when: str = "") -> None:
        line = f"{when}, {verdict.line()}" if when else verdict.line()
        if verdict.mismatch:
            binding.announce(Report(plan.number, False, True, line))
        else:
            binding.announce(Report(plan.number, True, True, "", (line,)))


def _question(seen: Witness | str, plan: Plan) -> Question:
    """What is asked of a run: which tensors agree, given what is fed and cut; of itself where nothing is compared."""
    if isinstance(seen, str) or not seen.compared or plan.prepared.approximate:
        return plan.signature
    return seen, plan.signature.feeds, tuple(plan.prepared.cut_dims.items())
