"""``make_callable`` and its kin for sessions whose runs are Whale's."""

from __future__ import annotations

from typing import Any

from whale import _tf


def make_callable_of(session: Any, run: Any, fetches: Any, feed_list: Any, accept_options: bool) -> Any:
    """``Session.make_callable``, going through a session's ``run``.

    Raises:
        TypeError, ValueError: as TensorFlow's.
    """
    if feed_list is None:
        _tf.check_fetches(session.graph, fetches)  # with feeds TensorFlow leaves it to the call as well
    elif not isinstance(feed_list, (list, tuple)):
        raise TypeError(f"feed_list must be a list or tuple of what run takes as feeds, not {feed_list!r}")
    return _callable(session, run, fetches, feed_list, accept_options)


def _callable(session: Any, run: Any, fetches: Any, feed_list: Any, accept_options: bool) -> Any:
    """``make_callable``: a run with the feeds as positional arguments; like TensorFlow's it does not pass through
    whatever a script put in the place of ``Session.run``. Feeds that are left out at the end are not fed."""

    def call(*values: Any, **kwargs: Any) -> Any:
        if feed_list is None and values:
            raise TypeError(f"expected no arguments, got {len(values)}")
        if feed_list is None and kwargs and not accept_options:
            raise TypeError(f"unexpected keyword arguments {sorted(kwargs)}")
        return run(session, fetches, feed_dict=dict(zip(feed_list or (), values)), **kwargs)

    return call


def callable_from_options(session: Any, run: Any, options: Any) -> Any:
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
