"""Gradient accumulation: micro-batches that go through one copy of the graph, one after another, equal one device."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.numerics.pipelines import models
from tests.numerics.pipelines.accumulate import trained
from tests.numerics.pipelines.compare import on_one_device, same
from tests.numerics.pipelines.scopes import NoScopes

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize(
    "model", [models.mlp, models.language_model, models.lstm, models.bert], ids=lambda m: m.__name__
)
def test_a_step_equals_one_device(model: models.Model, devices: int) -> None:
    script = models.fed(model)
    actual, report = trained(script, 4, devices)
    same(on_one_device(script), actual)
    assert "gradients of 4 micro-batches are accumulated" in report.text()
    # The longest sequence of a batch bounds the loop of an RNN: all micro-batches are asked for it.
    assert ("no loop" in report.text()) == (model is models.lstm)


@pytest.mark.parametrize("devices", [1, 3])
def test_draws_of_a_step_equal_one_device_fed_all_of_them(devices: int) -> None:
    script = models.drawn(models.mlp, 3, 3 * 5 * devices + 4, copies=5 * devices)
    same(on_one_device(script), trained(script, 5, devices, "local")[0])


def rooted(tf: Any, record: Any, workdir: Path, scopes: NoScopes) -> None:
    """A loss that is the root of a mean: every gradient needs the whole batch's loss first."""
    x, y = tf.placeholder(tf.float32, [None, 5]), tf.placeholder(tf.float32, [None, 1])
    hidden = tf.layers.dense(x, 6, tf.tanh)
    loss = tf.sqrt(tf.reduce_mean(tf.square(tf.layers.dense(hidden, 1) - y)))
    train = tf.train.GradientDescentOptimizer(0.2).minimize(loss)
    rng = np.random.RandomState(0)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for rows in (9, 8, 3):
            record("loss", sess.run([loss, train], {x: rng.randn(rows, 5), y: rng.randn(rows, 1)})[0])
        record("variables", sess.run(tf.trainable_variables()))


def rooted_sequences(tf: Any, record: Any, workdir: Path, scopes: NoScopes) -> None:
    """The same over an RNN, whose loop of its own is computed again in the second loop over micro-batches."""
    x, y = tf.placeholder(tf.float32, [None, 4, 3]), tf.placeholder(tf.float32, [None, 1])
    hidden = tf.nn.dynamic_rnn(tf.nn.rnn_cell.BasicRNNCell(5), x, dtype=tf.float32)[0]
    loss = tf.sqrt(tf.reduce_mean(tf.square(tf.layers.dense(hidden[:, -1], 1) - y)))
    train = tf.train.GradientDescentOptimizer(0.2).minimize(loss)
    rng = np.random.RandomState(0)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for rows in (9, 8, 3):
            record("loss", sess.run([loss, train], {x: rng.randn(rows, 4, 3), y: rng.randn(rows, 1)})[0])
        record("variables", sess.run(tf.trainable_variables()))


@pytest.mark.parametrize("script", [rooted, rooted_sequences], ids=lambda script: script.__name__)
def test_a_sum_that_is_needed_on_the_way_gets_a_loop_of_its_own(script: Any) -> None:
    actual, report = trained(script, 4, 2)
    same(on_one_device(script), actual)
    assert "2 loops over micro-batches" in report.text()


def normed(tf: Any, record: Any, workdir: Path, scopes: NoScopes) -> None:
    """Largest activations over the batch in the middle of the model: no micro-batch may go on before all are there."""
    x, y = tf.placeholder(tf.float32, [None, 5]), tf.placeholder(tf.float32, [None, 1])
    hidden = tf.layers.dense(x, 6, tf.tanh)
    hidden = hidden / tf.stop_gradient(tf.reduce_max(tf.abs(hidden), 0))
    loss = tf.reduce_mean(tf.square(tf.layers.dense(hidden, 1) - y))
    train = tf.train.GradientDescentOptimizer(0.2).minimize(loss)
    rng = np.random.RandomState(0)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for rows in (9, 8):
            record("loss", sess.run([loss, train], {x: rng.randn(rows, 5), y: rng.randn(rows, 1)})[0])


def test_what_cannot_go_through_a_loop_is_a_copy_per_micro_batch() -> None:
    actual, report = trained(normed, 3, 2)
    same(on_one_device(normed), actual)
    assert "no loop: Max " in report.text()


def statistics_in_branches(tf: Any, record: Any, workdir: Path, scopes: NoScopes) -> None:
    """Sums and rows of the whole batch inside of branches, one of them within another, that a step takes or not."""
    x, y = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None, 1])
    choice = tf.placeholder(tf.int32, [])
    hidden = tf.layers.dense(x, 4, tf.tanh)

    def centred() -> Any:
        return hidden - tf.reduce_mean(hidden, 0)

    def inner() -> Any:
        return tf.cond(choice > 1, lambda: hidden * tf.sqrt(tf.reduce_sum(tf.square(hidden))), lambda: hidden + 1.0)

    hidden = tf.cond(choice > 0, inner, centred)
    seen = tf.cond(choice > 0, lambda: tf.nn.top_k(tf.reverse(tf.identity(y), [0])[:, 0], 2)[0], lambda: tf.zeros([2]))
    loss = tf.reduce_mean(tf.square(tf.layers.dense(hidden, 1) - y))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    rng = np.random.RandomState(0)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step, rows in enumerate((9, 8, 4, 9, 8, 4)):
            feeds = {x: rng.randn(rows, 3), y: rng.randn(rows, 1), choice: step % 3}
            record("loss", sess.run([loss, seen, train], feeds)[:2])
        record("variables", sess.run(tf.trainable_variables()))


@pytest.mark.parametrize("devices", [1, 2])
def test_sums_and_rows_leave_branches(devices: int) -> None:
    actual, report = trained(statistics_in_branches, 3, devices)
    same(on_one_device(statistics_in_branches), actual)
    assert "loops over micro-batches" in report.text()


def test_many_micro_batches_are_not_many_copies() -> None:
    script = models.fed(models.mlp)
    few, many = (trained(script, micro_batches, 1)[1].ops for micro_batches in (2, 64))
    assert many == few


def _after_the_loss(form: str, tf: Any, record: Any, workdir: Path, scopes: NoScopes) -> None:
    """Trains by an update that waits for the loss, and, in the second form, is waited for by what alone is fetched."""
    del workdir, scopes
    rows = tf.placeholder(tf.float32, [None, 3])
    loss = tf.reduce_mean(tf.square(tf.layers.dense(rows, 2)))
    optimizer = tf.train.AdamOptimizer(0.1)
    gradients = optimizer.compute_gradients(loss)
    with tf.control_dependencies([loss]):
        update = optimizer.apply_gradients(gradients, tf.train.get_or_create_global_step())
    with tf.control_dependencies([update]):
        done = tf.identity(loss)
    data = np.random.RandomState(0).randn(18, 3)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for start in range(0, 18, 6):
            feed = {rows: data[start : start + 6]}
            record("loss", sess.run([loss, update] if form == "before" else [done], feed)[0])
            record("variables", sess.run(tf.global_variables()))


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("micro_batches", [2, 3])
@pytest.mark.parametrize("form", ["before", "between"])
def test_an_update_that_waits_for_the_loss_is_made_once(form: str, micro_batches: int, devices: int) -> None:
    script = functools.partial(_after_the_loss, form)
    script.__name__ = form  # type: ignore[attr-defined]
    actual, report = trained(script, micro_batches, devices)
    same(on_one_device(script), actual)
    assert not any("no loop" in line for line in report.lines)
