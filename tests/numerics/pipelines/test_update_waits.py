"""Gradients that wait for updates: micro-batches go through a loop all the same, and a step equals one device."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.numerics.case import Record, record_variables
from tests.numerics.pipelines import models
from tests.numerics.pipelines.accumulate import trained
from tests.numerics.pipelines.compare import compare, on_one_device, same
from tests.numerics.pipelines.scopes import Cut, NoScopes
from tests.numerics.pipelines.test_batch_norm import BATCHES, named_cnn, towers

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

Step = Callable[[Any, Any, Any], list[Any]]
"""What a script fetches, made of ``tf``, a batch of rows and their targets."""


def stepping(step: Step) -> Callable[[Any, Record, Path, NoScopes], None]:
    """A script that runs a step a few times and records what it fetches and all variables."""

    def script(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
        del workdir, scopes
        x, y = tf.placeholder(tf.float32, [None, 5]), tf.placeholder(tf.float32, [None, 1])
        fetches = step(tf, x, y)
        rng = np.random.RandomState(0)
        with tf.Session() as sess:
            sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            for rows in (9, 8, 12):
                values = sess.run(fetches, {x: rng.randn(rows, 5), y: rng.randn(rows, 1)})
                record("step", [value for value in values if value is not None])
            record_variables(tf, sess, record)
            record("local", sess.run(sorted(tf.local_variables(), key=lambda variable: variable.name)))

    script.__name__ = step.__name__
    return script


def squared(tf: Any, hidden: Any, y: Any) -> Any:
    """The loss of a last layer."""
    return tf.reduce_mean(tf.square(tf.layers.dense(hidden, 1) - y))


def after(tf: Any, updates: Any, loss: Any, optimizer: Any = None) -> Any:
    """The training op, whose gradients are made where everything waits for updates."""
    with tf.control_dependencies(updates):
        return (optimizer or tf.train.MomentumOptimizer(0.1, 0.9)).minimize(loss)


def layer_norms(tf: Any, x: Any, y: Any) -> list[Any]:
    """Batch norm of TensorFlow's layers, its updates in the collection."""
    hidden = tf.layers.batch_normalization(tf.layers.dense(x, 6, tf.tanh), momentum=0.7, training=True)
    loss = squared(tf, hidden, y)
    return [loss, after(tf, tf.get_collection(tf.GraphKeys.UPDATE_OPS), loss)]


def switched_norms(tf: Any, x: Any, y: Any) -> list[Any]:
    """The same with a tensor that says whether it trains: the updates are made in a branch."""
    training = tf.placeholder_with_default(True, [])
    hidden = tf.layers.batch_normalization(tf.layers.dense(x, 6, tf.tanh), momentum=0.7, training=training)
    loss = squared(tf, hidden, y)
    return [loss, after(tf, tf.get_collection(tf.GraphKeys.UPDATE_OPS), loss, tf.train.AdamOptimizer(0.1))]


def slim_norms(tf: Any, x: Any, y: Any) -> list[Any]:
    """A layer of slim with batch norm, and slim's training op: the loss that is minimized waits for the updates."""
    slim = pytest.importorskip("tf_slim")
    norm = {"training": True, "momentum": 0.7}
    hidden = slim.fully_connected(x, 6, normalizer_fn=tf.layers.batch_normalization, normalizer_params=norm)
    loss = squared(tf, hidden, y)
    return [loss, slim.learning.create_train_op(loss, tf.train.RMSPropOptimizer(0.1))]


def keras_norms(tf: Any, x: Any, y: Any) -> list[Any]:
    """Batch norm of Keras, whose updates the layer holds; resource variables."""
    layer = tf.keras.layers.BatchNormalization(momentum=0.7)
    loss = squared(tf, layer(tf.layers.dense(x, 6, tf.tanh), training=True), y)
    return [loss, after(tf, layer.updates, loss, tf.train.GradientDescentOptimizer(0.1))]


def renorms(tf: Any, x: Any, y: Any) -> list[Any]:
    """Batch renorm: the forward pass reads the moving averages that are updated before the backward pass."""
    layer = tf.layers.BatchNormalization(
        momentum=0.7, renorm=True, renorm_clipping={"rmax": 2.0, "rmin": 0.5, "dmax": 1.0}, renorm_momentum=0.6
    )
    loss = squared(tf, layer(tf.layers.dense(x, 6, tf.tanh), training=True), y)
    return [loss, after(tf, layer.updates, loss)]


