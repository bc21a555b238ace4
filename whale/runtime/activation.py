"""Whale in a process: the seam at ``BaseSession``, which can be undone."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import Any

import tensorflow.compat.v1 as tf

from whale import _tf
from whale.rewriter.keys import KeyAllocator
from whale.runtime.binding import Binding
from whale.runtime.in_force import InForce
from whale.runtime.options import Options
from whale.runtime.report import Report

_BINDING = "_whale_binding"


class Activation:
    """Sessions made while it is active are bound to the cluster's devices."""

    def __init__(self, options: Options) -> None:
        self.options = options
        options.plan()  # a plan that does not fit is refused before anything runs
        self.reports: list[Report] = []
        self._keys = KeyAllocator()
        self._lock = threading.Lock()
        self._undo = _tf.patch(_tf.BaseSession, self._replacements())

    def close(self) -> None:
        """Restores TensorFlow; sessions already bound stay bound."""
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
        """Gives a new session a shadow graph, unless it runs elsewhere than on our devices."""
        if len(self.options.cluster.compute_devices) < 2:
            return
        if session._target:
            target = session._target.decode()
            self._announce(Report(0, False, True, f"the session runs on {target}, which the script chose itself"))
            return
        binding = Binding(session, self.options, self._keys, self._announce)
        _tf.replace_session(session, _tf.new_session(binding.shadow.graph, session._target, session._config))
        setattr(session, _BINDING, binding)

    def configure(self, config: tf.ConfigProto | None) -> tf.ConfigProto:
        """A session's configuration with our devices in it."""
        made = tf.ConfigProto()
        if config is not None:
            made.CopyFrom(config)
        devices = self.options.cluster.compute_devices
        if all(d.kind == "CPU" for d in devices):
            made.device_count["CPU"] = max(len(devices), made.device_count["CPU"])
        if not made.inter_op_parallelism_threads:
            made.inter_op_parallelism_threads = max(2 * len(devices), 4)
        made.allow_soft_placement = True
        return made

    def _announce(self, report: Report) -> None:
        with self._lock:
            self.reports.append(report)
        if report.trains and not self.options.quiet:
            print(report.text(), file=sys.stderr, flush=True)

    def _replacements(self) -> dict[str, Any]:
        base = _tf.BaseSession
        init, do_run, extend = base.__init__, base._do_run, base._extend_graph
        run, make_callable, from_options = base.run, base.make_callable, base._make_callable_from_options
        activation = self

        def __init__(session: Any, target: str = "", graph: Any = None, config: Any = None) -> None:
            ours = not target and len(activation.options.cluster.compute_devices) > 1
            init(session, target, graph, activation.configure(config) if ours else config)
            activation.bind(session)

        def _do_run(
            session: Any, handle: Any, targets: Any, fetches: Any, feeds: Any, options: Any, metadata: Any
        ) -> Any:
            binding = getattr(session, _BINDING, None)
            if binding is None or handle is not None:
                return do_run(session, handle, targets, fetches, feeds, options, metadata)
            pairs = [(ref.deref(), value) for ref, value in feeds.items()]
            return session._do_call(binding.run, targets, fetches, pairs, options, metadata)

        def _extend_graph(session: Any) -> None:
            binding = getattr(session, _BINDING, None)
            if binding is None:
                extend(session)
            else:
                binding.refresh()

        def callable_(session: Any, fetches: Any, feed_list: Any = None, accept_options: bool = False) -> Any:
            if getattr(session, _BINDING, None) is None:
                return make_callable(session, fetches, feed_list, accept_options)
            return _callable(session, run, fetches, feed_list or [], accept_options)

        def callable_from_options(session: Any, options: Any) -> Any:
            if getattr(session, _BINDING, None) is None:
                return from_options(session, options)
            return _callable_from_options(session, run, options)

        return {
            "__init__": __init__,
            "_do_run": _do_run,
            "_extend_graph": _extend_graph,
            "make_callable": callable_,
            "_make_callable_from_options": callable_from_options,
        }


def _callable(session: Any, run: Any, fetches: Any, feed_list: Any, accept_options: bool) -> Any:
    """``make_callable``: a run with the feeds as positional arguments; like TensorFlow's it does not pass through
    whatever a script put in the place of ``Session.run``."""

    def call(*values: Any, **kwargs: Any) -> Any:
        if kwargs and not accept_options:
            raise TypeError(f"unexpected keyword arguments {sorted(kwargs)}")
        if len(values) != len(feed_list):
            raise TypeError(f"expected {len(feed_list)} arguments, got {len(values)}")
        return run(session, fetches, feed_dict=dict(zip(feed_list, values)), **kwargs)

    return call


def _callable_from_options(session: Any, run: Any, options: Any) -> Any:
    """``_make_callable_from_options``: fetches, targets and feeds by name."""
    graph = session.graph
    fetches = [graph.as_graph_element(name, allow_operation=False) for name in options.fetch]
    targets = [graph.as_graph_element(name, allow_tensor=False) for name in options.target]
    feeds = [graph.as_graph_element(name, allow_operation=False) for name in options.feed]

    def call(*values: Any, run_metadata: Any = None) -> Any:
        kwargs: dict[str, Any] = {"run_metadata": run_metadata} if run_metadata is not None else {}
        if run_metadata is not None:
            kwargs["options"] = options.run_options
        return run(session, [fetches, targets], feed_dict=dict(zip(feeds, values)), **kwargs)[0]

    return call


def activate(options: Options) -> Activation:
    """Binds every session made from now on to the devices of a cluster; close it, or leave its context, to undo."""
    activation = Activation(options)
    InForce.set(InForce(activation, options))
    return activation
