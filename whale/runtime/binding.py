"""One session bound to a shadow graph.

Runs that can be cut run as copies per device; everything else runs verbatim on the first device, in the same shadow
graph and on the same variables. Mirrors of variables on other devices are brought up to date before a cut run reads
them.
"""

from __future__ import annotations

import dataclasses
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from whale import _tf
from whale.annotations.capture import capture
from whale.annotations.checks import check_closed, check_nonempty, check_size
from whale.annotations.state import Annotations, annotations_of
from whale.annotations.variables import complete, trainable_names, variables_in
from whale.errors import PlanError
from whale.ir.plan import Plan as WholePlan
from whale.ir.program import Program
from whale.rewriter.fetches import merge_rules
from whale.rewriter.keys import KeyAllocator
from whale.rewriter.mesh import Feed, Mesh
from whale.rewriter.shadow import Shadow
from whale.rewriter.sizes import bounds
from whale.runtime import collector
from whale.runtime.draws import Draws
from whale.runtime.first_steps import FirstSteps
from whale.runtime.hang import Watcher
from whale.runtime.late_ops import LateOps
from whale.runtime.messages import translate
from whale.runtime.mirrors import Mirrors
from whale.runtime.options import Options
from whale.runtime.pipelining import Pipelining, requested, under
from whale.runtime.planning.in_session import Planned, plan_session
from whale.runtime.planning.training_step import print_of
from whale.runtime.plans import Plan
from whale.runtime.preparation import prepare, senders
from whale.runtime.report import Report
from whale.runtime.signature import Run, Signature, run_of, signature_of
from whale.runtime.step_times import StepTimes
from whale.runtime.stuck import CutStep
from whale.runtime.writers import Writers


