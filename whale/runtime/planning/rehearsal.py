"""A script run up to its first training step, without training.

Runs before it that fetch nothing are put off: initialisers of variables, tables and iterators, restores. A run that
fetches a value makes up for them first, except where it only asks whether variables are initialised: it is told of
those that would be. Threads that fill queues wait until then, as what they read is not initialised.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from whale import _tf
from whale.annotations.capture import capture
from whale.annotations.checks import check_closed, check_nonempty, check_size
from whale.annotations.op_kinds import ASKS
from whale.annotations.state import annotations_of
from whale.annotations.variables import complete
from whale.ir.program import Op, Phase, Program, reachable
from whale.runtime.activation import Activation
from whale.runtime.callables import callable_from_options, make_callable_of
from whale.runtime.options import Options
from whale.runtime.signature import Run, run_of
from whale.sharding.rules.state import holder_of, writes_variable

_PATIENCE = 3
"""How often a script is told to end before its process is ended for it."""


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
            at_last: called before the process is ended with status 0, for a script that catches what ends it, or that
                trains in a thread, which cannot end the others.
        """
        super().__init__(options)
        self.met: Met | None = None
        self.proceed = threading.Event()
        """Set when threads that fill queues may go on."""
        self._at_last = at_last
        self._told = 0
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

        session._do_run = rehearsed.do_run
        session.make_callable = make_callable
        session._make_callable_from_options = lambda options: callable_from_options(session, run, options)

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
        self._told += 1
        if self._told == _PATIENCE or threading.current_thread() is not threading.main_thread():
            self._at_last()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
        raise TrainingStepMet


class _Rehearsed:
    """The runs of one session."""

    def __init__(self, session: Any, rehearsal: Rehearsal) -> None:
        self.session = session
        self.rehearsal = rehearsal
        self._really = session._do_run
        self._captured = self._program = Program({})
        self._version = -1
        self._put_off: list[tuple[Any, ...]] = []
        self._pending: set[str] = set()
        """Variables that these write."""
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
        if _trains(program, ops):
            self.rehearsal.end(Met(self.session.graph, program, run))
        if threading.get_ident() != self._thread and not fetches:
            self.rehearsal.proceed.wait()
            if self._put_off:
                raise tf.errors.OutOfRangeError(None, None, "the rehearsal is over, and nothing was initialised")
            return self._really(*call)
        with self._lock:
            if not fetches:
                self._put_off.append(call)
                self._pending.update(_written(program, ops))
                return []
            questions = {t for op in ops if op.type in ASKS for t in op.outputs_named()}
            rest = reachable(program, signature.fetches, signature.targets, (*signature.feeds, *questions))
            if any(op.stateful for op in rest):
                self._make_up()
            answered = {t for t in questions if _asked_of(program, t) in self._pending}
        # Without the lock: it may wait for a thread that fills a queue.
        return self._answer(call, answered)

    def _answer(self, call: tuple[Any, ...], answered: set[str]) -> list[Any]:
        """A run in which some variables are taken to be initialised."""
        handle, targets, fetches, feeds, options, metadata = call
        answers = {self.session.graph.get_tensor_by_name(name).ref(): True for name in answered}
        asked = [tensor for tensor in fetches if tensor.name not in answered]
        values = iter(self._really(handle, targets, asked, {**feeds, **answers}, options, metadata))
        return [np.bool_(True) if tensor.name in answered else next(values) for tensor in fetches]

    def _make_up(self) -> None:
        put_off, self._put_off = self._put_off, []
        self._pending.clear()
        for call in put_off:
            self._really(*call)
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


def _trains(program: Program, ops: tuple[Op, ...]) -> bool:
    """Whether a run reaches gradients and the update of a variable."""
    if not any(op.phase is Phase.BACKWARD for op in ops):
        return False
    names = {op.name for op in ops}
    return any(not names.isdisjoint(variable.updates) for variable in program.variables.values())


def _written(program: Program, ops: Iterable[Op]) -> set[str]:
    """The variables that some ops write."""
    holders = {holder_of(program.ops, op.inputs[0]) for op in ops if writes_variable(op.type) and op.inputs}
    return {holder for holder in holders if holder is not None}


def _asked_of(program: Program, question: str) -> str | None:
    """The variable that an op asks whether it is initialised."""
    return holder_of(program.ops, program.producer(question).inputs[0])


def _save_nothing(saver: Any, session: Any, save_path: str, global_step: Any = None, **kwargs: Any) -> str:
    """In the place of ``Saver.save``: a rehearsal leaves no checkpoints behind."""
    return save_path
