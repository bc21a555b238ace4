"""Batch sizes written into the script: static shapes, constants of B rows, batches that are not the whole dim 0."""

from __future__ import annotations

import numpy as np

from tests.numerics.case import case, record_variables
from tests.numerics.data import plane

BATCH = 10


def loop(tf, record, feeds, loss, fetches=(), optimizer=None, steps=10):
    """Ten steps; ``feeds`` makes the feed of a step."""
    train = (optimizer or tf.train.GradientDescentOptimizer(0.05)).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(steps):
            value, _, others = sess.run([loss, train, list(fetches)], feeds(step))
            record("loss", value)
            record("fetched", others)
        record_variables(tf, sess, record)


def rows_of(features, targets, x, y, size=BATCH):
    """A feed of ``size`` rows that moves with the step."""
    return lambda step: {x: features[step : step + size], y: targets[step : step + size]}


@case(fixed="the graph holds its number of samples")
def static_placeholders(tf, record, workdir):
    """Placeholders [32, 50]: the backward graph bakes the batch size into its constants."""
    random = np.random.RandomState(0)
    values, targets = random.randn(50, 50), random.randn(50, 1)
    x, y = tf.placeholder(tf.float32, [32, 50]), tf.placeholder(tf.float32, [32, 1])
    output = tf.layers.dense(tf.layers.dense(x, 4, tf.nn.tanh), 1)
    loop(tf, record, rows_of(values, targets, x, y, 32), tf.reduce_mean(tf.square(output - y)))


@case(fixed="the graph holds its number of samples")
def static_softmax(tf, record, workdir):
    """A static batch through softmax cross entropy, whose flattening loses every dim but the constants."""
    random = np.random.RandomState(0)
    values, labels = random.randn(40, 4), np.eye(3)[random.randint(0, 3, 40)]
    x, y = tf.placeholder(tf.float32, [BATCH, 4]), tf.placeholder(tf.float32, [BATCH, 3])
    losses = tf.nn.softmax_cross_entropy_with_logits_v2(labels=y, logits=tf.layers.dense(x, 3))
    loss = tf.reduce_sum(losses) / BATCH
    loop(tf, record, rows_of(values, labels, x, y), loss, [losses])


@case(fixed="the graph holds its number of samples")
def zeros_state_of_batch_rows(tf, record, workdir):
    """A zeros([batch, h]) state made by the script and unrolled over time by hand."""
    values, targets = np.random.RandomState(0).randn(20, 3, 2), plane(rows=20, width=2)[1]
    x, y = tf.placeholder(tf.float32, [BATCH, 3, 2]), tf.placeholder(tf.float32, [BATCH, 1])
    state = tf.zeros([BATCH, 4])
    w = tf.get_variable("w", [6, 4])
    for step in range(3):
        state = tf.tanh(tf.matmul(tf.concat([x[:, step], state], axis=1), w))
    loss = tf.reduce_mean(tf.square(tf.layers.dense(state, 1) - y))
    loop(tf, record, rows_of(values, targets, x, y), loss, [state])


@case(fixed="the graph holds its number of samples")
def zero_state_of_a_cell(tf, record, workdir):
    """cell.zero_state(batch_size) fed back from fetches, sequences reshaped to [batch * steps, h]."""
    text = np.random.RandomState(0).randint(0, 7, (6, 61))
    x, y = tf.placeholder(tf.int32, [6, 5]), tf.placeholder(tf.int32, [6, 5])
    cell = tf.nn.rnn_cell.BasicLSTMCell(4)
    start = cell.zero_state(6, tf.float32)
    embedded = tf.nn.embedding_lookup(tf.get_variable("table", [7, 3]), x)
    outputs, final = tf.nn.dynamic_rnn(cell, embedded, initial_state=start)
    logits = tf.layers.dense(tf.reshape(outputs, [6 * 5, 4]), 7)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(y, [-1]), logits=logits)
    loss = tf.reduce_sum(losses) / (6 * 5)
    train = tf.train.AdamOptimizer(0.02).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        state = sess.run(start)
        for step in range(10):
            feeds = {x: text[:, 5 * step : 5 * step + 5], y: text[:, 5 * step + 1 : 5 * step + 6], start: state}
            value, state, _ = sess.run([loss, final, train], feeds)
            record("loss", value)
            record("state", state)
        record_variables(tf, sess, record)


@case(fixed="the graph holds its number of samples")
def batch_equal_to_hidden(tf, record, workdir):
    """Batch, width and hidden size are all 32: no dim can be told by its size."""
    random = np.random.RandomState(0)
    values, targets = random.randn(50, 32), random.randn(50, 32)
    x, y = tf.placeholder(tf.float32, [32, 32]), tf.placeholder(tf.float32, [32, 32])
    w, v = tf.get_variable("w", [32, 32]), tf.get_variable("v", [32, 32])
    hidden = tf.nn.tanh(tf.matmul(x, w) + tf.get_variable("b", [32]))
    loss = tf.reduce_mean(tf.square(tf.matmul(hidden, v) - y))
    loop(tf, record, rows_of(values, targets, x, y, 32), loss)


