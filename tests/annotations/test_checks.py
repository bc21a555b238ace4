"""What is checked when a session first runs."""

from __future__ import annotations

import functools
import inspect
import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import whale as wh
from whale.annotations.checks import check_closed, check_nonempty, check_size
from whale.errors import Site
from whale.runtime import binding


def test_a_graph_without_annotations_passes() -> None:
    graph = tf.Graph()
    check_closed(graph)
    check_nonempty(graph)


def test_closed_scopes_with_ops_pass(graph: tf.Graph) -> None:
    with wh.replica():
        tf.constant(1.0)
    wh.set_default_strategy(wh.replica())
    check_closed(graph)
    check_nonempty(graph)


def test_a_scope_left_open_is_named_with_its_line(graph: tf.Graph) -> None:
    scope = wh.replica(name="model")
    scope.__enter__()
    tf.constant(1.0)
    with pytest.raises(wh.ScopeError, match="a session runs while the scope replica 'model' is open") as caught:
        check_closed(graph)
    assert caught.value.site is not None and caught.value.site.path == __file__
    scope.__exit__(None)
    check_closed(graph)


def test_a_scope_open_around_the_building_of_another_graph(graph: tf.Graph) -> None:
    other = tf.Graph()
    with wh.replica(), pytest.raises(wh.ScopeError, match="set_default_strategy or put"):
        check_closed(other)


def test_a_scope_that_another_thread_has_open_in_another_graph(graph: tf.Graph) -> None:
    found: list[BaseException] = []

    def run() -> None:
        try:
            check_closed(tf.Graph())
        except wh.ScopeError as error:
            found.append(error)

    with wh.replica():
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    assert not found


def test_all_empty_scopes_are_named(graph: tf.Graph) -> None:
    with wh.replica(name="a"):
        pass
    with wh.replica(name="b"):
        tf.constant(1.0)
    with wh.replica(name="c"), tf.Graph().as_default():
        tf.constant(1.0)
    with pytest.raises(wh.ScopeError, match="no op was made inside the scope replica 'a', replica 'c' at ") as caught:
        check_nonempty(graph)
    assert caught.value.site is not None and caught.value.site.path == __file__


def test_a_scope_that_raised_is_not_called_empty(graph: tf.Graph) -> None:
    with pytest.raises(LookupError), wh.replica():
        raise LookupError
    check_nonempty(graph)


# -- size ------------------------------------------------------------------------------------------------------


def test_a_graph_that_is_too_large_to_copy_names_its_largest_constant(graph: tf.Graph) -> None:
    small = np.ones([1000], np.float32)
    tf.constant(small, name="first")
    tf.constant(["text", "more text"])
    tf.constant(np.ones([3000], np.float32), name="second")
    line = inspect.currentframe().f_lineno - 1  # pyright: ignore[reportOptionalMemberAccess]
    check_size(graph)
    check_size(graph, 16_000)
    with pytest.raises(wh.CaptureError, match="the largest is 'second'") as caught:
        check_size(graph, 15_999)
    assert caught.value.site == Site(__file__, line)
    assert "placeholder" in caught.value.fix and "--devices 1" in caught.value.fix


def test_the_size_is_checked_before_a_run_copies_the_graph(graph: tf.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    limited = functools.partial(check_size, most_bytes=1000)
    monkeypatch.setattr(binding, "check_size", limited)
    total = tf.reduce_sum(tf.constant(np.ones([200], np.float32)))
    with tf.Session() as session:
        assert session.run(total) == 200
        more = tf.reduce_sum(tf.constant(np.ones([200], np.float32)))
        with pytest.raises(wh.CaptureError, match=r"constants of 0\.00 GB"):
            session.run(more)