def counted(tf: Any, x: Any, y: Any) -> list[Any]:
    """The step counter is advanced before the gradients, and the learning rate depends on what it is then."""
    step = tf.get_variable("step", initializer=np.int64(0), trainable=False, use_resource=True)
    loss = squared(tf, tf.layers.dense(x, 6, tf.tanh), y)
    with tf.control_dependencies([tf.assign_add(step, 1)]):
        rate = tf.train.exponential_decay(0.2, step.read_value(), 1, 0.5)
        return [loss, rate, tf.train.GradientDescentOptimizer(rate).minimize(loss)]


def averaged_losses(tf: Any, x: Any, y: Any) -> list[Any]:
    """A moving average of the loss."""
    loss = squared(tf, tf.layers.dense(x, 6, tf.tanh), y)
    average = tf.train.ExponentialMovingAverage(0.5)
    train = after(tf, [average.apply([loss])], loss, tf.train.AdagradOptimizer(0.1))
    return [loss, train]


def averaged_variables(tf: Any, x: Any, y: Any) -> list[Any]:
    """Moving averages of the variables, after their update, and before the next one's."""
    loss = squared(tf, tf.layers.dense(x, 6, tf.tanh), y)
    before, behind = tf.train.ExponentialMovingAverage(0.5), tf.train.ExponentialMovingAverage(0.6, name="behind")
    train = after(tf, [before.apply(tf.trainable_variables())], loss, tf.train.AdamOptimizer(0.1))
    with tf.control_dependencies([train]):
        return [loss, behind.apply(tf.trainable_variables())]


def metrics(tf: Any, x: Any, y: Any) -> list[Any]:
    """A streaming metric, whose value waits for its updates."""
    loss = squared(tf, tf.layers.dense(x, 6, tf.tanh), y)
    _, update = tf.metrics.mean(tf.abs(y))
    return [loss, update, after(tf, [update], loss)]


def last_waits(tf: Any, x: Any, y: Any) -> list[Any]:
    """What alone is fetched is the loss, which waits for the update of everything."""
    loss = squared(tf, tf.layers.dense(x, 6, tf.tanh), y)
    step = tf.train.get_or_create_global_step()
    train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss, global_step=step)
    with tf.control_dependencies([train]):
        return [tf.identity(loss)]


def read_back(tf: Any, x: Any, y: Any) -> list[Any]:
    """The loss is weighted by a counter that is read once it is advanced."""
    counter = tf.get_variable("counter", initializer=1.0, trainable=False, use_resource=True)
    hidden = tf.layers.dense(x, 6, tf.tanh)
    with tf.control_dependencies([tf.assign_add(counter, 1.0)]):
        loss = squared(tf, hidden, y) * counter.read_value()
    return [loss, after(tf, [], loss)]


def read_in_the_gradient(tf: Any, x: Any, y: Any) -> list[Any]:
    """The gradient of a product with a variable that is not a resource reads it once it is updated."""
    scale = tf.get_variable("scale", initializer=np.ones(6, np.float32), trainable=False, use_resource=False)
    loss = squared(tf, tf.layers.dense(x, 6, tf.tanh) * scale, y)
    return [after(tf, [tf.assign_add(scale, tf.stop_gradient(tf.fill([6], loss)))], loss)]


def trained_in_turn(tf: Any, x: Any, y: Any) -> list[Any]:
    """The gradient of the first layer reads the kernel of the second, which an optimizer updated before."""
    with tf.variable_scope("first", use_resource=False):
        hidden = tf.layers.dense(x, 6, tf.tanh)
    with tf.variable_scope("second", use_resource=False):
        loss = squared(tf, hidden, y)
    train = tf.train.GradientDescentOptimizer(0.5).minimize(loss, var_list=tf.trainable_variables("second"))
    with tf.control_dependencies([train]):
        return [tf.train.GradientDescentOptimizer(0.5).minimize(loss, var_list=tf.trainable_variables("first"))]


def spectral_norms(tf: Any, x: Any, y: Any) -> list[Any]:
    """A kernel over its largest singular value, by a step of a power iteration that is kept before it is used."""
    kernel = tf.get_variable("kernel", [5, 6])
    vector = tf.get_variable("vector", [1, 5], initializer=tf.initializers.truncated_normal(seed=1), trainable=False)
    right = tf.nn.l2_normalize(tf.matmul(vector, kernel))
    left = tf.nn.l2_normalize(tf.matmul(right, kernel, transpose_b=True))
    largest = tf.matmul(tf.matmul(left, kernel), right, transpose_b=True)
    with tf.control_dependencies([vector.assign(left)]):
        normed = kernel / largest
    loss = squared(tf, tf.tanh(tf.matmul(x, normed)), y)
    return [loss, after(tf, [], loss)]