@case(fixed="the graph holds its number of samples")
def real_and_fake_in_one_batch(tf, record, workdir):
    """concat(real, fake) of [2B] rows through one network, split again by slices of B."""
    features, _ = plane(rows=30, width=3)
    noise = np.random.RandomState(1).randn(30, 2).astype(np.float32)
    x, z = tf.placeholder(tf.float32, [BATCH, 3]), tf.placeholder(tf.float32, [BATCH, 2])
    fake = tf.layers.dense(z, 3, tf.nn.tanh)
    both = tf.concat([x, fake], axis=0)
    normed = tf.layers.batch_normalization(tf.layers.dense(both, 5, use_bias=False), training=True)
    logits = tf.layers.dense(tf.nn.leaky_relu(normed), 1)
    labels = tf.concat([tf.ones([BATCH, 1]), tf.zeros([BATCH, 1])], axis=0)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
    loss += 0.1 * tf.reduce_mean(tf.square(logits[:BATCH])) - 0.1 * tf.reduce_mean(logits[BATCH:])
    loop(tf, record, rows_of(features, noise, x, z), loss, [logits])


@case()
def doubled_dynamic_batch(tf, record, workdir):
    """The same with an unknown batch size and tf.split: rows of both halves stay where one device has them."""
    features, _ = plane(rows=30, width=3)
    other, _ = plane(rows=30, width=3, seed=4)
    x, z = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None, 3])
    code = tf.layers.dense(tf.concat([x, z], axis=0), 4, tf.nn.tanh)
    left, right = tf.split(code, 2, axis=0)
    distance = tf.reduce_sum(tf.square(left - right), axis=1)
    loss = tf.reduce_mean(tf.nn.relu(1.0 - distance)) + 0.1 * tf.reduce_mean(distance)
    loop(tf, record, rows_of(features, other, x, z, 13), loss, [code])


@case(fixed="the graph holds its number of samples")
def time_major(tf, record, workdir):
    """Inputs [time, batch, width]: the batch is dim 1 from the placeholder to the loss."""
    values = np.random.RandomState(0).randn(5, 25, 3).astype(np.float32)
    x = tf.placeholder(tf.float32, [5, None, 3])
    cell = tf.nn.rnn_cell.GRUCell(4)
    outputs, state = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32, time_major=True)
    loss = tf.reduce_mean(tf.square(tf.layers.dense(outputs, 3)[:-1] - x[1:]))
    loop(tf, record, lambda step: {x: values[:, step : step + 13]}, loss, [outputs, state])


@case(fixed="the graph holds its number of samples")
def static_time_major(tf, record, workdir):
    """The same with a static batch, unstacked, and a mask [time, batch]."""
    random = np.random.RandomState(0)
    values, masks = random.randn(4, 25, 3), (random.uniform(size=(4, 25)) > 0.3).astype(np.float32)
    x, mask = tf.placeholder(tf.float32, [4, BATCH, 3]), tf.placeholder(tf.float32, [4, BATCH])
    state = tf.zeros([BATCH, 3])
    w = tf.get_variable("w", [3, 3])
    total = 0.0
    for now, alive in zip(tf.unstack(x), tf.unstack(mask)):
        state = tf.tanh(now + tf.matmul(state, w))
        total += tf.reduce_sum(alive * tf.reduce_sum(tf.square(state - 0.5), axis=1))
    loss = total / tf.reduce_sum(mask)
    loop(tf, record, lambda step: {x: values[:, step : step + BATCH], mask: masks[:, step : step + BATCH]}, loss)


@case(fixed="the graph holds its number of samples")
def state_fed_back_on_dim_one(tf, record, workdir):
    """A state placeholder [layers, batch, h] is fed with the stacked state of the last run."""
    text = np.random.RandomState(0).randint(0, 7, (6, 61))
    x, y = tf.placeholder(tf.int32, [6, 5]), tf.placeholder(tf.int32, [6, 5])
    start = tf.placeholder(tf.float32, [2, 6, 4])
    cell = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.GRUCell(4) for _ in range(2)])
    embedded = tf.nn.embedding_lookup(tf.get_variable("table", [7, 3]), x)
    outputs, final = tf.nn.dynamic_rnn(cell, embedded, initial_state=tuple(tf.unstack(start)))
    stacked = tf.stack(final)
    loss = tf.losses.sparse_softmax_cross_entropy(y, tf.layers.dense(outputs, 7))
    train = tf.train.AdamOptimizer(0.02).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        state = np.zeros([2, 6, 4], np.float32)
        for step in range(10):
            feeds = {x: text[:, 5 * step : 5 * step + 5], y: text[:, 5 * step + 1 : 5 * step + 6], start: state}
            value, state, _ = sess.run([loss, stacked, train], feeds)
            record("loss", value)
            record("state", state)
        record_variables(tf, sess, record)


