"""Values in the middle of a model that take the whole batch, or are there in one branch alone, in a pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.numerics.case import Record
from tests.numerics.pipelines.compare import compare
from tests.numerics.pipelines.scopes import Cut, NoScopes

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def actions(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
    """Actions sampled from the first stage's outputs: the script's own op draws them for all micro-batches at once."""
    x = tf.placeholder(tf.float32, [None, 4])
    with scopes.model():
        with scopes.part(0):
            logits = tf.layers.dense(tf.layers.dense(x, 6, tf.tanh), 3)
            action = tf.stop_gradient(tf.multinomial(logits, 1, seed=5))[:, 0]
        with scopes.part(2):
            value = tf.layers.dense(tf.one_hot(action, 3) + logits, 1)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=action, logits=logits)
            loss = tf.reduce_mean(losses * tf.square(value[:, 0] - 1.0))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    rng = np.random.RandomState(0)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for rows in (9, 8, 5):
            record("loss", sess.run([loss, action, train], {x: rng.randn(rows, 4)})[:2])
        record("variables", sess.run(tf.trainable_variables()))


def loop_in_a_branch(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
    """A loop of the first stage in a branch that is not always taken: the next micro-batch runs all the same."""
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
    deep = tf.placeholder(tf.bool, [])
    with scopes.model():
        with scopes.part(0):
            w = tf.get_variable("w", [4, 4])

            def loop() -> Any:
                return tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, tf.tanh(tf.matmul(s, w))), [0, x])[1]

            hidden = tf.cond(deep, loop, lambda: tf.matmul(x, w))
        with scopes.part(2):
            loss = tf.reduce_mean(tf.square(tf.layers.dense(hidden, 1) - y))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    rng = np.random.RandomState(0)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step, rows in enumerate((9, 8, 5, 6)):
            feeds = {x: rng.randn(rows, 4), y: rng.randn(rows, 1), deep: step % 2 == 0}
            record("loss", sess.run([loss, train], feeds)[0])
        record("variables", sess.run(tf.trainable_variables()))


@pytest.mark.parametrize("cut", [Cut(2, 3), Cut(2, 2, 2)], ids=str)
@pytest.mark.parametrize("script", [actions, loop_in_a_branch], ids=lambda script: script.__name__)
def test_equals_one_device(script: Any, cut: Cut) -> None:
    compare(script, cut)
