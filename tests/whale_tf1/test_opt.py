"""Optimizers of contrib against their update rules in numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

START = np.array([1.0, -2.0, 3.0])
BETA1, BETA2, EPSILON, RATE = 0.9, 0.999, 1e-8, 0.1


def train(make: Callable[[Any], Any], steps: int, resource: bool = False) -> np.ndarray:
    """The variable after some steps on 0.5 * x ** 2, whose gradient is x."""
    import tensorflow as tf1

    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.get_variable("x", initializer=tf.constant(START), use_resource=resource)
        step = make(tf1.contrib.opt).minimize(0.5 * tf.reduce_sum(tf.square(x)))
        session.run(tf.global_variables_initializer())
        for _ in range(steps):
            session.run(step)
        return session.run(x)


def adam(x: np.ndarray, steps: int, kind: str = "adam", decay: float = 0.0) -> np.ndarray:
    m = v = np.zeros_like(x)
    for step in range(1, steps + 1):
        g = x
        x = x - decay * x
        m = BETA1 * m + (1 - BETA1) * g
        if kind == "adamax":
            v = np.maximum(BETA2 * v, np.abs(g))
            x = x - RATE / (1 - BETA1**step) * m / (v + EPSILON)
            continue
        v = BETA2 * v + (1 - BETA2) * g**2
        rate = RATE * np.sqrt(1 - BETA2**step) / (1 - BETA1**step)
        ahead = BETA1 * m + (1 - BETA1) * g if kind == "nadam" else m
        x = x - rate * ahead / (np.sqrt(v) + EPSILON)
    return x


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize(
    ("make", "kind", "decay"),
    [
        (lambda opt: opt.NadamOptimizer(RATE), "nadam", 0.0),
        (lambda opt: opt.AdaMaxOptimizer(RATE), "adamax", 0.0),
        (lambda opt: opt.LazyAdamOptimizer(RATE), "adam", 0.0),
        (lambda opt: opt.AdamWOptimizer(0.05, RATE), "adam", 0.05),
        (lambda opt: opt.extend_with_decoupled_weight_decay(tf.train.AdamOptimizer)(0.05, RATE), "adam", 0.05),
    ],
)
def test_adam_and_its_kin(make: Callable[[Any], Any], kind: str, decay: float, resource: bool) -> None:
    np.testing.assert_allclose(train(make, 4, resource), adam(START, 4, kind, decay), rtol=1e-5)


def test_momentum_with_decoupled_decay() -> None:
    x, velocity = START, np.zeros_like(START)
    for _ in range(3):
        gradient, x = x, x - 0.05 * x
        velocity = 0.5 * velocity + gradient
        x = x - RATE * velocity
    np.testing.assert_allclose(train(lambda opt: opt.MomentumWOptimizer(0.05, RATE, 0.5), 3), x, rtol=1e-5)


def test_decay_list_limits_the_decay() -> None:
    from tensorflow.contrib.opt import AdamWOptimizer

    with tf.Graph().as_default(), tf.Session() as session:
        a = tf.get_variable("a", initializer=1.0)
        b = tf.get_variable("b", initializer=1.0)
        step = AdamWOptimizer(0.5, 1e-9).minimize(a + b, decay_var_list=[a])
        session.run(tf.global_variables_initializer())
        session.run(step)
        assert session.run([a, b]) == pytest.approx([0.5, 1.0])


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("name", ["LazyAdamOptimizer", "AdaMaxOptimizer"])
def test_sparse_gradients_move_their_rows_only(name: str, resource: bool) -> None:
    import tensorflow as tf1

    with tf.Graph().as_default(), tf.Session() as session:
        table = tf.get_variable("table", initializer=tf.ones([4, 2]), use_resource=resource)
        loss = tf.reduce_sum(tf.square(tf.nn.embedding_lookup(table, [1, 3, 3])))
        step = getattr(tf1.contrib.opt, name)(RATE).minimize(loss)
        session.run(tf.global_variables_initializer())
        session.run(step)
        session.run(step)
        found = session.run(table)
    assert (found[[0, 2]] == 1).all()
    np.testing.assert_allclose(found[[1, 3]], 1 - 2 * RATE, rtol=2e-2)


def test_moving_average_optimizer_swaps_on_saving(tmp_path: object) -> None:
    from tensorflow.contrib.opt import MovingAverageOptimizer

    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.get_variable("x", initializer=4.0)
        optimizer = MovingAverageOptimizer(tf.train.GradientDescentOptimizer(0.5), average_decay=0.5)
        step = optimizer.minimize(0.5 * tf.square(x))
        saver = optimizer.swapping_saver()
        session.run(tf.global_variables_initializer())
        session.run(step)
        assert session.run(x) == 2.0
        path = saver.save(session, f"{tmp_path}/model", write_meta_graph=False)
        assert tf.train.load_variable(path, "x") == 3.0
        assert tf.train.load_variable(path, "x/ExponentialMovingAverage") == 2.0


def test_clipping_optimizer_bounds_rows() -> None:
    from tensorflow.contrib.opt import VariableClippingOptimizer

    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.get_variable("x", initializer=[[3.0, 4.0], [0.3, 0.4]])
        optimizer = VariableClippingOptimizer(tf.train.GradientDescentOptimizer(0.0), {x: [1]}, 1.0)
        step = optimizer.minimize(tf.reduce_sum(x))
        session.run(tf.global_variables_initializer())
        session.run(step)
        np.testing.assert_allclose(session.run(x), [[0.6, 0.8], [0.3, 0.4]], rtol=1e-6)


def test_scipy_interface_minimises_under_bounds_and_constraints() -> None:
    pytest.importorskip("scipy")
    from tensorflow.contrib.opt import ScipyOptimizerInterface

    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.get_variable("x", initializer=[7.0, 7.0])
        offset = tf.placeholder(tf.float32, [])
        loss = tf.reduce_sum(tf.square(x - offset))
        seen: list[float] = []
        session.run(tf.global_variables_initializer())
        free = ScipyOptimizerInterface(loss, method="L-BFGS-B", options={"maxiter": 50})
        free.minimize(session, feed_dict={offset: 1.0}, fetches=[loss], loss_callback=seen.append)
        np.testing.assert_allclose(session.run(x), [1, 1], atol=1e-4)
        assert seen[-1] < seen[0]
        bounded = ScipyOptimizerInterface(loss, var_to_bounds={x: (2.0, np.inf)})
        bounded.minimize(session, feed_dict={offset: 1.0})
        np.testing.assert_allclose(session.run(x), [2, 2], atol=1e-4)
        constrained = ScipyOptimizerInterface(loss, equalities=[x[0] - 5], inequalities=[x[1] - 3], method="SLSQP")
        constrained.minimize(session, feed_dict={offset: 1.0})
        np.testing.assert_allclose(session.run(x), [5, 3], atol=1e-4)
