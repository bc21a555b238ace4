"""Whale in a process: the seam at ``BaseSession``, which can be undone."""

from __future__ import annotations

import sys
import threading
import weakref
from types import TracebackType
from typing import Any

import tensorflow.compat.v1 as tf

from whale import _tf
from whale.annotations.checks import check_closed, check_nonempty
from whale.annotations.state import annotations_of, script
from whale.config.setting import script_site
from whale.errors import SessionError
from whale.rewriter.keys import KeyAllocator
from whale.runtime import graph_optimizer
from whale.runtime.binding import Binding, alive
from whale.runtime.callables import callable_from_options, make_callable_of
from whale.runtime.hang import Watcher
from whale.runtime.in_force import InForce
from whale.runtime.options import Options
from whale.runtime.pipelining import requested
from whale.runtime.report import Report


class Activation:
    """Sessions made while it is active are bound to the cluster's devices."""

    def __init__(self, options: Options) -> None:
        self.options = options
        options.plan()  # a plan that does not fit is refused before anything runs
        self.reports: list[Report] = []
        self.sessions = 0
        """Sessions made so far, here or on a target of the script's own."""
        self._keys = KeyAllocator()
        self._watcher = Watcher(self._tell)
        self._lock = threading.Lock()
        self._run = _tf.BaseSession.run
        self._undo = _tf.patch(_tf.BaseSession, {"__init__": self._constructor()})

    def close(self) -> None:
        """Restores TensorFlow for sessions made from now on; those already bound stay bound, and go on being cut."""
        if self._undo is not None:
            self._undo()
            self._undo = None
        InForce.drop(self)

    def __enter__(self) -> Activation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def bind(self, session: Any) -> None:
        """Gives a new session a shadow graph and methods that run it, unless it runs elsewhere than on our devices."""
        self.sessions += 1
        if not self._rewrites(session.graph):
            if script().is_annotated:
                _tf.set_methods(session, do_run=_checking(session))
            return
        target = _tf.target_of(session)
        if target:
            self._announce(Report(0, False, True, f"the session runs on {target}, which the script chose itself"))
            return
        binding = Binding(session, self.options, self._keys, self._announce, self._watcher)
        _tf.drive(session, binding.shadow.graph)
        _set_methods(session, binding, self._run)
        session.whale_binding = binding  # for whale.explain

    def _rewrites(self, graph: tf.Graph) -> bool:
        """Whether a graph is rewritten: for several devices, or on one for the micro-batches that it asks for."""
        return len(self.options.cluster.compute_devices) > 1 or self._parts(graph)[1] > 1

    def _parts(self, graph: tf.Graph) -> tuple[int, int]:
        """The number of stages and of micro-batches that a graph or the plan asks for."""
        plan, request = self.options.plan(), requested(annotations_of(graph), self.options)
        if request is None:
            return max(len(plan.stages), 1), max(plan.micro_batches, 1)
        return max(len(plan.stages or request.stages), 1), max(plan.micro_batches or request.micro_batches, 1)

    def _copies(self, graph: tf.Graph) -> int:
        """How many copies a training step has of an op: a loop over micro-batches holds one for all of them."""
        devices, (stages, micro_batches) = len(self.options.cluster.compute_devices), self._parts(graph)
        return devices if stages == 1 else max(devices // stages, 1) * micro_batches

    def configure(self, config: tf.ConfigProto | None, graph: tf.Graph | None) -> tf.ConfigProto | None:
        """The configuration of a session on our devices.

        Raises:
            ClusterError: the script's own shows TensorFlow fewer GPUs than there are devices.
        """
        if config is not None and not isinstance(config, tf.ConfigProto):
            return config  # TensorFlow says what is wrong with it
        devices = self.options.cluster.compute_devices
        on_gpus = all(d.kind == "GPU" for d in devices)
        graph = graph or tf.get_default_graph()
        rewrites = self._rewrites(graph)
        if not rewrites and not on_gpus:
            return config
        made = tf.ConfigProto()
        if config is not None:
            made.CopyFrom(config)
        if on_gpus:
            made.gpu_options.visible_device_list = self.options.shown_gpus(made.gpu_options.visible_device_list)
        else:
            made.device_count["CPU"] = max(len(devices), made.device_count["CPU"])
        if rewrites:
            made.inter_op_parallelism_threads = made.inter_op_parallelism_threads or max(2 * len(devices), 4)
            made.allow_soft_placement = True
            graph_optimizer.limit(made, graph, self._copies(graph), on_gpus)
        return made

    def _announce(self, report: Report) -> None:
        with self._lock:
            self.reports.append(report)
        if (report.trains or report.renews or report.notice or report.fault) and not self.options.quiet:
            print(report.text(), file=sys.stderr, flush=True)

    def _tell(self, line: str) -> None:
        self._announce(Report(0, False, False, line, notice=True))

    def _constructor(self) -> Any:
        init, activation = _tf.BaseSession.__init__, self

        def __init__(session: Any, target: str = "", graph: Any = None, config: Any = None) -> None:
            init(session, target, graph, config if target else activation.configure(config, graph))
            activation.bind(session)

        return __init__


def _checking(session: Any) -> Any:
    """A first run that checks the scopes as one on several devices would, so that a mistake shows on one."""
    really = _tf.do_run(session)

    def do_run(*arguments: Any) -> Any:
        check_closed(session.graph)
        check_nonempty(session.graph)
        _tf.set_methods(session, do_run=really)
        return really(*arguments)

    return do_run


def _set_methods(session: Any, binding: Binding, run: Any) -> None:
    """Gives a bound session its methods. They are its own, not its class's, so they stay when TensorFlow is restored.

    They do not hold it: it holds them, and is released with its last holder, as under plain TensorFlow.
    """
    kind, owner = type(session), weakref.ref(session)

    def do_run(handle: Any, targets: Any, fetches: Any, feeds: Any, options: Any, metadata: Any) -> Any:
        session = alive(owner)
        if handle is not None:
            return _tf.class_do_run(session)(handle, targets, fetches, feeds, options, metadata)
        pairs = [(ref.deref(), value) for ref, value in feeds.items()]
        return _tf.with_session_errors(session, binding.run, targets, fetches, pairs, options, metadata)

    def make_callable(fetches: Any, feed_list: Any = None, accept_options: bool = False) -> Any:
        return make_callable_of(alive(owner), run, fetches, feed_list, accept_options)

    def from_options(callable_options: Any) -> Any:
        return callable_from_options(alive(owner), run, callable_options)

    def partial_run_setup(fetches: Any, feeds: Any = None) -> Any:
        session = alive(owner)
        binding.refresh()
        elements = [session.graph.as_graph_element(fetch) for fetch in tf.nest.flatten(fetches)]
        targets = [element for element in elements if isinstance(element, tf.Operation)]
        tensors = [element for element in elements if not isinstance(element, tf.Operation)]
        fed = [session.graph.as_graph_element(feed, allow_operation=False) for feed in feeds or []]
        if binding.senders(targets, tensors, fed):
            raise SessionError(
                "partial_run reaches a random op whose shape is worked out in the graph, and several devices share it",
                site=script_site(),
                fix="use run instead of partial_run, or one device (--devices 1)",
            )
        return kind.partial_run_setup(session, fetches, feeds)

    session.make_callable, session.partial_run_setup = make_callable, partial_run_setup
    _tf.set_methods(session, do_run=do_run, extend_graph=binding.refresh, from_options=from_options)


def activate(options: Options) -> Activation:
    """Binds every session made from now on to the devices of a cluster; close it, or leave its context, to undo."""
    activation = Activation(options)
    InForce.set(InForce(activation, options))
    return activation
