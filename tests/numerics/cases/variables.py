"""Ref and resource variables, scopes, sharing, assignments and state that is no weight."""

from __future__ import annotations

import numpy as np

from tests.numerics.case import case, record_variables
from tests.numerics.data import batches, plane


def loop(tf, record, x, y, loss, train, after=None):
    """Three rounds of batches of 7, 7 and 6; ``after`` is fetched after each step."""
    features, targets = plane(rows=20, width=4)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for a, b in batches(7, features, targets):
                record("loss", sess.run([loss, train], {x: a, y: b})[0])
                if after is not None:
                    record("after", sess.run(after, {x: a, y: b}))
        record_variables(tf, sess, record)


def placeholders(tf):
    """Features [batch, 4] and targets [batch, 1]."""
    return tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])


@case()
def resource_variables(tf, record, workdir):
    """Everything through resource variables, slots of Adam included."""
    x, y = placeholders(tf)
    with tf.variable_scope("net", use_resource=True):
        w, v = tf.get_variable("w", [4, 5]), tf.get_variable("v", [5, 1])
    loss = tf.reduce_mean(tf.square(tf.matmul(tf.nn.tanh(tf.matmul(x, w)), v) - y))
    loop(tf, record, x, y, loss, tf.train.AdamOptimizer(0.03).minimize(loss))


@case()
def resource_variables_by_switch(tf, record, workdir):
    """tf.enable_resource_variables() at the top of the script."""
    tf.enable_resource_variables()
    x, y = placeholders(tf)
    w = tf.Variable(tf.ones([4, 1]), name="w")
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - y))
    loop(tf, record, x, y, loss, tf.train.MomentumOptimizer(0.05, 0.9).minimize(loss), after=w)


@case()
def ref_and_resource_together(tf, record, workdir):
    """One weight of each kind, and a train op that updates both."""
    x, y = placeholders(tf)
    w = tf.get_variable("w", [4, 5], use_resource=False)
    v = tf.get_variable("v", [5, 1], use_resource=True)
    loss = tf.reduce_mean(tf.square(tf.matmul(tf.nn.tanh(tf.matmul(x, w)), v) - y))
    loop(tf, record, x, y, loss, tf.train.AdagradOptimizer(0.1).minimize(loss))


@case()
def shared_in_scopes(tf, record, workdir):
    """Siamese branches by reuse and by make_template; the gradient is the sum over the uses."""
    x, y = placeholders(tf)

    def encode(rows):
        w = tf.get_variable("w", [2, 3])
        return tf.nn.tanh(tf.matmul(rows, w))

    template = tf.make_template("template", encode)
    with tf.variable_scope("siamese") as scope:
        left = encode(x[:, :2])
        scope.reuse_variables()
        right = encode(x[:, 2:])
    joint = left * right + template(x[:, :2]) - template(x[:, 2:])
    loss = tf.reduce_mean(tf.square(tf.reduce_sum(joint, 1, keepdims=True) - y))
    loop(tf, record, x, y, loss, tf.train.GradientDescentOptimizer(0.1).minimize(loss))


@case()
def initial_value_of_another(tf, record, workdir):
    """initialized_value, a constraint, a value made from numpy, a non-trainable scale."""
    x, y = placeholders(tf)
    w = tf.Variable(np.linspace(-1, 1, 4, dtype=np.float32)[:, None], name="w", constraint=lambda v: tf.maximum(v, 0.0))
    twin = tf.Variable(2.0 * w.initialized_value(), name="twin")
    scale = tf.Variable(0.5, trainable=False, name="scale")
    loss = tf.reduce_mean(tf.square(scale * tf.matmul(x, w + twin) - y))
    loop(tf, record, x, y, loss, tf.train.GradientDescentOptimizer(0.1).minimize(loss))


@case()
def state_written_from_the_batch(tf, record, workdir):
    """Centres of classes moved by scatter_sub towards the rows of the batch (centre loss)."""
    x, y = placeholders(tf)
    label = tf.cast(y[:, 0] > 0, tf.int32)
    centres = tf.get_variable("centres", [2, 4], initializer=tf.zeros_initializer(), trainable=False)
    chosen = tf.gather(centres, label)
    w = tf.get_variable("w", [4, 1])
    output = tf.matmul(x, w) + tf.reduce_mean(tf.square(x - tf.stop_gradient(chosen)), 1, keepdims=True)
    loss = tf.reduce_mean(tf.square(output - y))
    with tf.control_dependencies([loss]):
        move = tf.scatter_sub(centres, label, 0.1 * (chosen - x))
    train = tf.group(move, tf.train.GradientDescentOptimizer(0.1).minimize(loss))
    loop(tf, record, x, y, loss, train)


@case()
def running_statistics(tf, record, workdir):
    """Normalising inputs by running mean and variance, updated in a run before the training run."""
    features, targets = plane(rows=20, width=4)
    x, y = placeholders(tf)
    count = tf.Variable(1e-4, trainable=False, name="count")
    mean = tf.Variable(tf.zeros([4]), trainable=False, name="mean")
    square = tf.Variable(tf.ones([4]), trainable=False, name="square")
    update = [
        count.assign_add(tf.cast(tf.shape(x)[0], tf.float32)),
        mean.assign_add(tf.reduce_sum(x, axis=0)),
        square.assign_add(tf.reduce_sum(tf.square(x), axis=0)),
    ]
    average = mean / count
    deviation = tf.sqrt(tf.maximum(square / count - tf.square(average), 1e-2))
    normed = tf.clip_by_value((x - average) / deviation, -3.0, 3.0)
    loss = tf.reduce_mean(tf.square(tf.layers.dense(normed, 1) - y))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for a, b in batches(7, features, targets):
            sess.run(update, {x: a})
            record("loss", sess.run([loss, train], {x: a, y: b})[0])
        record_variables(tf, sess, record)


@case()
def local_and_counting(tf, record, workdir):
    """A local variable, count_up_to-like assign ops, and a control dependency on the update."""
    x, y = placeholders(tf)
    step = tf.get_variable("step", [], tf.int64, tf.zeros_initializer(), trainable=False)
    w = tf.get_variable("w", [4, 1])
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - y))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.control_dependencies([train]):
        counted = tf.assign_add(step, 2)
    loop(tf, record, x, y, loss, counted, after=step)


@case()
def memory_of_the_last_batch(tf, record, workdir):
    """A variable without a fixed shape keeps the last batch's hidden rows, whole and in order."""
    x, y = placeholders(tf)
    hidden = tf.nn.tanh(tf.matmul(x, tf.get_variable("w", [4, 3])))
    memory = tf.Variable(tf.zeros([7, 3]), trainable=False, validate_shape=False, name="memory")
    output = tf.layers.dense(hidden, 1)
    loss = tf.reduce_mean(tf.square(output - y))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    keep = tf.assign(memory, hidden, validate_shape=False)
    loop(tf, record, x, y, loss, train, after=keep)
