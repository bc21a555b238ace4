"""Errors of TensorFlow that a script meets, or catches, are the same on several devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from whale.cluster import Cluster
from whale.runtime.activation import activate
from whale.runtime.options import Options


def raised_by(call: Callable[[Any, dict[str, Any]], Any]) -> BaseException:
    """What a call raises, given a session and the tensors of a model; ``other`` ones are of another graph."""
    with tf.Graph().as_default():
        other = {"other": tf.constant(2.0, name="other"), "fed": tf.placeholder(tf.float32, name="fed")}
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 3], "x")
        weights = tf.get_variable("w", [3, 1], initializer=tf.ones_initializer())
        late = tf.get_variable("late", [3, 1], initializer=tf.ones_initializer())
        finite = tf.check_numerics(tf.matmul(x, weights), "bad number", name="finite")
        model = {**other, "x": x, "loss": tf.reduce_mean(tf.square(finite)), "late": tf.matmul(x, late, name="product")}
        with tf.Session() as session:
            session.run(weights.initializer)
            session.run(model["loss"], {x: np.ones([8, 3])})
            with pytest.raises(Exception) as caught:
                call(session, model)
    return caught.value


def plain_and_bound(call: Callable[[Any, dict[str, Any]], Any]) -> tuple[BaseException, BaseException]:
    """What it raises on one device, and on two."""
    plain = raised_by(call)
    with activate(Options(cluster=Cluster.local(2), quiet=True)) as activation:
        bound = raised_by(call)
    assert any(report.cut for report in activation.reports)
    return plain, bound


ROWS = np.ones([8, 3])


@pytest.mark.parametrize(
    "call",
    [
        lambda s, m: s.run(m["other"]),
        lambda s, m: s.run([m["loss"], m["other"].op], {m["x"]: ROWS}),
        lambda s, m: s.run({"a": m["other"]}),
        lambda s, m: s.run(m["loss"], {m["fed"]: 1.0}),
        lambda s, m: s.run("no_such:0"),
        lambda s, m: s.run(None),
        lambda s, m: s.make_callable(m["other"]),
        lambda s, m: s.make_callable(m["loss"], [m["fed"]])(1.0),
        lambda s, m: s.run(m["loss"], {m["x"]: np.ones([8, 4])}),
        lambda s, m: s.run(m["loss"], {m["x"]: [["a", "b", "c"]]}),
        lambda s, m: s.run(m["loss"], {m["x"]: m["x"]}),
        lambda s, m: (s.close(), s.run(m["loss"], {m["x"]: ROWS})),
    ],
)
def test_what_does_not_belong_to_the_session_is_told_in_tensorflows_words(call: Any) -> None:
    plain, bound = plain_and_bound(call)
    assert type(bound) is type(plain)
    assert str(bound) == str(plain)


@pytest.mark.parametrize(
    ("call", "kind", "op"),
    [
        (lambda s, m: s.run(m["loss"]), tf.errors.InvalidArgumentError, "x"),
        (
            lambda s, m: s.run(m["loss"], {m["x"]: np.where(ROWS > 0, np.nan, 0)}),
            tf.errors.InvalidArgumentError,
            "finite",
        ),
        (lambda s, m: s.run(m["late"], {m["x"]: ROWS}), tf.errors.FailedPreconditionError, None),
    ],
)
def test_an_op_that_fails_is_the_users(call: Any, kind: type[tf.errors.OpError], op: str | None) -> None:
    plain, bound = plain_and_bound(call)
    assert isinstance(plain, kind) and isinstance(bound, kind)
    assert isinstance(plain, tf.errors.OpError) and isinstance(bound, tf.errors.OpError)
    assert plain.op is not None and bound.op is not None
    assert op is None or bound.op.name == plain.op.name == op
    assert "replica_" not in bound.message and "whale/" not in bound.message.replace("/whale/", "")


@pytest.mark.parametrize(
    "call",
    [
        lambda s, m: s.make_callable(m["loss"], m["x"]),
        lambda s, m: s.make_callable(m["loss"], [m["x"]])(ROWS, unknown=1),
        lambda s, m: s.make_callable(m["loss"])(ROWS),
        lambda s, m: s.make_callable(m["loss"])(unknown=1),
    ],
)
def test_a_callable_refuses_what_tensorflows_does(call: Any) -> None:
    plain, bound = plain_and_bound(call)
    assert type(bound) is type(plain) is TypeError


def test_a_callable_takes_fewer_values_than_it_was_made_for() -> None:
    """Those left out are not fed; more than it was made for are left alone, as TensorFlow does."""

    def results() -> list[float]:
        with tf.Graph().as_default():
            x = tf.placeholder(tf.float32, [None, 3])
            scale = tf.placeholder_with_default(2.0, [])
            loss = tf.reduce_mean(tf.square(x * scale))
            with tf.Session() as session:
                call = session.make_callable(loss, [x, scale])
                return [call(ROWS), call(ROWS, 3.0), call(ROWS, 3.0, 7.0)]

    plain = results()
    with activate(Options(cluster=Cluster.local(2), quiet=True)):
        assert results() == plain == [4.0, 9.0, 9.0]
