"""A script run on one device for a few training steps, which are timed and traced.

Nothing is rewritten and nothing put off: the script trains as it does without Whale, and is ended after the last step
that is measured. Steps are timed and traced in turn, as a trace takes time itself.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from whale import _tf
from whale.annotations.capture import capture
from whale.annotations.variables import complete
from whale.ir.program import Program, reachable
from whale.runtime.activation import Activation
from whale.runtime.callables import callable_from_options, make_callable_of
from whale.runtime.ending import Ending
from whale.runtime.options import Options
from whale.runtime.planning.training_step import trains
from whale.runtime.profiling.trace import Trace, read_trace
from whale.runtime.signature import Run, run_of

WARM_UP = 2
"""First steps, which are not measured: TensorFlow prepares its executors, libraries try out algorithms."""


class StepsMeasured(SystemExit):
    """Ends a script after its last measured step. As it is a SystemExit, ``except Exception`` lets it pass."""

    def __init__(self) -> None:
        super().__init__(0)


@dataclasses.dataclass(frozen=True)
class Profiled:
    """The first kind of training step of a script, measured."""

    graph: tf.Graph
    """The user's."""
    program: Program
    """The captured graph, with phases and variables."""
    run: Run
    """What the script fetches, runs and feeds."""
    seconds: tuple[float, ...]
    """Of the steps that were timed, without a trace."""
    traces: tuple[Trace, ...]
    """Of the steps in between, which the trace made slower."""


class Profiling(Activation):
    """While it is active, training steps are timed and traced in turn, and the script ends after the last of them."""

    def __init__(self, options: Options, steps: int, at_last: Callable[[], None]) -> None:
        """Makes it active.

        Args:
            options: the one device that is profiled.
            steps: how many steps to time, and as many to trace.
            at_last: as for ``Ending``.
        """
        super().__init__(options)
        self._steps = steps
        self._ending = Ending(at_last)
        self._kind: tuple[tf.Graph, Program, Run] | None = None
        self._met = 0
        self._seconds: list[float] = []
        self._traces: list[Trace] = []
        self._busy = threading.Lock()

    def profiled(self) -> Profiled | None:
        """What was measured so far; None before a step was both timed and traced."""
        if self._kind is None or not self._traces:
            return None
        graph, program, run = self._kind
        return Profiled(graph, program, run, tuple(self._seconds), tuple(self._traces))

    @property
    def trace_level(self) -> Any:
        """What TensorFlow is to trace: of a GPU its kernels too; of a CPU the ops, for which it starts no profiler."""
        (device,) = self.options.cluster.compute_devices
        return tf.RunOptions.FULL_TRACE if device.kind == "GPU" else tf.RunOptions.SOFTWARE_TRACE

    @property
    def met(self) -> int:
        """Training steps of the profiled kind so far."""
        return self._met

    @property
    def is_over(self) -> bool:
        """Whether all steps were measured."""
        return len(self._traces) == self._steps

    def bind(self, session: Any) -> None:
        """Gives a new session methods that measure."""
        self.sessions += 1
        if _tf.target_of(session):
            return  # runs on devices that are not ours
        measured = _Measured(session, self, self._run)
        run = self._run

        def make_callable(fetches: Any, feed_list: Any = None, accept_options: bool = False) -> Any:
            return make_callable_of(session, run, fetches, feed_list, accept_options)

        session.run = measured.run

        def from_options(options: Any) -> Any:
            return callable_from_options(session, run, options)

        session.make_callable = make_callable
        _tf.set_methods(session, do_run=measured.do_run, from_options=from_options)

    def configure(self, config: tf.ConfigProto | None, graph: tf.Graph | None) -> tf.ConfigProto | None:
        """The configuration of a session: the script's own, on the one device."""
        if config is not None and not isinstance(config, tf.ConfigProto):
            return config  # TensorFlow says what is wrong with it
        if any(device.kind == "CPU" for device in self.options.cluster.compute_devices):
            return config
        made = tf.ConfigProto()
        if config is not None:
            made.CopyFrom(config)
        made.gpu_options.visible_device_list = self.options.shown_gpus(made.gpu_options.visible_device_list)
        return made

    def measure(self, graph: tf.Graph, program: Program, run: Run, timed: Callable[[], Any], traced: Any) -> Any:
        """Runs a training step, of the kind that was met first, and measures it.

        Args:
            graph: the user's.
            program: what was captured of it.
            run: the step.
            timed: runs it.
            traced: the same with a trace: its result, and the ``step_stats``.

        Raises:
            StepsMeasured: it was the last one.
        """
        if not self._busy.acquire(blocking=False):
            return timed()  # another thread's step is being measured
        try:
            if self._kind is None:
                self._kind = (graph, program, run)
            first = self._kind[2]
            if self._kind[0] is not graph or (run.signature, run.shapes) != (first.signature, first.shapes):
                return timed()  # another kind, or a batch of another size
            if self.is_over:
                self._ending.end(StepsMeasured())  # the script caught what was to end it
            self._met += 1
            if self._met < WARM_UP:
                return timed()
            if self._met == WARM_UP:
                return traced()[0]  # the first trace of a process starts the tracer
            if len(self._seconds) == len(self._traces):
                begin = time.perf_counter()
                result = timed()
                self._seconds.append(time.perf_counter() - begin)
                return result
            result, stats = traced()
            (device,) = self.options.cluster.compute_devices
            self._traces.append(read_trace(stats, device.kind))
        finally:
            self._busy.release()
        if self.is_over:
            self._ending.end(StepsMeasured())
        return result