def two_optimizers(tf: Any, x: Any, y: Any) -> list[Any]:
    """A second optimizer's gradients wait for the first one's update, of resources: they are read before it."""
    with tf.variable_scope("first", use_resource=True):
        hidden = tf.layers.dense(x, 6, tf.tanh)
    with tf.variable_scope("second", use_resource=True):
        loss = squared(tf, hidden, y)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, var_list=tf.trainable_variables("first"))
    with tf.control_dependencies([train]):
        return [loss, tf.train.AdamOptimizer(0.1).minimize(loss, var_list=tf.trainable_variables("second"))]


def recurrent(tf: Any, x: Any, y: Any) -> list[Any]:
    """The gradient has a loop of its own."""
    steps = tf.expand_dims(x, 2)
    hidden = tf.nn.dynamic_rnn(tf.nn.rnn_cell.BasicRNNCell(4), steps, dtype=tf.float32)[0][:, -1]
    loss = squared(tf, hidden, y)
    average = tf.train.ExponentialMovingAverage(0.5)
    return [loss, after(tf, [average.apply([loss])], loss)]


def conditional(tf: Any, x: Any, y: Any) -> list[Any]:
    """The gradient has a branch, and an update is made in another."""
    moved = tf.get_variable("moved", initializer=0.0, trainable=False, use_resource=True)
    hidden, deep = tf.layers.dense(x, 6, tf.tanh), tf.placeholder_with_default(True, [])
    loss = squared(tf, tf.cond(deep, lambda: 2.0 * hidden, lambda: hidden), y)
    moves = tf.cond(moved > 1.5, lambda: tf.identity(0.0), lambda: tf.identity(tf.assign_add(moved, 1.0)))
    return [loss, after(tf, [moves], loss)]


WAITING = [
    counted,
    averaged_losses,
    averaged_variables,
    metrics,
    last_waits,
    read_back,
    spectral_norms,
    two_optimizers,
    recurrent,
]
"""Steps that wait for updates, and for nothing else."""

LOOPS = [layer_norms, switched_norms, slim_norms, keras_norms, renorms, conditional]
"""Steps that read sums over the batch on the way, for a mean or for the size of a branch that is not taken: each has a
loop of its own."""


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("step", WAITING, ids=lambda step: step.__name__)
def test_one_loop_equals_one_device(step: Step, devices: int) -> None:
    actual, report = trained(stepping(step), 3, devices)
    same(on_one_device(stepping(step)), actual)
    assert "no loop" not in report.text()
    assert "loops over micro-batches" not in report.text()


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("step", LOOPS, ids=lambda step: step.__name__)
def test_several_loops_equal_one_device(step: Step, devices: int) -> None:
    actual, report = trained(stepping(step), 3, devices)
    same(on_one_device(stepping(step)), actual)
    assert "no loop" not in report.text()


@pytest.mark.parametrize("devices", [1, 2])
def test_statistics_of_each_micro_batch_are_found_in_one_loop(devices: int) -> None:
    actual, report = trained(models.fed(named_cnn, BATCHES, waiting=True), 3, devices)
    same(on_one_device(towers(3 * devices)), actual)
    assert "no loop" not in report.text()
    assert "loops over micro-batches" not in report.text()


def test_waits_for_updates_do_not_unroll_the_loop() -> None:
    few, many = (
        trained(models.fed(named_cnn, (64,), waiting=True), micro_batches, 1)[1].ops for micro_batches in (2, 16)
    )
    assert many == few


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("step", [read_in_the_gradient, trained_in_turn], ids=lambda step: step.__name__)
def test_a_gradient_that_reads_what_is_updated_waits_for_the_update(step: Step, devices: int) -> None:
    actual, _ = trained(stepping(step), 3, devices)
    same(on_one_device(stepping(step)), actual)


def test_a_pipeline_s_backward_passes_do_not_wait_for_all_forward_passes() -> None:
    text = compare(models.fed(named_cnn, BATCHES, waiting=True), Cut(2, 4), on_one_device(towers(4)))
    assert "gives way" not in text
