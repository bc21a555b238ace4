"""Scripts of one feature each on a small network in four parts: what they record must be one device's."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.numerics.case import Record, record_variables
from tests.numerics.data import blobs, sentences
from tests.numerics.pipelines.compare import Script
from tests.numerics.pipelines.scopes import NoScopes

WIDTH, CLASSES = 5, 3

SIZES = (9, 8, 3)
"""Rows of the steps."""

SCRIPTS: list[Script] = []
"""Every script, in the order of definition."""


def script(body: Script) -> Script:
    """Adds a script to ``SCRIPTS``."""
    SCRIPTS.append(body)
    return body


@dataclasses.dataclass(frozen=True)
class Net:
    """A network that was built in the default graph."""

    x: Any
    """Placeholder float32 [batch, WIDTH]."""
    y: Any
    """Placeholder int32 [batch]."""
    hidden: Sequence[Any]
    """What the parts hand on: float32 [batch, 6] each."""
    logits: Any
    """float32 [batch, CLASSES]."""
    loss: Any
    """The mean cross-entropy."""

    def feeds(self, step: int, rows: int | None = None) -> dict[Any, Any]:
        """The batch of a step."""
        x, y = blobs(SIZES[step % len(SIZES)] if rows is None else rows, WIDTH, CLASSES, seed=step)
        return {self.x: x, self.y: y}


def inputs(tf: Any) -> tuple[Any, Any]:
    """Placeholders of examples and labels."""
    return tf.placeholder(tf.float32, [None, WIDTH], "x"), tf.placeholder(tf.int32, [None], "y")


def network(tf: Any, scopes: NoScopes, part: Any = None, regularizer: Any = None, loss: Any = None) -> Net:
    """Dense layers, the first also read by the last.

    Args:
        tf: TensorFlow.
        scopes: the stages.
        part: ``part(number, hidden)`` adds ops to parts 0 to 2.
        regularizer: of every kernel.
        loss: ``loss(y, logits)`` in place of the mean cross-entropy.
    """
    x, y = inputs(tf)
    hidden: list[Any] = []
    with scopes.model():
        for number in range(3):
            with scopes.part(number):
                value = tf.layers.dense(hidden[-1] if hidden else x, 6, tf.tanh, kernel_regularizer=regularizer)
                hidden.append(value if part is None else part(number, value))
        with scopes.part(3):
            logits = tf.layers.dense(hidden[-1] + hidden[0], CLASSES, kernel_regularizer=regularizer, name="logits")
            if loss is None:
                loss = tf.losses.sparse_softmax_cross_entropy
            return Net(x, y, hidden, logits, loss(y, logits))


def trained(tf: Any, record: Record, net: Net, train: Any, more: Any = (), steps: int = 3) -> None:
    """Runs steps of a new session, records the loss, ``more`` and at the end every variable."""
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        for step in range(steps):
            record("step", sess.run([net.loss, more, train], net.feeds(step))[:2])
        record_variables(tf, sess, record)


# -- gradients and updates ---------------------------------------------------------------------------------------------


@script
def clipped_by_global_norm(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
    """The norm is over the gradients of all stages; the step moves once a run."""
    net = network(tf, scopes)
    step = tf.train.get_or_create_global_step()
    optimizer = tf.train.AdamOptimizer(0.02, epsilon=1e-3)
    gradients, variables = zip(*optimizer.compute_gradients(net.loss))
    clipped, norm = tf.clip_by_global_norm(gradients, 0.3)
    trained(tf, record, net, optimizer.apply_gradients(zip(clipped, variables), step), [norm, list(clipped)])


@script
def moving_averages(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
    """Averages of all variables, taken after the update, and of the loss; a rate that decays with the step."""
    net = network(tf, scopes)
    step = tf.train.get_or_create_global_step()
    rate = tf.train.exponential_decay(0.2, step, 2, 0.5)
    train = tf.train.MomentumOptimizer(rate, 0.9).minimize(net.loss, step)
    average = tf.train.ExponentialMovingAverage(0.9, step)
    with tf.control_dependencies([train]):
        train = average.apply(tf.trainable_variables())
    of_loss = tf.train.ExponentialMovingAverage(0.5)
    kept = of_loss.apply([net.loss])
    trained(tf, record, net, [train, kept], rate)


@script
def regularised(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
    """Penalties on the kernels of every stage, added up with the loss in the last."""
    net = network(tf, scopes, regularizer=lambda kernel: 0.05 * tf.nn.l2_loss(kernel))
    total = tf.losses.get_total_loss()
    trained(tf, record, net, tf.train.AdagradOptimizer(0.3).minimize(total), total)


@script
def weighted_by_masks(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
    """The mean over the rows that count, and a piece may have none of them."""

    def loss(y: Any, logits: Any) -> Any:
        return tf.losses.sparse_softmax_cross_entropy(y, logits, weights=tf.cast(y > 0, tf.float32) * 0.7)

    net = network(tf, scopes, loss=loss)
    trained(tf, record, net, tf.train.MomentumOptimizer(0.3, 0.9).minimize(net.loss))


@script
def two_optimizers(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
    """The variables of the first stages and those of the last are trained by runs of their own, in turn."""
    net = network(tf, scopes)
    variables = tf.trainable_variables()
    early = tf.train.AdamOptimizer(0.02, epsilon=1e-3).minimize(net.loss, var_list=variables[:4])
    late = tf.train.MomentumOptimizer(0.2, 0.9).minimize(net.loss, var_list=variables[4:])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step, train in enumerate([early, late, early, late]):
            record("step", sess.run([net.loss, train], net.feeds(step))[0])
        record_variables(tf, sess, record)


@script
def stopped_gradient(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
    """A skip that no gradient passes, and gradients of activations that the script asks for itself."""
    net = network(tf, scopes, lambda number, hidden: hidden + tf.stop_gradient(hidden) if number == 1 else hidden)
    found = tf.gradients(net.loss, net.hidden)
    train = tf.train.GradientDescentOptimizer(0.2).minimize(net.loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(3):
            record("gradients", sess.run([net.loss, found], net.feeds(step)))
            record("loss", sess.run([net.loss, train], net.feeds(step))[0])
        record_variables(tf, sess, record)


@script
def sparse_gradients(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
    """Tables in the first and in a later stage, of which a batch reads some rows, some of them twice."""
    tokens, lengths = sentences(sum(SIZES), 4, 11)
    words = tf.placeholder(tf.int32, [None, 4])
    y = tf.placeholder(tf.int32, [None])
    with scopes.model():
        with scopes.part(0):
            table = tf.get_variable("words", [11, 6], initializer=tf.random_normal_initializer(0.0, 0.5))
            hidden = tf.reduce_mean(tf.nn.embedding_lookup(table, words), 1)
        with scopes.part(1):
            hidden = tf.layers.dense(hidden, 6, tf.tanh)
        with scopes.part(2):
            more = tf.get_variable("more", [4, 6], initializer=tf.random_normal_initializer(0.0, 0.5))
            hidden = tf.layers.dense(hidden + tf.gather(more, words[:, 0] % 4), 6, tf.tanh)
        with scopes.part(3):
            loss = tf.losses.sparse_softmax_cross_entropy(y, tf.layers.dense(hidden, CLASSES))
    optimizer = tf.train.AdagradOptimizer(0.3)
    gradients = optimizer.compute_gradients(loss)
    dense = [tf.convert_to_tensor(gradient) for gradient, _ in gradients]
    train = optimizer.apply_gradients(gradients)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        edges = np.cumsum([0, *SIZES])
        for low, high in zip(edges, edges[1:]):
            feeds = {words: tokens[low:high], y: lengths[low:high] % CLASSES}
            record("step", sess.run([loss, dense, train], feeds)[:2])
        record_variables(tf, sess, record)


@script
def resource_variables(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
    """Variables behind handles."""
    tf.enable_resource_variables()
    net = network(tf, scopes)
    train = tf.train.AdamOptimizer(0.02, epsilon=1e-3).minimize(net.loss, tf.train.get_or_create_global_step())
    trained(tf, record, net, train)


# -- what else is run --------------------------------------------------------------------------------------------------


@script
def evaluation_between_steps(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
    """Forward runs on many rows and on one, and runs without a batch, between the steps."""
    net = network(tf, scopes)
    step = tf.train.get_or_create_global_step()
    train = tf.train.AdamOptimizer(0.02, epsilon=1e-3).minimize(net.loss, step)
    answers = tf.argmax(net.logits, 1)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for number in range(3):
            record("loss", sess.run([net.loss, train], net.feeds(number))[0])
            record("evaluated", sess.run([net.loss, net.logits, answers], net.feeds(number, rows=7)))
            record("one row", sess.run([answers, net.logits], {net.x: net.feeds(number, rows=1)[net.x]}))
            record("one row trained", sess.run([net.loss, train], net.feeds(number, rows=1))[0])
            record("step", sess.run(step))
        record_variables(tf, sess, record)


@script
def summaries_and_metrics(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
    """Summaries of losses, kernels and activations, and streaming metrics over the steps."""
    net = network(tf, scopes)
    train = tf.train.MomentumOptimizer(0.2, 0.9).minimize(net.loss)
    tf.summary.scalar("loss", net.loss)
    tf.summary.scalar("largest", tf.reduce_max(net.hidden[1]))
    for variable in tf.trainable_variables():
        tf.summary.scalar(f"{variable.op.name}/mean", tf.reduce_mean(variable))
    merged = tf.summary.merge_all()
    accuracy, counted = tf.metrics.accuracy(net.y, tf.argmax(net.logits, 1))
    mean, added = tf.metrics.mean(net.loss)
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        for step in range(3):
            text = sess.run([merged, counted, added], net.feeds(step))[0]
            sess.run(train, net.feeds(step))
            found = tf.Summary.FromString(text)
            record("summary", {value.tag: np.float32(value.simple_value) for value in found.value})
            record("metrics", sess.run([accuracy, mean]))
        record_variables(tf, sess, record)


@script
def fetched_tensors(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
    """Activations of every stage, values by row, sums, sizes: all are those of the whole batch, rows in order."""
    net = network(tf, scopes)
    by_row = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=net.y, logits=net.logits)
    more = [
        list(net.hidden),
        net.logits,
        by_row,
        tf.reduce_sum(by_row),
        tf.reduce_max(net.logits, 0),
        tf.shape(net.logits),
        tf.transpose(net.hidden[1]),
        tf.nn.in_top_k(net.logits, net.y, 2),
    ]
    trained(tf, record, net, tf.train.GradientDescentOptimizer(0.2).minimize(net.loss), more)


@script
def ops_added_later(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
    """A metric, a second optimizer with slots of its own, and another head, all after the first steps."""
    net = network(tf, scopes)
    train = tf.train.GradientDescentOptimizer(0.2).minimize(net.loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        record("before", [sess.run([net.loss, train], net.feeds(step))[0] for step in range(2)])
        hits = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(net.logits, 1, output_type=tf.int32), net.y), tf.float32))
        record("hits", sess.run(hits, net.feeds(2, rows=8)))
        known = set(tf.global_variables())
        again = tf.train.MomentumOptimizer(0.1, 0.9).minimize(net.loss)
        head = tf.layers.dense(net.hidden[2], 1, name="head")
        value = tf.reduce_mean(tf.square(head - 1.0))
        both = tf.train.AdamOptimizer(0.02, epsilon=1e-3).minimize(value + net.loss)
        sess.run(tf.variables_initializer([v for v in tf.global_variables() if v not in known]))
        for step in range(3):
            record("after", sess.run([net.loss, value, again if step % 2 else both], net.feeds(step))[:2])
        record_variables(tf, sess, record)


@script
def fed_in_the_middle(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
    """Activations on a border of stages are fed in place of what is computed; a variable is assigned in between."""
    net = network(tf, scopes)
    train = tf.train.GradientDescentOptimizer(0.2).minimize(net.loss)
    bias = tf.trainable_variables()[1]
    value = tf.placeholder(tf.float32, [6])
    assign = bias.assign(value)
    rng = np.random.RandomState(3)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for rows in (8, 5, 8):
            feeds = {**net.feeds(0, rows), net.hidden[1]: rng.randn(rows, 6)}
            record("step", sess.run([net.loss, net.logits, train], feeds)[:2])
            sess.run(assign, {value: rng.randn(6)})
            record("whole", sess.run([net.loss, net.logits], net.feeds(0)))
        record_variables(tf, sess, record)


@script
def called_python(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
    """``py_func`` in a stage and over the rows of the batch; it is called once a step, with all rows."""
    calls: list[int] = []

    def scaled(rows: Any) -> Any:
        calls.append(len(rows))
        return np.sign(rows).astype(np.float32)

    def part(number: int, hidden: Any) -> Any:
        if number != 1:
            return hidden
        signs = tf.py_func(scaled, [hidden], tf.float32)
        signs.set_shape(hidden.shape)
        return hidden + 0.1 * signs

    net = network(tf, scopes, part)
    trained(tf, record, net, tf.train.GradientDescentOptimizer(0.2).minimize(net.loss))
    record("calls", calls)


# -- control flow, random numbers --------------------------------------------------------------------------------------


def _looped(tf: Any, hidden: Any, kernel: Any, turns: Any) -> Any:
    """``turns`` times through one kernel."""
    return tf.while_loop(
        lambda turn, value: turn < turns,
        lambda turn, value: (turn + 1, tf.tanh(tf.matmul(value, kernel)) + 0.5 * value),
        [tf.constant(0), hidden],
    )[1]


@script
def loops_in_stages(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
    """A loop of fixed length in one stage, and in another one as long as the batch's largest label asks for."""

    def part(number: int, hidden: Any) -> Any:
        if number == 0:
            return hidden
        kernel = tf.get_variable(f"kernel{number}", [6, 6], initializer=tf.random_normal_initializer(0.0, 0.4))
        turns = 3 if number == 1 else tf.reduce_max(tf.get_default_graph().get_tensor_by_name("y:0")) + 1
        return _looped(tf, hidden, kernel, turns)

    net = network(tf, scopes, part)
    trained(tf, record, net, tf.train.GradientDescentOptimizer(0.1).minimize(net.loss))