class _Measured:
    """The runs of one session."""

    def __init__(self, session: Any, profiling: Profiling, run: Any) -> None:
        self.session = session
        self.profiling = profiling
        self._run = run
        self._really = _tf.do_run(session)
        self._captured = self._program = Program({})
        self._version = -1
        self._trains: dict[object, bool] = {}
        self._lock = threading.RLock()
        self._inner = threading.local()

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """In the place of ``Session.run``: sees what the script asks to be traced, which TensorFlow then encodes."""
        self._inner.traces = options is not None and options.trace_level > tf.RunOptions.NO_TRACE
        try:
            return self._run(self.session, fetches, feed_dict, options, run_metadata)
        finally:
            self._inner.traces = False

    def do_run(self, handle: Any, targets: Any, fetches: Any, feeds: Any, options: Any, metadata: Any) -> Any:
        """In the place of the session's own method."""

        def really() -> Any:
            return self._really(handle, targets, fetches, feeds, options, metadata)

        if handle is not None or getattr(self._inner, "traces", False):
            return really()  # a partial run, the script's own trace, or that of ours below
        pairs = [(ref.deref(), value) for ref, value in feeds.items()]
        run = run_of(targets, fetches, pairs)
        with self._lock:
            program = self._completed()
            trains = self._is_training(program, run)
        if not trains:
            return really()
        return self.profiling.measure(
            self.session.graph, program, run, really, lambda: self._traced(targets, fetches, pairs)
        )

    def _traced(self, targets: Any, fetches: Any, feeds: Any) -> tuple[Any, Any]:
        metadata = tf.RunMetadata()
        options = tf.RunOptions(trace_level=self.profiling.trace_level)
        values = self.run([*fetches, *targets], dict(feeds), options, metadata)
        return values[: len(fetches)], metadata.step_stats

    def _is_training(self, program: Program, run: Run) -> bool:
        """Whether a run trains."""
        signature = run.signature
        found = self._trains.get(signature)
        if found is None:
            ops = reachable(program, signature.fetches, signature.targets, signature.feeds)
            found = self._trains[signature] = trains(program, ops)
        return found

    def _completed(self) -> Program:
        graph = self.session.graph
        version = _tf.graph_version(graph)
        if version != self._version:
            self._captured = capture(graph, self._captured)
            self._program = complete(self._captured, graph)
            self._version = version
            self._trains.clear()
        return self._program
