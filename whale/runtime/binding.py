"""One session bound to a shadow graph.

Runs that can be cut run as copies per device; everything else runs verbatim on the first device, in the same shadow
graph and on the same variables. Mirrors of variables on other devices are brought up to date before a cut run reads
them.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from whale import _tf
from whale.annotations.capture import capture
from whale.annotations.checks import check_closed, check_nonempty, check_size
from whale.annotations.state import annotations_of
from whale.ir.program import Program, TensorType
from whale.planner.witness import Witness, witness
from whale.rewriter.build import Builder, Place, type_attr
from whale.rewriter.fetches import merge_rules
from whale.rewriter.keys import KeyAllocator
from whale.rewriter.mesh import Feed, Mesh
from whale.rewriter.shadow import Shadow
from whale.rewriter.sizes import bounds
from whale.runtime import collector
from whale.runtime.dynamic_check import Verdict, compare, merged
from whale.runtime.messages import translate
from whale.runtime.options import Options
from whale.runtime.preparation import Prepared, prepare
from whale.runtime.report import Report
from whale.runtime.signature import Run, Signature, layout_of

MOST_TO_CHECK = 30_000
"""Ops times devices up to which the first step is checked by itself: beyond, the check takes more than some seconds."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """A prepared run with handles instead of names."""

    signature: Signature
    number: int
    """That of its report."""
    prepared: Prepared
    shapes: tuple[tuple[int, ...], ...]
    """Shapes of the values fed when it was prepared."""
    fetches: Sequence[Any]
    targets: Sequence[Any]
    feeds: Sequence[tuple[Any, Feed]]

    def accepts(self, names: Sequence[str], shapes: tuple[tuple[int, ...], ...], replicas: int) -> bool:
        """Whether it serves a run that feeds values of these shapes."""
        if self.prepared.pinned:
            return shapes == self.shapes
        if not self.prepared.cut:
            small = not self.prepared.small or _largest(shapes) < replicas
            return small and layout_of(shapes) == layout_of(self.shapes)
        sizes = dict(zip(names, shapes))
        counts = [{sizes[t][d] for t, d in group} for group in self.prepared.groups]
        if any(len(found) > 1 for found in counts):
            return False
        return self.prepared.trains or all(max(found, default=replicas) >= replicas for found in counts)


class Binding:
    """What a Python session is bound to."""

    def __init__(self, session: Any, options: Options, keys: KeyAllocator, announce: Callable[[Report], None]) -> None:
        self.session = session
        self.options = options
        self.announce = announce
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
        self._version = -1
        self._plans: dict[Signature, list[Plan]] = {}
        self._prepared = 0
        self._judged: set[Signature] = set()
        self._checked = False
        # Why the graph is kept on one device, or empty. None before the first run: the script has not said all yet.
        self._alone: str | None = None
        self._in_step: set[str] = set()
        self._mirror_ops: dict[str, list[str]] = {}
        self._lock = threading.RLock()

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
                self.program = capture(graph, self.program)
                self.shadow.extend_user_graph(self.program)
            self._version = version
            _tf.extend_session(self.session)

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
        plan = self._plan(targets, fetches, feeds)
        if self._to_check(plan):
            with self._lock:
                if self._to_check(plan):
                    return self._first_step(plan, targets, fetches, feeds, options, metadata)
        return self._run(plan, targets, fetches, feeds, options, metadata)

    def _run(
        self,
        plan: Plan,
        targets: Sequence[tf.Operation],
        fetches: Sequence[tf.Tensor],
        feeds: Sequence[tuple[tf.Tensor, Any]],
        options: Any = None,
        metadata: Any = None,
    ) -> list[Any]:
        try:
            if not plan.prepared.cut:
                return self._verbatim(targets, fetches, feeds, options, metadata)
            self._bring_into_step(plan.prepared.mirrored)
            by_name = {t.name: v for t, v in feeds}
            values = {handle: self._value(feed, by_name[feed.tensor]) for handle, feed in plan.feeds}
            return self._step(options, values, plan.fetches, plan.targets, metadata)
        finally:
            self._in_step.difference_update(plan.prepared.writes)

    def _verbatim(self, targets: Any, fetches: Any, feeds: Any, options: Any = None, metadata: Any = None) -> list[Any]:
        """The user's own ops, on the first device."""
        values = {_output(t): v for t, v in feeds}
        return self._step(options, values, [_output(t) for t in fetches], [o._c_op for o in targets], metadata)

    def _step(self, options: Any, feeds: Any, fetches: Any, targets: Any, metadata: Any) -> list[Any]:
        try:
            return _tf.run_session(self.session, options, feeds, fetches, targets, metadata)
        except tf.errors.OpError as error:
            raise translate(error, self.shadow) from None

    def _value(self, feed: Feed, value: Any) -> Any:
        if feed.kind == "whole":
            return value
        array = np.asarray(value)
        count = array.shape[feed.dim]
        if feed.kind == "count":
            return np.asarray(count, dtype=np.int32)
        offsets = bounds(count, self.mesh.shares)
        index = [slice(None)] * array.ndim
        index[feed.dim] = slice(offsets[feed.replica], offsets[feed.replica + 1])
        return array[tuple(index)]

    # -- plans -------------------------------------------------------------------------------------------------

    def _plan(
        self, targets: Sequence[Any], fetches: Sequence[Any], feeds: Sequence[tuple[Any, Any]], checking: bool = False
    ) -> Plan:
        rows = sorted(((t.name, t, v) for t, v in feeds), key=lambda row: row[0])
        names = tuple(name for name, _, _ in rows)
        shapes = tuple(np.shape(v) for _, _, v in rows)
        signature = Signature(
            tuple(t.name for t in fetches),
            tuple(o.name for o in targets),
            names,
            tuple(len(s) for s in shapes),
        )
        plan = self._find(signature, shapes)
        if plan is not None:
            return plan
        with self._lock:
            plan = self._find(signature, shapes)
            if plan is None:
                types = {n: TensorType(t.dtype.name, _declared(t, s)) for (n, t, _), s in zip(rows, shapes)}
                plan = self._prepare(Run(signature, types, dict(zip(names, shapes))), checking)
                self._plans.setdefault(signature, []).append(plan)
            return plan

    def _find(self, signature: Signature, shapes: tuple[tuple[int, ...], ...]) -> Plan | None:
        """A plan made before that serves a run; one that cuts it is preferred."""
        found = None
        for plan in self._plans.get(signature, ()):
            if plan.accepts(signature.feeds, shapes, len(self.mesh.devices)):
                if plan.prepared.cut:
                    return plan
                found = plan
        return found

    def _prepare(self, run: Run, checking: bool) -> Plan:
        said = annotations_of(self.session.graph)
        if said is not None and not self._checked:
            check_closed(self.session.graph)
            check_nonempty(self.session.graph)
            self._checked = True
        if self._alone is None:
            plan, self._alone = self.options.plan_for(said)
            self.mesh = dataclasses.replace(self.mesh, devices=plan.devices, shares=plan.shares)
        mode = (
            self.options.batch
            or self.options.plan().batch
            or self.options.config.batch.mode
            or ("global" if said is None else "local")
        )
        self.mesh = dataclasses.replace(self.mesh, local=mode == "local")
        merges = merge_rules(said.collections) if said is not None and not checking else {}
        self._prepared += 1
        number = self._prepared
        with collector.paused():
            prepared, report = prepare(
                self.program, run, self.shadow, self.mesh, self.keys, self.options, number, checking, merges
            )
        if prepared.cut:
            self._make_mirrors(prepared.mirrored)
            _tf.extend_session(self.session)  # takes time in proportion to the whole graph: once for all
        if not checking:
            self.announce(dataclasses.replace(report, reason=self._alone) if self._alone else report)
        return Plan(
            run.signature,
            number,
            prepared,
            tuple(run.shapes[n] for n in run.signature.feeds),
            [self.shadow.output(t) for t in prepared.fetches],
            [self.shadow.handles[t] for t in prepared.targets],
            [(self.shadow.output(f.node), f) for f in prepared.feeds],
        )

    # -- the check before the first update ---------------------------------------------------------------------

    def _to_check(self, plan: Plan) -> bool:
        if not (plan.prepared.cut and plan.prepared.trains) or plan.signature in self._judged:
            return False
        mode = self.options.config.check.mode
        return mode == "on" or (mode == "auto" and len(self.program.ops) * len(self.mesh.devices) <= MOST_TO_CHECK)

    def _first_step(
        self,
        plan: Plan,
        targets: Sequence[tf.Operation],
        fetches: Sequence[tf.Tensor],
        feeds: Sequence[tuple[tf.Tensor, Any]],
        options: Any,
        metadata: Any,
    ) -> list[Any]:
        """The first step of its kind: what updates read is computed whole and cut, and the step taken if they agree."""
        self._judged.add(plan.signature)
        seen = witness(self.program, plan.signature.fetches, plan.signature.targets, plan.signature.feeds)
        if self.mesh.local or not seen.compared:
            self._announce_verdict(plan, Verdict(0))
            return self._run(plan, targets, fetches, feeds, options, metadata)
        graph = self.session.graph
        drawn = [graph.get_tensor_by_name(name) for name in seen.drawn]
        drawn_values = self._run(self._plan([], drawn, feeds, checking=True), [], drawn, feeds) if drawn else []
        fixed = [*feeds, *zip(drawn, drawn_values)]
        verdict = self._compare(seen, [graph.get_tensor_by_name(name) for name in seen.compared], fixed)
        self._announce_verdict(plan, verdict)
        known = dict(zip(seen.drawn, drawn_values))
        rest = [t for t in fetches if t.name not in known]
        if verdict.mismatch:
            refused = dataclasses.replace(plan.prepared, cut=False, small=False)
            self._plans[plan.signature] = [dataclasses.replace(plan, prepared=refused)]
            self._in_step.clear()
            results = self._verbatim(targets, rest, fixed, options, metadata)
        else:
            step = self._plan(targets, rest, fixed, checking=True)
            results = self._run(step, targets, rest, fixed, options, metadata)
        return merged([t.name for t in fetches], known, results)

    def _compare(self, seen: Witness, tensors: Sequence[tf.Tensor], feeds: Sequence[tuple[tf.Tensor, Any]]) -> Verdict:
        try:
            whole = self._verbatim([], tensors, feeds)
            cut = self._run(self._plan([], tensors, feeds, checking=True), [], tensors, feeds)
        except tf.errors.OpError as error:  # a tensor that this step does not need; the step itself will say
            return Verdict(0, failure=f"{type(error).__name__}: {str(error.message).splitlines()[0]}")
        return compare(seen, whole, cut)

    def _announce_verdict(self, plan: Plan, verdict: Verdict) -> None:
        line = verdict.line()
        if verdict.mismatch:
            self.announce(Report(plan.number, False, True, line))
        else:
            self.announce(Report(plan.number, True, True, "", (line,)))

    # -- mirrors -----------------------------------------------------------------------------------------------

    def _bring_into_step(self, variables: frozenset[str]) -> None:
        """Copies variables that were written at home only to their mirrors."""
        behind = variables - self._in_step
        if not behind:
            return
        with self._lock:
            behind = variables - self._in_step
            if not behind:
                return
            targets = [self.shadow.handles[n] for v in sorted(behind) for n in self._mirror_ops[v]]
            self._step(None, {}, [], targets, None)
            self._in_step |= behind

    def _make_mirrors(self, variables: frozenset[str]) -> None:
        """Adds the ops that bring variables into step, where there are none yet."""
        for variable in sorted(variables - self._mirror_ops.keys()):
            self._mirror_ops[variable] = self._mirror(variable)
        self.shadow.flush()

    def _mirror(self, variable: str) -> list[str]:
        """Ops that copy a variable from home to every other device."""
        op = self.program.ops[variable]
        builder = Builder(self.shadow, "")
        names = []
        for replica, device in enumerate(self.mesh.devices):
            if replica == 0:
                continue
            place = Place(variable, replica, device)
            mirror = f"{self.shadow.mirror(variable, replica)}:0"
            if op.type == "VarHandleOp":
                dtype = {"dtype": type_attr(op.attrs["dtype"])}
                home = Place(variable, 0, self.mesh.devices[0])
                value = builder.node(home, "ReadVariableOp", [f"{variable}:0"], f"mirror/{variable}/read", dtype)
                attrs = {**dtype, "validate_shape": False}
                made = builder.node(place, "AssignVariableOp", [mirror, value], f"mirror/{variable}/assign", attrs)
            else:
                kind = type_attr(op.attrs["dtype"])
                attrs = {"T": kind, "validate_shape": False, "use_locking": True}
                made = builder.node(place, "Assign", [mirror, f"{variable}:0"], f"mirror/{variable}/assign", attrs)
            names.append(made.rpartition(":")[0])
        return names


def _largest(shapes: Sequence[tuple[int, ...]]) -> int:
    return max((s[0] for s in shapes if s), default=0)


def _output(tensor: tf.Tensor) -> Any:
    return tensor._as_tf_output()


def _declared(tensor: tf.Tensor, shape: tuple[int, ...]) -> tuple[int | None, ...]:
    """The script's static shape of a fed tensor, its rank completed from the value."""
    static = tensor.shape
    return (None,) * len(shape) if static.rank is None else tuple(static.as_list())
