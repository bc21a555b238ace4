"""A script run up to its first training step, without training.

Runs before it that fetch nothing are put off: initialisers of variables, tables and iterators, restores. A run that
fetches a value makes up for what it reads of them first; one that only asks whether variables are initialised is told
of those that would be. Threads that fill queues wait until then, as what they read is not initialised.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from whale import _tf
from whale.annotations.capture import capture
from whale.annotations.checks import check_closed, check_nonempty, check_size
from whale.annotations.op_kinds import ASKS
from whale.annotations.state import annotations_of
from whale.annotations.variables import complete
from whale.ir.program import Op, Program, reachable
from whale.runtime.activation import Activation
from whale.runtime.callables import callable_from_options, make_callable_of
from whale.runtime.ending import Ending
from whale.runtime.options import Options
from whale.runtime.planning.training_step import trains
from whale.runtime.signature import Run, run_of
from whale.sharding.rules.state import holder_of, writes_variable


class TrainingStepMet(SystemExit):
    """Ends a script at its first training step. As it is a SystemExit, ``except Exception`` lets it pass."""

    def __init__(self) -> None:
        super().__init__(0)


@dataclasses.dataclass(frozen=True)
class Met:
    """The first training step of a script."""

    graph: tf.Graph
    """The user's."""
    program: Program
    """The captured graph, with phases and variables."""
    run: Run
    """What the script fetches, runs and feeds."""


class Rehearsal(Activation):
    """While it is active, sessions put off what needs no answer, and end the script at its first training step."""

    def __init__(self, options: Options, at_last: Callable[[], None]) -> None:
        """Makes it active.

        Args:
            options: the devices that are planned for; none of them is used.
            at_last: as for ``Ending``.
        """
        super().__init__(options)
        self.met: Met | None = None
        self.proceed = threading.Event()
        """Set when threads that fill queues may go on."""
        self._ending = Ending(at_last)
        self._undo_save = _tf.patch(tf.train.Saver, {"save": _save_nothing})

    def close(self) -> None:
        """Restores TensorFlow."""
        super().close()
        self.proceed.set()
        self._undo_save()

    def bind(self, session: Any) -> None:
        """Gives a new session methods that put runs off."""
        self.sessions += 1
        rehearsed = _Rehearsed(session, self)
        run = self._run

        def make_callable(fetches: Any, feed_list: Any = None, accept_options: bool = False) -> Any:
            return make_callable_of(session, run, fetches, feed_list, accept_options)

        def from_options(options: Any) -> Any:
            return callable_from_options(session, run, options)

        session.make_callable = make_callable
        _tf.set_methods(session, do_run=rehearsed.do_run, from_options=from_options)

    def configure(self, config: tf.ConfigProto | None, graph: tf.Graph | None) -> tf.ConfigProto | None:
        """The configuration of a session: on this machine's CPU, whatever devices ops name."""
        made = tf.ConfigProto()
        if isinstance(config, tf.ConfigProto):
            made.CopyFrom(config)
        made.allow_soft_placement = True
        return made

    def end(self, met: Met) -> None:
        """Ends the script; the first step that is met counts.

        Raises:
            TrainingStepMet: always.
        """
        self.met = self.met or met
        self.proceed.set()
        self._ending.end(TrainingStepMet())


@dataclasses.dataclass(frozen=True)
class _PutOff:
    """A run that was put off."""

    call: tuple[Any, ...]
    ops: tuple[Op, ...]
    done: set[str] = dataclasses.field(default_factory=set[str])
    """The ops that were run since."""

    def pending(self, program: Program) -> set[str]:
        """What it would set."""
        return {handle for op in self.ops if op.name not in self.done for handle in _sets(program, op)}


