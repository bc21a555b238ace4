"""Variables made in pieces by a partitioner."""

from __future__ import annotations

import numpy as np

from tests.numerics.case import case, record_variables
from tests.numerics.data import batches, plane, sentences


@case()
def dense_layer(tf, record, workdir):
    """A kernel in three pieces, concatenated where it is used."""
    features, targets = plane(rows=20, width=6)
    x, y = tf.placeholder(tf.float32, [None, 6]), tf.placeholder(tf.float32, [None, 1])
    with tf.variable_scope("net", partitioner=tf.fixed_size_partitioner(3)):
        kernel = tf.get_variable("kernel", [6, 4])
        bias = tf.get_variable("bias", [4], initializer=tf.zeros_initializer())
    hidden = tf.nn.tanh(tf.matmul(x, kernel) + bias)
    loss = tf.reduce_mean(tf.square(tf.layers.dense(hidden, 1) - y))
    train = tf.train.AdamOptimizer(0.02).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(4):
            for a, b in batches(7, features, targets):
                record("loss", sess.run([loss, train], {x: a, y: b})[0])
        record_variables(tf, sess, record)


@case()
def embedding_in_pieces(tf, record, workdir):
    """embedding_lookup over a partitioned table, by both strategies, with sparse gradients."""
    words, lengths = sentences(rows=20, steps=4, vocabulary=11)
    tokens, target = tf.placeholder(tf.int32, [None, 4]), tf.placeholder(tf.float32, [None])
    with tf.variable_scope("tables", partitioner=tf.fixed_size_partitioner(2)):
        first, second = tf.get_variable("first", [11, 3]), tf.get_variable("second", [11, 2])
    found = [
        tf.nn.embedding_lookup(first, tokens, partition_strategy="div"),
        tf.nn.embedding_lookup(second, tokens, partition_strategy="mod"),
    ]
    pooled = tf.reduce_sum(tf.concat(found, axis=2), axis=1)
    loss = tf.reduce_mean(tf.square(tf.layers.dense(pooled, 1)[:, 0] - target))
    train = tf.train.GradientDescentOptimizer(0.02).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(4):
            for a, b in batches(7, words, lengths):
                record("loss", sess.run([loss, train], {tokens: a, target: b})[0])
        record_variables(tf, sess, record)


@case()
def saved_as_one_tensor(tf, record, workdir):
    """A checkpoint holds the whole variable; a graph with other pieces restores it."""
    features, targets = plane(rows=14, width=6)
    for pieces, steps in ((2, 5), (3, 5)):
        with tf.Graph().as_default(), tf.Session() as sess:
            tf.set_random_seed(7)
            x, y = tf.placeholder(tf.float32, [None, 6]), tf.placeholder(tf.float32, [None, 1])
            with tf.variable_scope("net", partitioner=tf.fixed_size_partitioner(pieces)):
                kernel = tf.get_variable("kernel", [6, 1])
            loss = tf.reduce_mean(tf.square(tf.matmul(x, kernel) - y))
            train = tf.train.GradientDescentOptimizer(0.05).minimize(loss)
            saver = tf.train.Saver()
            sess.run(tf.global_variables_initializer())
            if pieces == 3:
                saver.restore(sess, str(workdir / "model"))
            for step in range(steps):
                feeds = {x: features[step : step + 7], y: targets[step : step + 7]}
                record("loss", sess.run([loss, train], feeds)[0])
            saver.save(sess, str(workdir / "model"))
    reader = tf.train.load_checkpoint(str(workdir / "model"))
    record("kernel", np.array(reader.get_tensor("net/kernel")))
