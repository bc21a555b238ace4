"""Ops that a script makes between its runs: told once, and checked no more often than the step is."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from whale.cluster import Cluster
from whale.config import Config
from whale.runtime.activation import Activation, activate
from whale.runtime.options import Options

OPTIONS = Options(cluster=Cluster.local(2), batch="global", config=Config({"check.mode": "on"}))
ROWS = np.arange(24, dtype=np.float32).reshape(8, 3) / 10


def train(steps: int, anew: bool) -> list[Any]:
    """Trains and asks for the size of the batch, by an op of its own for each step or by one for all."""
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, 3])
        weights = tf.get_variable("w", [3, 1], initializer=tf.ones_initializer())
        loss = tf.reduce_mean(tf.square(tf.matmul(x, weights)))
        step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        session.run(tf.global_variables_initializer())
        size, found = tf.shape(x), []
        for _ in range(steps):
            fetches = [step, loss, tf.shape(x, name="made_anew") if anew else size]
            found.append(session.run(fetches, {x: ROWS})[1:])
        return found


def lines(activation: Activation, start: str) -> list[str]:
    said = (line for report in activation.reports for line in (*report.lines, report.reason))
    return [line for line in said if line.startswith(start)]


def test_a_script_that_makes_ops_in_its_loop_is_told_once(capsys: Any) -> None:
    with activate(OPTIONS) as activation:
        found = train(5, anew=True)
    for one, other in zip(found, train(5, anew=True)):
        np.testing.assert_allclose(one[0], other[0], rtol=1e-5)
        np.testing.assert_array_equal(one[1], other[1])
    (said,) = lines(activation, "the script makes ops anew")
    assert f"'made_anew_2' at {__file__}:" in said
    assert len(lines(activation, "checked")) == 1
    printed = capsys.readouterr().err
    assert printed.count("whale: the script makes ops anew") == 1
    assert printed.count("whale: cut signature") == 3  # of the first step, of what its check found, of the second step


def test_a_script_that_makes_its_ops_first_is_not(capsys: Any) -> None:
    with activate(OPTIONS) as activation:
        train(3, anew=False)
    assert not lines(activation, "the script makes ops anew")