class Binding:
    """What a Python session is bound to."""

    def __init__(
        self,
        session: Any,
        options: Options,
        keys: KeyAllocator,
        announce: Callable[[Report], None],
        watcher: Watcher,
    ) -> None:
        # Its owner, which nothing here keeps alive: a session that goes out of scope is released at once.
        self._session = weakref.ref(session)
        self.options = options
        self.announce = announce
        self._watcher = watcher
        plan = options.plan()
        config = options.config
        self.mesh = Mesh(
            plan.devices,
            plan.shares,
            max_splits=config.communication.max_splits,
            communicators=config.communication.num_communicators,
        )
        self.keys = keys
        self.shadow = Shadow()
        self.program = Program({})
        self._captured = self.program
        self._version = -1
        self._plans: dict[Signature, list[Plan]] = {}
        self._prepared = 0
        # Why the graph is kept on one device, or empty. None before the first run: the script has not said all yet.
        self._alone: str | None = None
        self._pipelining: Pipelining | None = None
        self._told_of_plan = False
        self._graph_checked = options.plan_file is None
        self.planned = Planned(None, ())
        """The plan that was searched for the graph, where its strategy is left to Whale."""
        self.steps = StepTimes()
        self._lock = threading.RLock()
        self.mirrors = Mirrors(self.shadow, self._lock)
        self.writers = Writers()
        self._first_steps = FirstSteps()
        self._late = LateOps()

    @property
    def session(self) -> Any:
        """The session; whoever runs it holds it.

        Raises:
            RuntimeError: it is gone.
        """
        return alive(self._session)

    # -- the user's graph --------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Reads ops that the script added since the last call into the shadow graph."""
        graph = self.session.graph
        if _tf.graph_version(graph) == self._version:
            return
        with self._lock:
            version = _tf.graph_version(graph)
            if version == self._version:
                return
            check_size(graph)
            with collector.paused():
                before = self._captured.ops
                self._captured = self.program = capture(graph, self._captured)
                if self.steps.run is not None:
                    self._late.note(op for name, op in self._captured.ops.items() if name not in before)
                self._arrange()
                staged = self._pipelining is not None and self._pipelining.staged
                device = self._pipelining.device if self._pipelining is not None and staged else None
                self.shadow.extend_user_graph(self.program, device)
            self._version = version
            _tf.extend_session(self.session)

    def _arrange(self) -> None:
        """Decides on devices and stages at the first run; gives later ops their stage."""
        graph = self.session.graph
        said = annotations_of(graph)
        if self._alone is None:
            if said is not None:
                check_closed(graph)
                check_nonempty(graph)
            plan, self._alone = self._planned(said)
            self.mesh = dataclasses.replace(self.mesh, devices=plan.devices, shares=plan.shares)
            request = under(plan, requested(said, self.options), self.program)
            if request is not None and (len(request.stages) > 1 or request.micro_batches > 1):
                shares = plan.shares if plan.stages else ()
                self._pipelining = Pipelining(request, said, plan.devices, shares)
        self.mesh = dataclasses.replace(self.mesh, local=self.options.draws_locally(said))
        if self._pipelining is not None:
            self.program = self._pipelining.extend(self.program, graph)
            self.mesh = self._pipelining.mesh(self.mesh)
        elif self.mesh.local:
            self.program = complete(self.program, graph)

    def _planned(self, said: Annotations | None) -> tuple[WholePlan, str]:
        """The plan to follow, and why it is one device where the script leaves others unused."""
        plan, alone = self.options.plan_for(said)
        space = self.options.space(said)
        # Scopes that name some of the devices have chosen already.
        if space and not alone and len(plan.devices) == len(self.options.cluster.compute_devices) > 1:
            self.planned = plan_session(self.session.graph, self.program, self.options, space)
            if self.planned.decided is not None:
                plan = self.planned.decided.plan
        return plan, alone

    def _with_plan(self, report: Report) -> Report:
        """The report of a run; that of the first one that trains tells of the plan as well."""
        if not report.trains or self._told_of_plan:
            return report
        self._told_of_plan = True
        return dataclasses.replace(report, lines=(*self.planned.lines, *report.lines))

    def _tell(self, report: Report, signature: Signature) -> None:
        """Announces what became of a kind of run; of those that differ by ops made anew, that there are such."""
        late = self._late.found(signature)
        if late is not None:
            notice = self._late.notice(late)
            if notice:
                self.announce(Report(0, False, False, notice, notice=True))
            return
        if report.renews:
            report = dataclasses.replace(report, renews=report.renews & trainable_names(self.session.graph))
        self.announce(dataclasses.replace(report, reason=self._alone) if self._alone else self._with_plan(report))

    def _check_graph(self) -> None:
        """Refuses a plan file that was made for another graph, at the first run that trains.

        Raises:
            PlanError: it was.
        """
        self._graph_checked = True
        file = self.options.plan_file
        if file is None or not file.plan.graph:
            return
        if file.plan.graph != print_of(complete(self._captured, self.session.graph)):
            raise PlanError(
                f"{file.path}: the plan was made for another graph: the training step differs in an op, a "
                "name or a constant's place",
                fix="make it anew: whale plan --json PLAN, with the arguments that the script has now",
            )

    # -- running -----------------------------------------------------------------------------------------------

    def run(
        self,
        targets: Sequence[tf.Operation],
        fetches: Sequence[tf.Tensor],
        feeds: Sequence[tuple[tf.Tensor, Any]],
        options: Any,
        metadata: Any,
    ) -> list[Any]:
        """One ``Session.run``; fetches, feeds and targets are those of the user's graph."""
        self.refresh()
        plan = self.plan(targets, fetches, feeds)
        seen = self._first_steps.due(plan, feeds)
        if seen is not None:
            return self._first_steps.take(self, seen, plan, targets, fetches, feeds, options, metadata)
        with self.steps.timed(plan.prepared):
            return self.run_plan(plan, targets, fetches, feeds, options, metadata)

    def run_plan(
        self,
        plan: Plan,
        targets: Sequence[tf.Operation],
        fetches: Sequence[tf.Tensor],
        feeds: Sequence[tuple[tf.Tensor, Any]],
        options: Any = None,
        metadata: Any = None,
    ) -> list[Any]:
        """Executes a plan for a run that it serves."""
        writes = plan.prepared.trains or bool(plan.prepared.writes)
        if writes:
            self.writers.begin()
        try:
            if not plan.prepared.cut:
                return self.verbatim(targets, fetches, feeds, options, metadata, plan.sent)
            self.mirrors.bring_into_step(plan.prepared.mirrored, self._run_targets)
            prepared = plan.prepared
            roots, fed = [*prepared.fetches, *prepared.targets], [feed.node for feed in prepared.feeds]
            step = CutStep(self.session, self.shadow, self.program.ops, roots, fed, plan.draws)
            return self._step(options, self._fed(plan, feeds), plan.fetches, plan.targets, metadata, step)
        finally:
            self.mirrors.fell_behind(plan.prepared.writes)
            if writes:
                self.writers.end()

    def observe(self, plan: Plan, feeds: Sequence[tuple[tf.Tensor, Any]]) -> list[Any]:
        """What a run of a plan draws, drawn without the rest of the run."""
        self.mirrors.bring_into_step(plan.prepared.mirrored, self._run_targets)
        return self._step(None, self._fed(plan, feeds), plan.observed, plan.sent, None)

    def _fed(self, plan: Plan, feeds: Sequence[tuple[tf.Tensor, Any]]) -> dict[Any, Any]:
        by_name = {t.name: v for t, v in feeds}
        mesh = plan.prepared.mesh or self.mesh
        return {handle: _value(feed, by_name[feed.tensor], mesh.shares) for handle, feed in plan.feeds}

    def verbatim(
        self,
        targets: Sequence[tf.Operation],
        fetches: Sequence[tf.Tensor],
        feeds: Sequence[tuple[tf.Tensor, Any]],
        options: Any,
        metadata: Any,
        sent: Sequence[Any],
    ) -> list[Any]:
        """The user's own ops, on the first device; ``sent`` are the nodes that send random ops their inputs."""
        # Not the user's handles: an op that is named as an earlier scope has another name in the shadow graph.
        output = self.shadow.output
        values = {output(t.name): v for t, v in feeds}
        handles = [*(self.shadow.handles[o.name] for o in targets), *sent]
        return self._step(options, values, [output(t.name) for t in fetches], handles, metadata)

    def senders(
        self, targets: Sequence[tf.Operation], fetches: Sequence[tf.Tensor], feeds: Sequence[tf.Tensor]
    ) -> list[Any]:
        """The nodes that send their inputs to the random ops that a run of the user's own ops reaches."""
        names = Signature(
            tuple(t.name for t in fetches), tuple(o.name for o in targets), tuple(t.name for t in feeds), ()
        )
        return [self.shadow.handles[name] for name in senders(self.program, names, self.shadow)]

    def _run_targets(self, targets: Sequence[Any]) -> None:
        self._step(None, {}, [], targets, None)

    def _step(
        self, options: Any, feeds: Any, fetches: Any, targets: Any, metadata: Any, watched: CutStep | None = None
    ) -> list[Any]:
        """One step of the shadow graph; one that is cut is ended where it waits for itself."""
        try:
            with self._watcher.watch(watched, self.options.config.hang.seconds):
                return _tf.run_session(self.session, options, feeds, fetches, targets, metadata)
        except tf.errors.OpError as error:
            raise translate(error, self.shadow, self.program.ops) from None

    # -- plans -------------------------------------------------------------------------------------------------

    def plan(
        self,
        targets: Sequence[Any],
        fetches: Sequence[Any],
        feeds: Sequence[tuple[Any, Any]],
        like: Mapping[str, int] | None = None,
    ) -> Plan:
        """The plan of a run, made at its first call. With ``like``, by source the dim to cut, it is made for once."""
        signature, sizes = signature_of(targets, fetches, feeds)
        shapes = tuple(sizes.values())
        plan = self._find(signature, shapes) if like is None else None
        if plan is not None:
            return plan
        run = run_of(targets, fetches, feeds)
        with self._lock:
            if like is not None:
                return self._prepare(run, like)
            plan = self._find(signature, shapes)
            if plan is None:
                plan = self._prepare(run, None)
                self._plans.setdefault(signature, []).append(plan)
            return plan

    def refuse(self, plan: Plan) -> None:
        """Keeps the runs of a plan on one replica from now on."""
        prepared = dataclasses.replace(plan.prepared, cut=False, small=False)
        sent = [self.shadow.handles[name] for name in senders(self.program, plan.signature, self.shadow)]
        self._plans[plan.signature] = [dataclasses.replace(plan, prepared=prepared, sent=sent)]
        self.mirrors.all_fell_behind()

    def _find(self, signature: Signature, shapes: tuple[tuple[int, ...], ...]) -> Plan | None:
        """A plan made before that serves a run; one that cuts it is preferred."""
        found = None
        for plan in self._plans.get(signature, ()):
            if plan.accepts(signature.feeds, shapes, len(self.mesh.copies)):
                if plan.prepared.cut:
                    return plan
                found = plan
        return found

    def _prepare(self, run: Run, like: Mapping[str, int] | None) -> Plan:
        said = annotations_of(self.session.graph)
        self.mesh = dataclasses.replace(self.mesh, local=self.options.draws_locally(said))
        merges = merge_rules(said.collections) if said is not None and like is None else {}
        self._prepared += 1
        number = self._prepared
        with collector.paused():
            prepared, report = prepare(
                self.program,
                run,
                self.shadow,
                self.mesh,
                self.keys,
                self.options,
                number,
                like=like,
                merges=merges,
                observe=lambda held: () if like is not None else self._first_steps.drawn(self, run.signature, held),
                pipelining=self._pipelining,
                variables=variables_in(self.session.graph),
            )
        if prepared.trains and not self._graph_checked:
            self._check_graph()
        if prepared.cut:
            self.mirrors.make(prepared.mirrored, self.program, prepared.mesh or self.mesh)
            _tf.extend_session(self.session)  # takes time in proportion to the whole graph: once for all
        if like is None and prepared.trains:
            self.steps.begin(run, prepared)
        if like is None:
            self._tell(report, run.signature)
        draws = Draws(self.shadow, prepared.arrival) if prepared.arrival is not None else None
        return Plan(
            run.signature,
            number,
            prepared,
            tuple(run.shapes[n] for n in run.signature.feeds),
            [self.shadow.output(t) for t in prepared.fetches],
            [*(self.shadow.handles[t] for t in prepared.targets), *([draws.target] if draws is not None else [])],
            [(self.shadow.output(f.node), f) for f in prepared.feeds],
            [self.shadow.output(t) for t in prepared.observed],
            [self.shadow.handles[name] for name in prepared.sent],
            draws,
        )


def alive(session: weakref.ref[Any]) -> Any:
    """The session of a weak reference.

    Raises:
        RuntimeError: it is gone.
    """
    found = session()
    if found is None:
        raise RuntimeError("The session was released: nothing held it any more.")
    return found


def _value(feed: Feed, value: Any, shares: Sequence[int]) -> Any:
    """What is fed into the shadow graph for a value of the user's."""
    if feed.kind == "whole":
        return value
    array = np.asarray(value)
    count = array.shape[feed.dim]
    if feed.kind == "count":
        return np.asarray(count, dtype=np.int32)
    offsets = bounds(count, shares)
    index = [slice(None)] * array.ndim
    index[feed.dim] = slice(offsets[feed.replica], offsets[feed.replica + 1])
    return array[tuple(index)]
