"""A step that waits for itself is ended with an error that says who waits for what; a slow one is not."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.annotations.graphs import new_graph
from whale.cluster import Cluster
from whale.config import Config
from whale.errors import HangError
from whale.rewriter import collectives
from whale.rewriter.buckets import AllReduce
from whale.runtime.activation import Activation, activate
from whale.runtime.options import Options
from whale.sharding.residence import _Residence  # pyright: ignore[reportPrivateUsage] - to undo what prevents hangs

SECONDS = 0.6
"""What ``hang.seconds`` is here."""
SLOW = 2.2
"""What slow input takes, beyond the time after which a step would be ended."""


def activated(seconds: float = SECONDS, **settings: Any) -> Activation:
    """Two devices."""
    config = Config({"hang.seconds": seconds, "check.mode": "off", **settings})
    return activate(Options(cluster=Cluster.local(2), config=config, quiet=False))


def was_cut(activation: Activation) -> bool:
    """Whether the training step is."""
    return next(report.cut for report in activation.reports if report.trains)


def watchers() -> list[threading.Thread]:
    """The threads that watch steps."""
    return [thread for thread in threading.enumerate() if thread.name == "whale-hang"]


@pytest.fixture
def a_third_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums over devices wait for one more device than there is."""
    emit = AllReduce._collective  # pyright: ignore[reportPrivateUsage] - what makes the node

    def of_three(self: AllReduce, place: Any, value: str, *rest: Any) -> str:
        const = self.builder.const
        size = len(self.group.devices)

        def one_more(place: Any, value: Any, dtype: str) -> str:
            return const(place, 3 if value == size else value, dtype)

        with monkeypatch.context() as patch:
            patch.setattr(self.builder, "const", one_more)
            return emit(self, place, value, *rest)

    monkeypatch.setattr(AllReduce, "_collective", of_three)


@pytest.fixture
def graph() -> Iterator[tf.Graph]:
    """A graph of the test's own."""
    with new_graph() as graph:
        yield graph


def trained(batch: Any) -> tuple[tf.Operation, tf.Tensor, Any]:
    """A model: its step, its loss, its weights."""
    weights = tf.get_variable("weights", [4, 1], initializer=tf.ones_initializer())
    loss = tf.reduce_mean(tf.square(tf.matmul(batch, weights, name="product")))
    return tf.train.GradientDescentOptimizer(0.1).minimize(loss), loss, weights


ROWS = np.ones([8, 4], np.float32)


@pytest.mark.usefixtures("graph", "a_third_is_missing")
def test_a_member_that_is_missing_ends_the_step_with_the_names_of_those_that_wait() -> None:
    x = tf.placeholder(tf.float32, [None, 4], "x")
    with activated() as activation:
        train, _, weights = trained(x)
        session = tf.Session()
        session.run(weights.initializer)
        begin = time.monotonic()
        with pytest.raises(HangError) as caught:
            session.run(train, {x: ROWS})
    assert was_cut(activation)
    assert time.monotonic() - begin > SECONDS
    message = str(caught.value)
    assert "in the all-reduce of Identity 'gradients/product_grad/" in message
    assert f" at {__file__}:" in message
    assert "replica 0 on /device:CPU:0 is there, and waits for the others" in message
    assert "replica 1 on /device:CPU:1 is there, and waits for the others" in message
    assert "hang.seconds" in message and "--devices 1" in message and "checkpoint" in message
    with pytest.raises(RuntimeError, match="closed Session"):
        session.run(weights)


@pytest.mark.usefixtures("graph")
def test_after_a_step_was_ended_another_session_trains(
    monkeypatch: pytest.MonkeyPatch, a_third_is_missing: None
) -> None:
    x = tf.placeholder(tf.float32, [None, 4], "x")
    train, loss, weights = trained(x)
    with activated():
        with tf.Session() as session, pytest.raises(HangError):
            session.run(weights.initializer)
            session.run(train, {x: ROWS})
        monkeypatch.undo()
        with tf.Session() as session:
            session.run(weights.initializer)
            assert session.run([loss, train], {x: ROWS})[0] == 16
            assert session.run(loss, {x: ROWS}) < 16


@pytest.mark.usefixtures("graph")
def test_a_sum_that_waits_for_itself_is_named_with_what_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collectives, "check_waits", lambda *_: None)
    monkeypatch.setattr(_Residence, "_feeding_reductions", lambda self: set[str]())
    x, y = tf.placeholder(tf.float32, [None, 6, 5]), tf.placeholder(tf.float32, [None, 6, 8])
    weights = tf.get_variable("weights", [5, 8], initializer=tf.ones_initializer())
    again = tf.get_variable("again", [8, 8], initializer=tf.ones_initializer())
    rows = tf.TensorArray(tf.float32, 6).unstack(tf.transpose(x, [1, 0, 2]))

    def turn(i: Any, state: Any, made: Any) -> tuple[Any, Any, Any]:
        state = tf.tanh(tf.matmul(rows.read(i), weights) + tf.matmul(state, again))
        return i + 1, state, made.write(i, state)

    first = [0, tf.zeros([tf.shape(x)[0], 8]), tf.TensorArray(tf.float32, 6)]
    made = tf.while_loop(lambda i, *_: i < 6, turn, first)[2].stack()
    made.set_shape([6, None, 8])
    loss = tf.reduce_mean(tf.square(tf.transpose(made, [1, 0, 2]) - tf.reduce_mean(y, 0, name="middle")))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with activated(), tf.Session() as session:
        session.run([weights.initializer, again.initializer])
        with pytest.raises(HangError) as caught:
            session.run([train, loss], {x: np.ones([8, 6, 5]), y: np.ones([8, 6, 8])})
    message = str(caught.value)
    assert "a device waits for RealDiv 'run_2/replica_" in message and "which comes after it" in message
    assert "in the all-reduce of " in message and "over replica 0 on /device:CPU:0 ('" in message
    assert f" at {__file__}:" in message