class _Rehearsed:
    """The runs of one session."""

    def __init__(self, session: Any, rehearsal: Rehearsal) -> None:
        self.session = session
        self.rehearsal = rehearsal
        self._really = _tf.do_run(session)
        self._captured = self._program = Program({})
        self._version = -1
        self._put_off: list[_PutOff] = []
        self._looked = False
        """Whether the script has read a value, so that threads fill queues."""
        self._thread = threading.get_ident()
        self._lock = threading.RLock()

    def do_run(self, handle: Any, targets: Any, fetches: Any, feeds: Any, options: Any, metadata: Any) -> Any:
        """In the place of the session's own method."""
        call = (handle, targets, fetches, feeds, options, metadata)
        if handle is not None:
            return self._really(*call)
        run = run_of(targets, fetches, [(ref.deref(), value) for ref, value in feeds.items()])
        signature = run.signature
        with self._lock:
            program = self._completed()
        ops = reachable(program, signature.fetches, signature.targets, signature.feeds)
        if trains(program, ops):
            self.rehearsal.end(Met(self.session.graph, program, run))
        if threading.get_ident() != self._thread and not fetches:
            self.rehearsal.proceed.wait()
            if not self._looked:
                raise tf.errors.OutOfRangeError(None, None, "the rehearsal is over, and nothing was initialised")
            return self._really(*call)
        with self._lock:
            if not fetches:
                self._put_off.append(_PutOff(call, ops))
                return []
            questions = {t for op in ops if op.type in ASKS for t in op.outputs_named()}
            rest = reachable(program, signature.fetches, signature.targets, (*signature.feeds, *questions))
            self._make_up(program, {op.name for op in rest if op.stateful})
            pending = {handle for put_off in self._put_off for handle in put_off.pending(program)}
            answered = {t for t in questions if _handle(program, program.producer(t).inputs[0]) in pending}
        # Without the lock: it may wait for a thread that fills a queue.
        return self._answer(call, answered)

    def _answer(self, call: tuple[Any, ...], answered: set[str]) -> list[Any]:
        """A run in which some variables are taken to be initialised."""
        handle, targets, fetches, feeds, options, metadata = call
        answers = {self.session.graph.get_tensor_by_name(name).ref(): True for name in answered}
        asked = [tensor for tensor in fetches if tensor.name not in answered]
        values = iter(self._really(handle, targets, asked, {**feeds, **answers}, options, metadata))
        return [np.bool_(True) if tensor.name in answered else next(values) for tensor in fetches]

    def _make_up(self, program: Program, read: set[str]) -> None:
        """Runs what was put off as far as it sets what is read: variables, iterators, tables, queues."""
        for put_off in self._put_off:
            due = [op.name for op in put_off.ops if op.name not in put_off.done and _sets(program, op) & read]
            if due:
                put_off.done.update(due)
                handle, _, fetches, feeds, options, metadata = put_off.call
                targets = [self.session.graph.get_operation_by_name(name) for name in due]
                self._really(handle, targets, fetches, feeds, options, metadata)
        if read:
            self._looked = True
            self.rehearsal.proceed.set()

    def _completed(self) -> Program:
        graph = self.session.graph
        version = _tf.graph_version(graph)
        if version != self._version:
            check_size(graph)
            if annotations_of(graph) is not None:
                check_closed(graph)
                check_nonempty(graph)
            self._captured = capture(graph, self._captured)
            self._program = complete(self._captured, graph)
            self._version = version
        return self._program


def _sets(program: Program, op: Op) -> set[str]:
    """The variable, iterator, table or queue that an op with side effects works on."""
    return {_handle(program, tensor) for tensor in op.inputs} if op.stateful or writes_variable(op.type) else set()


def _handle(program: Program, tensor: str) -> str:
    """The op that holds what a handle or reference stands for."""
    return holder_of(program.ops, tensor) or program.producer(tensor).name


def _save_nothing(saver: Any, session: Any, save_path: str, global_step: Any = None, **kwargs: Any) -> str:
    """In the place of ``Saver.save``: a rehearsal leaves no checkpoints behind."""
    return save_path
