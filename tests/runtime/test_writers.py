"""The check before the first update while other threads run the session."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from whale.cluster import Cluster
from whale.config import Config
from whale.runtime import writers
from whale.runtime.activation import Activation, activate
from whale.runtime.first_steps import FirstSteps
from whale.runtime.options import Options

ROWS = np.random.RandomState(0).randn(8, 4).astype(np.float32)
PATIENCE = 60
"""Seconds after which a thread that should have ended hangs."""


@pytest.fixture
def activation() -> Any:
    """Two devices, and a graph in which a session can be made."""
    options = Options(cluster=Cluster.local(2), batch="global", config=Config({"check.mode": "on"}), quiet=True)
    with activate(options) as made, tf.Graph().as_default():
        yield made


def model(*before: Callable[[], Any]) -> tuple[tf.Tensor, tf.Variable, Any]:
    """A placeholder, the variable that is trained and the training op, which runs after some others."""
    x = tf.placeholder(tf.float32, [None, 4])
    w = tf.get_variable("w", [4, 3], initializer=tf.ones_initializer())
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w)))
    with tf.control_dependencies([make() for make in before]):
        return x, w, tf.train.GradientDescentOptimizer(0.1).minimize(loss)


def verdict(activation: Activation) -> str:
    said = (line for report in activation.reports for line in (*report.lines, report.reason))
    return next(line for line in said if line.startswith(("checked", "not checked", "the check")))


def between_the_sides(monkeypatch: pytest.MonkeyPatch, action: Callable[[], None]) -> None:
    """Has something done between the computation of the whole side and that of the cut one."""
    side = FirstSteps._side

    def watched(self: FirstSteps, binding: Any, plan: Any, seen: Any, tensors: Any, feeds: Any, dims: Any) -> Any:
        if dims:
            action()
        return side(self, binding, plan, seen, tensors, feeds, dims)

    monkeypatch.setattr(FirstSteps, "_side", watched)


def test_no_other_thread_updates_between_the_sides(activation: Activation, monkeypatch: pytest.MonkeyPatch) -> None:
    x, w, train = model()
    assign = w.assign(tf.fill([4, 3], 5.0))
    with tf.Session() as session:
        session.run(assign)  # is planned
        session.run(tf.global_variables_initializer())
        writer = threading.Thread(target=session.run, args=(assign,))

        def write() -> None:
            writer.start()
            writer.join(1)  # it is held up; were it not, it would take milliseconds

        between_the_sides(monkeypatch, write)
        session.run(train, {x: ROWS})
        writer.join(PATIENCE)
        assert not writer.is_alive(), "it goes on after the check"
    assert verdict(activation).startswith("checked"), verdict(activation)


def test_a_thread_that_fills_a_queue_goes_on(activation: Activation, monkeypatch: pytest.MonkeyPatch) -> None:
    x, _, train = model()
    queue = tf.FIFOQueue(8, tf.float32, [[]])
    enqueue = queue.enqueue(1.0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())

        def fill() -> None:
            filler = threading.Thread(target=session.run, args=(enqueue,))
            filler.start()
            filler.join(PATIENCE)
            assert not filler.is_alive()

        between_the_sides(monkeypatch, fill)
        session.run(train, {x: ROWS})
        assert session.run(queue.size()) == 1
    assert verdict(activation).startswith("checked"), verdict(activation)


def test_a_run_that_waits_for_the_checked_step_is_not_waited_for(
    activation: Activation, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = tf.FIFOQueue(8, tf.float32, [[]])
    x, _, train = model(lambda: tokens.enqueue(3.0))
    seen = tf.get_variable("seen", [], initializer=tf.zeros_initializer(), trainable=False)
    waiting = seen.assign_add(tokens.dequeue())
    monkeypatch.setattr(writers, "PATIENCE", 0.2)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        binding = session.whale_binding
        waiter = threading.Thread(target=session.run, args=(waiting,))
        waiter.start()
        begun = threading.Event()
        while not binding.writers._running and not begun.wait(0.01):
            assert waiter.is_alive()
        step = threading.Thread(target=session.run, args=(train, {x: ROWS}), daemon=True)
        step.start()
        for thread in (step, waiter):
            thread.join(PATIENCE)
            assert not thread.is_alive()
        assert session.run(seen) == 3
