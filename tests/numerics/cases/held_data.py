"""Batches that the graph holds: rows of a constant or a variable, and synthetic data in local variables."""

from __future__ import annotations

import numpy as np

from tests.numerics.case import case, record_variables
from tests.numerics.data import plane

ROWS = 24


def _train(tf, record, x, y, optimizer, before=()):
    """Trains a small net on what a run takes for its batch."""
    loss = tf.reduce_mean(tf.square(tf.layers.dense(tf.layers.dense(x, 16, tf.tanh), 1) - y))
    with tf.control_dependencies(before):
        train = optimizer.minimize(loss)
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess, coordinator)
        for _ in range(4):
            record("loss", sess.run([loss, train])[0])
        coordinator.request_stop()
        coordinator.join(threads)
        record_variables(tf, sess, record)


@case(fixed="the graph holds its data, and how many samples of them a step takes")
def columns_by_queue(tf, record, workdir):
    """The language model's input: columns of a constant, by a number from range_input_producer."""
    data = tf.constant(np.random.RandomState(0).rand(9, 50), tf.float32)
    number = tf.train.range_input_producer(5, shuffle=False).dequeue()
    x = tf.strided_slice(data, [0, number * 10], [9, (number + 1) * 10])
    x.set_shape([9, 10])
    _train(tf, record, x, x[:, :1] * 2.0, tf.train.AdamOptimizer(0.01))


@case(fixed="the graph holds its data, and how many samples of them a step takes")
def rows_by_counter(tf, record, workdir):
    """Rows of two constants, by a counter that each step moves on."""
    features, targets = plane(rows=ROWS, width=4)
    counter = tf.Variable(0, trainable=False)
    start = tf.identity(counter) % 4 * 6
    x = tf.slice(tf.constant(features), [start, 0], [6, 4])
    y = tf.slice(tf.constant(targets), [start, 0], [6, 1])
    with tf.control_dependencies([x, y]):
        move = tf.assign_add(counter, 1)
    _train(tf, record, x, y, tf.train.MomentumOptimizer(0.05, 0.9), [move])


@case(fixed="the graph holds its data, and how many samples of them a step takes")
def rows_by_permutation(tf, record, workdir):
    """Rows of data in variables that are not trained, picked by the beginning of a permutation."""
    features, targets = plane(rows=ROWS, width=4)
    table = tf.get_variable("features", initializer=features, trainable=False, use_resource=True)
    wanted = tf.Variable(targets, trainable=False)
    chosen = tf.random_shuffle(tf.range(ROWS), seed=3)[:7]
    _train(tf, record, tf.gather(table, chosen), tf.gather(wanted, chosen), tf.train.AdamOptimizer(0.01))


@case(fixed="the graph holds its data, and how many samples of them a step takes")
def synthetic(tf, record, workdir):
    """A benchmark: images and labels are drawn once, into local variables."""
    local = {"trainable": False, "collections": [tf.GraphKeys.LOCAL_VARIABLES]}
    x = tf.Variable(tf.random_normal([7, 4], seed=1), **local)
    y = tf.get_variable("wanted", initializer=tf.ones([7, 1]), use_resource=True, **local)
    _train(tf, record, x, y, tf.train.GradientDescentOptimizer(0.05))


@case(
    cut=False,
    reason="what is read by a counter is a setting, and little of the work reads it",
    fixed="the graph holds its data, and how many samples of them a step takes",
)
def settings_by_counter(tf, record, workdir):
    """Noise from a table, of which each step uses another part; the batch is random."""
    table = tf.constant(np.linspace(0.0, 1.0, 12), tf.float32)
    counter = tf.train.get_or_create_global_step()
    scales = tf.slice(table, [tf.cast(counter, tf.int32) % 4], [4])
    x = tf.random_normal([16, 8], seed=2)
    loss = tf.reduce_mean(tf.square(tf.layers.dense(tf.layers.dense(x, 32, tf.tanh), 4))) + tf.reduce_mean(scales)
    with tf.control_dependencies([tf.train.GradientDescentOptimizer(0.05).minimize(loss), loss]):
        train = tf.assign_add(counter, 1)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(4):
            record("loss", sess.run([loss, train])[0])
        record_variables(tf, sess, record)
