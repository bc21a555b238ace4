"""Runs in any order compute what plain TensorFlow computes: cut, not cut, short, evaluated, restored, in threads.

What a run leaves on the devices (variables, slots, global step, moving averages) is compared after every run, so that a
device that keeps an old value is found as soon as it does.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from tests.numerics.process import start_tensorflow
from tests.numerics.runner import Setting, plain, whale

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

OPTIMIZERS = ("MomentumOptimizer", "AdamOptimizer", "AdagradOptimizer", "RMSPropOptimizer", "FtrlOptimizer")

ACTIONS = ("train", "dense", "evaluate", "assign", "save", "restore", "thread")
"""What a step does: trains all, trains only the dense layer, evaluates, sets a variable from a value, saves, restores,
or trains in a thread of its own."""

Step = tuple[str, int]
"""An action and the number of rows it is done on."""


def script(tf: Any, optimizer: str, resource: bool, steps: Sequence[Step], workdir: Path) -> list[list[np.ndarray]]:
    """Runs the steps; all variables after each."""
    tf.set_random_seed(3)
    random = np.random.RandomState(4)
    options = {"momentum": 0.9} if optimizer == "MomentumOptimizer" else {}
    with tf.variable_scope("model", use_resource=resource):
        ids, y = tf.placeholder(tf.int64, [None, 2]), tf.placeholder(tf.float32, [None, 1])
        table = tf.get_variable("table", [9, 3], initializer=tf.random_normal_initializer(seed=1))
        hidden = tf.reshape(tf.nn.embedding_lookup(table, ids), [-1, 6])
        mean = tf.get_variable("mean", [6], initializer=tf.zeros_initializer(), trainable=False)
        moved = tf.assign(mean, 0.9 * mean + 0.1 * tf.reduce_mean(hidden, 0))
        loss = tf.reduce_mean(tf.square(tf.layers.dense(tf.tanh(hidden), 1) - y))
        step = tf.train.get_or_create_global_step()
        made = getattr(tf.train, optimizer)(0.05, **options)
        train = tf.group(made.minimize(loss, step), moved)
        dense = getattr(tf.train, optimizer)(0.02, **options).minimize(loss, step, tf.trainable_variables()[1:])
    value = tf.placeholder(tf.float32, [9, 3])
    assign = table.assign(value)
    variables = sorted(tf.global_variables(), key=lambda variable: variable.name)
    saver = tf.train.Saver()
    found: list[list[np.ndarray]] = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        path = saver.save(sess, str(workdir / "start"))
        for action, rows in steps:
            feeds = {ids: random.randint(0, 9, [rows, 2]), y: random.randn(rows, 1)}
            fresh = random.randn(9, 3)
            if action == "train":
                sess.run(train, feeds)
            elif action == "dense":
                sess.run([dense, loss], feeds)
            elif action == "evaluate":
                found.append([sess.run(loss, feeds)])
            elif action == "assign":
                sess.run(assign, {value: fresh})
            elif action == "save":
                path = saver.save(sess, str(workdir / "later"))
            elif action == "restore":
                saver.restore(sess, path)
            else:
                worker = threading.Thread(target=sess.run, args=(train, feeds))
                worker.start()
                worker.join()
            found.append(sess.run(variables))
    return found


def run(setting: Setting, optimizer: str, resource: bool, steps: Sequence[Step]) -> list[list[np.ndarray]]:
    """The script in a setting."""
    tf = start_tensorflow()
    with tempfile.TemporaryDirectory(prefix="sequence_") as workdir, contextlib.ExitStack() as stack:
        stack.enter_context(setting())
        stack.enter_context(tf.Graph().as_default())
        return script(tf, optimizer, resource, steps, Path(workdir))


def check(optimizer: str, resource: bool, devices: int, steps: Sequence[Step]) -> None:
    """All values are those of one device."""
    expected = run(plain, optimizer, resource, steps)
    actual = run(whale(devices), optimizer, resource, steps)
    for one, other in zip(expected, actual):
        for a, b in zip(one, other):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


STEPS = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(1, 7)), min_size=3, max_size=9)


@hypothesis.settings(max_examples=8)
@hypothesis.given(st.sampled_from(OPTIMIZERS), st.booleans(), st.integers(2, 3), STEPS)
def test_runs_in_any_order(optimizer: str, resource: bool, devices: int, steps: list[Step]) -> None:
    check(optimizer, resource, devices, [("train", 5), *steps, ("train", 6), ("train", 4)])


@pytest.mark.full
@hypothesis.settings(max_examples=120)
@hypothesis.given(st.sampled_from(OPTIMIZERS), st.booleans(), st.integers(2, 4), STEPS)
def test_runs_in_any_order_many(optimizer: str, resource: bool, devices: int, steps: list[Step]) -> None:
    check(optimizer, resource, devices, [("train", 5), *steps, ("train", 6), ("train", 4)])