@script
def loops_of_control_flow_v2(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
    """``While`` and ``If`` with function bodies."""
    tf.enable_control_flow_v2()
    training = tf.placeholder_with_default(True, [])

    def part(number: int, hidden: Any) -> Any:
        if number == 1:
            kernel = tf.get_variable("kernel", [6, 6], initializer=tf.random_normal_initializer(0.0, 0.4))
            return _looped(tf, hidden, kernel, 2)
        return tf.cond(training, lambda: hidden * 1.5, lambda: hidden)

    net = network(tf, scopes, part)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(net.loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(3):
            record("loss", sess.run([net.loss, train], net.feeds(step))[0])
            record("evaluated", sess.run(net.logits, {**net.feeds(step), training: False}))
        record_variables(tf, sess, record)


@script
def recurrent_layer_of_control_flow_v2(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
    """What no turn changes comes out of the loop as it went in, and the backward pass reads it there."""
    tf.enable_control_flow_v2()

    def part(number: int, hidden: Any) -> Any:
        if number != 1:
            return hidden
        cell = tf.nn.rnn_cell.GRUCell(6)
        return tf.nn.dynamic_rnn(cell, tf.stack([hidden, tf.tanh(hidden)], 1), dtype=tf.float32)[1]

    net = network(tf, scopes, part)
    # A mean over the batch, which all micro-batches wait for.
    loss = net.loss + tf.reduce_mean(tf.square(net.logits - tf.reduce_mean(net.logits, 0)))
    trained(tf, record, net, tf.train.GradientDescentOptimizer(0.1).minimize(loss))


@script
def conditionals_in_stages(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
    """A fed switch between training and evaluation, and one that the step throws."""
    training = tf.placeholder(tf.bool, [])
    step = tf.train.get_or_create_global_step()

    def part(number: int, hidden: Any) -> Any:
        if number == 0:
            return tf.cond(training, lambda: hidden * 1.5, lambda: hidden)
        if number == 2:
            kernel = tf.get_variable("kernel", [6, 6], initializer=tf.random_normal_initializer(0.0, 0.4))
            return tf.cond(step < 2, lambda: tf.matmul(hidden, kernel), lambda: hidden - 0.1)
        return hidden

    net = network(tf, scopes, part)
    train = tf.train.MomentumOptimizer(0.2, 0.9).minimize(net.loss, step)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for number in range(4):
            record("loss", sess.run([net.loss, train], {**net.feeds(number), training: number != 1})[0])
            record("evaluated", sess.run(net.logits, {**net.feeds(number), training: False}))
        record_variables(tf, sess, record)


@script
def dropout(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
    """Every micro-batch drops what one device would drop of its rows; other random ops keep their streams too."""

    def part(number: int, hidden: Any) -> Any:
        if number == 2:
            return hidden + tf.random_normal(tf.shape(hidden), 0.0, 0.1)
        return tf.nn.dropout(hidden, rate=0.4)

    net = network(tf, scopes, part)
    noise = tf.random_uniform([3])
    trained(tf, record, net, tf.train.MomentumOptimizer(0.2, 0.9).minimize(net.loss), [noise, list(net.hidden)])