@case(fixed="the graph holds its number of samples")
def random_rows(tf, record, workdir):
    """random_uniform([32, 1]) mixing coefficients: a static draw with a row for every sample."""
    features, _ = plane(rows=60, width=3)
    other, _ = plane(rows=60, width=3, seed=2)
    x, z = tf.placeholder(tf.float32, [32, 3]), tf.placeholder(tf.float32, [32, 3])
    share = tf.random_uniform([32, 1], 0.0, 1.0)
    mixed = x + share * (z - x)
    w = tf.get_variable("w", [3, 3])
    (slope,) = tf.gradients(tf.tanh(tf.matmul(mixed, w)), mixed)
    penalty = tf.reduce_mean(tf.square(tf.sqrt(tf.reduce_sum(tf.square(slope), [1]) + 1e-6) - 1.0))
    loss = penalty + tf.reduce_mean(tf.square(tf.matmul(mixed, w)))
    loop(tf, record, rows_of(features, other, x, z, 32), loss, [share])


@case(fixed="the graph holds its number of samples")
def constants_of_batch_rows(tf, record, workdir):
    """Row indices range(B) used to gather_nd, a mask of B rows from numpy, tile and fill by B."""
    random = np.random.RandomState(0)
    values, actions = random.randn(30, 4), random.randint(0, 3, 30)
    x, action = tf.placeholder(tf.float32, [BATCH, 4]), tf.placeholder(tf.int32, [BATCH])
    q = tf.layers.dense(x, 3)
    picked = tf.gather_nd(q, tf.stack([tf.range(BATCH), action], axis=1))
    mask = tf.constant((np.arange(BATCH) % 3 > 0).astype(np.float32))
    bias = tf.tile(tf.get_variable("bias", [1], initializer=tf.ones_initializer()), [BATCH])
    target = tf.fill([BATCH], 0.5) + tf.reduce_sum(x, 1)
    loss = tf.reduce_sum(mask * tf.square(picked + bias - target)) / tf.reduce_sum(mask)
    loop(tf, record, rows_of(values, actions, x, action), loss, [picked])


@case(fixed="the graph holds its number of samples")
def reshaped_with_constants(tf, record, workdir):
    """Attention by hand: reshapes to [B, T, heads, d], transposes and [B * heads, T, T] with constants."""
    values = np.random.RandomState(0).randn(30, 3, 4).astype(np.float32)
    x = tf.placeholder(tf.float32, [BATCH, 3, 4])
    flat = tf.reshape(x, [BATCH * 3, 4])

    def heads(name):
        projected = tf.matmul(flat, tf.get_variable(name, [4, 4]))
        return tf.reshape(tf.transpose(tf.reshape(projected, [BATCH, 3, 2, 2]), [0, 2, 1, 3]), [BATCH * 2, 3, 2])

    scores = tf.nn.softmax(tf.matmul(heads("q"), heads("k"), transpose_b=True))
    mixed = tf.reshape(tf.matmul(scores, heads("v")), [BATCH, 2, 3, 2])
    output = tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [BATCH * 3, 4])
    loss = tf.reduce_mean(tf.square(output - flat))
    loop(tf, record, lambda step: {x: values[step : step + BATCH]}, loss, [scores])


@case()
def heads_before_the_batch(tf, record, workdir):
    """concat(split(x, heads, axis=2), axis=0) makes [heads * B, T, d]: the batch is the inner part of dim 0."""
    values = np.random.RandomState(0).randn(30, 3, 4).astype(np.float32)
    x = tf.placeholder(tf.float32, [None, 3, 4])
    q, k, v = (tf.layers.dense(x, 4, use_bias=False) for _ in range(3))
    q, k, v = (tf.concat(tf.split(part, 2, axis=2), axis=0) for part in (q, k, v))
    scores = tf.matmul(q, k, transpose_b=True)
    mask = tf.sign(tf.abs(tf.reduce_sum(x, axis=-1)))
    mask = tf.tile(tf.expand_dims(tf.tile(mask, [2, 1]), 1), [1, 3, 1])
    scores = tf.nn.softmax(tf.where(tf.equal(mask, 0), -1e9 * tf.ones_like(scores), scores))
    output = tf.concat(tf.split(tf.matmul(scores, v), 2, axis=0), axis=2)
    loss = tf.reduce_mean(tf.square(output - x))
    loop(tf, record, lambda step: {x: values[step : step + 7]}, loss, [scores])


@case(fixed="the graph holds its number of samples")
def unrolled_over_rows(tf, record, workdir):
    """A Python loop over the rows of a static batch, stacked again for layers that are most of the work."""
    features, targets = plane(rows=20, width=3)
    x, y = tf.placeholder(tf.float32, [6, 3]), tf.placeholder(tf.float32, [6, 1])
    w = tf.get_variable("w", [3])
    stacked = tf.stack([tf.reduce_sum(x[i] * w, keepdims=True) for i in range(6)])
    output = tf.layers.dense(tf.layers.dense(stacked, 64, tf.tanh), 1)
    loop(tf, record, rows_of(features, targets, x, y, 6), tf.reduce_mean(tf.square(output - y)), [output])