def by_function() -> Any:
    """Rows that a Python function gives slowly."""
    rows = tf.py_func(lambda: time.sleep(SLOW) or ROWS, [], tf.float32)
    rows.set_shape([None, 4])
    return rows


def by_generator() -> Any:
    """Rows of a generator that is slow."""

    def rows() -> Iterator[Any]:
        while True:
            time.sleep(SLOW / 8)
            yield ROWS[0]

    return tf.data.make_one_shot_iterator(tf.data.Dataset.from_generator(rows, tf.float32, [4]).batch(8)).get_next()


def by_queue() -> Any:
    """Rows of a queue that is filled late by a thread of the script."""
    queue = tf.FIFOQueue(8, [tf.float32], [[4]])
    more = queue.enqueue_many([ROWS])

    def fill() -> None:
        time.sleep(SLOW)
        with contextlib.suppress(
            tf.errors.CancelledError
        ):  # the rows are taken, and the session closed, before it ends
            sessions["now"].run(more)

    threading.Thread(target=fill, daemon=True).start()
    return queue.dequeue_many(8)


sessions: dict[str, Any] = {}
"""The session that ``now`` waits for its input."""


@pytest.mark.usefixtures("graph")
@pytest.mark.parametrize("drawn", [by_function, by_generator, by_queue])
def test_a_step_that_waits_for_its_input_is_not_ended(
    drawn: Callable[[], Any], capfd: pytest.CaptureFixture[str]
) -> None:
    train, loss, weights = trained(drawn())
    with activated() as activation, tf.Session() as session:
        sessions["now"] = session
        session.run(weights.initializer)
        begin = time.monotonic()
        assert session.run([loss, train])[0] == 16
        assert time.monotonic() - begin > 2 * SECONDS
    assert any(report.cut for report in activation.reports)
    assert "is not ended: " in capfd.readouterr().err


@pytest.mark.usefixtures("graph", "a_third_is_missing")
@pytest.mark.parametrize("drawn", [by_function, by_queue])
def test_a_step_that_hangs_when_its_input_has_come_is_ended(drawn: Callable[[], Any]) -> None:
    train, _, weights = trained(drawn())
    with activated(), tf.Session() as session:
        sessions["now"] = session
        session.run(weights.initializer)
        begin = time.monotonic()
        with pytest.raises(HangError, match="is there, and waits for the others"):
            session.run(train)
        assert time.monotonic() - begin > SLOW


@pytest.mark.usefixtures("graph")
def test_one_long_kernel_is_not_ended(capfd: pytest.CaptureFixture[str]) -> None:
    x = tf.placeholder(tf.float32, [None, 4], "x")
    train, loss, weights = trained(x)
    long = tf.reduce_sum(tf.linalg.svd(tf.random_uniform([900, 900], dtype=tf.float64))[0])
    with activated(seconds=0.1) as activation, tf.Session() as session:
        session.run(weights.initializer)
        begin = time.monotonic()
        assert session.run([loss, train, long], {x: ROWS})[0] == 16
        assert time.monotonic() - begin > 3 * 0.1
    assert was_cut(activation)
    assert "threads of this process compute" in capfd.readouterr().err


@pytest.mark.usefixtures("graph", "a_third_is_missing")
def test_of_several_sessions_only_that_which_hangs_is_ended() -> None:
    train, _, weights = trained(tf.placeholder(tf.float32, [None, 4], "x"))
    with tf.Graph().as_default():
        slow, loss, others = trained(by_function())
        found: list[Any] = []
        with activated(), tf.Session() as patient:
            patient.run(others.initializer)
            thread = threading.Thread(target=lambda: found.append(patient.run(loss)))
            with tf.Session(graph=train.graph) as session:
                session.run(weights.initializer)
                thread.start()
                with pytest.raises(HangError):
                    session.run(train, {"x:0": ROWS})
            thread.join()
    assert found == [16]
    assert slow.graph is not train.graph


@pytest.mark.usefixtures("graph")
def test_a_step_that_is_not_cut_has_no_watcher_and_a_watcher_goes_with_the_last_step() -> None:
    x = tf.placeholder(tf.float32, [None, 4], "x")
    train, loss, weights = trained(x)
    while watchers():
        time.sleep(0.01)
    with activated(seconds=0.4), tf.Session() as session:
        session.run(weights.initializer)
        session.run(loss, {x: ROWS[:1]})
        assert not watchers()
        session.run(train, {x: ROWS})
        assert len(watchers()) == 1
    time.sleep(0.2)
    assert not watchers()
    with activated(seconds=0), tf.Session() as session:
        session.run(weights.initializer)
        session.run(train, {x: ROWS})
        assert not watchers()


@pytest.mark.usefixtures("graph")
def test_input_is_counted_again_after_a_run_that_failed() -> None:
    rows = tf.data.make_one_shot_iterator(tf.data.Dataset.from_tensors(ROWS)).get_next()
    train, loss, weights = trained(rows)
    with activated() as activation, tf.Session() as session:
        session.run(weights.initializer)
        assert session.run([loss, train])[0] == 16
        for _ in range(2):
            with pytest.raises(tf.errors.OutOfRangeError):
                session.run([loss, train])
    assert was_cut(activation)
