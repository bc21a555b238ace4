"""Random numbers drawn in the graph: every device count must draw what one device draws."""

from __future__ import annotations

import numpy as np

from tests.numerics.case import case, record_variables
from tests.numerics.data import batches, blobs, images, plane


def loop(tf, record, x, y, loss, fetches=(), rows=20, width=4):
    """SGD over batches of 7, 7 and 6, recording the random fetches as well."""
    features, targets = plane(rows=rows, width=width)
    train = tf.train.GradientDescentOptimizer(0.05).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for a, b in batches(7, features, targets):
                value, _, drawn = sess.run([loss, train, list(fetches)], {x: a, y: b})
                record("loss", value)
                record("drawn", drawn)
        record_variables(tf, sess, record)


def placeholders(tf):
    """Features [batch, 4] and targets [batch, 1]."""
    return tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])


@case()
def dropout(tf, record, workdir):
    """Dropout masks over [batch, width], one of them with a noise shape that is one number a row."""
    x, y = placeholders(tf)
    hidden = tf.nn.dropout(tf.layers.dense(x, 6, tf.nn.tanh), rate=0.4)
    hidden = tf.nn.dropout(hidden, rate=0.2, noise_shape=[tf.shape(hidden)[0], 1])
    loss = tf.reduce_mean(tf.square(tf.layers.dense(hidden, 1) - y))
    loop(tf, record, x, y, loss, [hidden])


@case()
def noise_of_every_kind(tf, record, workdir):
    """Normal, truncated, uniform, integer, gamma and Poisson draws shaped by the batch, with and without seeds."""
    x, y = placeholders(tf)
    shape = tf.shape(x)
    draws = [
        tf.random_normal(shape),
        tf.truncated_normal(shape, seed=3),
        tf.random_uniform(shape, -1.0, 1.0),
        tf.cast(tf.random_uniform(shape, 0, 5, tf.int32), tf.float32),
    ]
    loss = tf.reduce_mean(tf.square(tf.layers.dense(x + 0.1 * tf.add_n(draws), 1) - y))
    loop(tf, record, x, y, loss, draws)


@case()
def gamma_and_poisson(tf, record, workdir):
    """Draws whose parameters are the batch's own numbers."""
    x, y = placeholders(tf)
    rate = tf.nn.softplus(tf.stop_gradient(x))
    draws = [tf.random_gamma([], alpha=rate), tf.random_poisson(rate, [])]
    loss = tf.reduce_mean(tf.square(tf.layers.dense(x + 0.1 * draws[0] + 0.1 * draws[1], 1) - y))
    loop(tf, record, x, y, loss, draws)


@case()
def variational_autoencoder(tf, record, workdir):
    """The reparametrised code of a VAE, and a KL term per row."""
    pixels, _ = images(rows=20, side=4, channels=1, classes=2)
    x = tf.placeholder(tf.float32, [None, 16])
    hidden = tf.layers.dense(x, 8, tf.nn.relu)
    mean, log_variance = tf.layers.dense(hidden, 2), tf.layers.dense(hidden, 2)
    code = mean + tf.exp(0.5 * log_variance) * tf.random_normal(tf.shape(mean))
    logits = tf.layers.dense(tf.layers.dense(code, 8, tf.nn.relu), 16)
    labels = tf.cast(x > 0, tf.float32)
    likelihood = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits), 1)
    divergence = -0.5 * tf.reduce_sum(1 + log_variance - tf.square(mean) - tf.exp(log_variance), 1)
    loss = tf.reduce_mean(likelihood + divergence)
    train = tf.train.AdamOptimizer(0.01).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(4):
            for (batch,) in batches(7, pixels.reshape(20, 16)):
                value, _, drawn = sess.run([loss, train, code], {x: batch})
                record("loss", value)
                record("code", drawn)
        record_variables(tf, sess, record)


@case()
def sampled_actions(tf, record, workdir):
    """tf.multinomial over the rows' logits, and a REINFORCE loss on the samples."""
    features, _ = blobs(rows=20, width=4, classes=3)
    x = tf.placeholder(tf.float32, [None, 4])
    logits = tf.layers.dense(x, 3)
    action = tf.stop_gradient(tf.multinomial(logits, 1))[:, 0]
    reward = tf.cast(tf.equal(action, tf.argmax(x[:, :3], 1)), tf.float32)
    chosen = -tf.nn.sparse_softmax_cross_entropy_with_logits(labels=action, logits=logits)
    loss = -tf.reduce_mean(chosen * (reward - tf.reduce_mean(reward)))
    train = tf.train.GradientDescentOptimizer(0.3).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for (batch,) in batches(7, features):
                value, _, taken = sess.run([loss, train, action], {x: batch})
                record("loss", value)
                record("action", taken)
        record_variables(tf, sess, record)


@case()
def stochastic_depth(tf, record, workdir):
    """Residual blocks dropped per row, and a whole block dropped by tf.cond on a scalar draw."""
    x, y = placeholders(tf)
    keep = tf.floor(0.7 + tf.random_uniform([tf.shape(x)[0], 1]))
    net = x + keep / 0.7 * tf.layers.dense(x, 4, tf.nn.tanh)
    block = tf.layers.dense(net, 4, tf.nn.tanh)
    alive = tf.random_uniform([]) < 0.6
    net = tf.cond(alive, lambda: net + block, lambda: tf.identity(net))
    loss = tf.reduce_mean(tf.square(tf.layers.dense(net, 1) - y))
    loop(tf, record, x, y, loss, [keep, alive])


@case()
def shuffled_rows(tf, record, workdir):
    """random_shuffle of the batch (mixup): rows move between devices."""
    x, y = placeholders(tf)
    order = tf.random_shuffle(tf.range(tf.shape(x)[0]))
    share = tf.random_uniform([], 0.5, 1.0)
    mixed = share * x + (1 - share) * tf.gather(x, order)
    target = share * y + (1 - share) * tf.gather(y, order)
    loss = tf.reduce_mean(tf.square(tf.layers.dense(mixed, 1) - target))
    loop(tf, record, x, y, loss, [order, share])


@case()
def stateless_draws(tf, record, workdir):
    """Stateless random ops, seeded by the step that is fed."""
    features, targets = plane(rows=20, width=4)
    x, y = placeholders(tf)
    step = tf.placeholder(tf.int32, [])
    noise = tf.random.stateless_normal(tf.shape(x), tf.stack([step, 5]))
    loss = tf.reduce_mean(tf.square(tf.layers.dense(x + 0.3 * noise, 1) - y))
    train = tf.train.GradientDescentOptimizer(0.05).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for at in range(10):
            feeds = {x: features[at : at + 7], y: targets[at : at + 7], step: at}
            value, drawn, _ = sess.run([loss, noise, train], feeds)
            record("loss", value)
            record("noise", drawn)
        record_variables(tf, sess, record)


@case()
def parameters_perturbed(tf, record, workdir):
    """Noise of a weight's shape on the forward path: one draw that all devices share."""
    x, y = placeholders(tf)
    w = tf.get_variable("w", [4, 5])
    noise = tf.random_normal(tf.shape(w), stddev=0.1)
    hidden = tf.nn.tanh(tf.matmul(x, w + noise))
    loss = tf.reduce_mean(tf.square(tf.layers.dense(hidden, 1) - y))
    loop(tf, record, x, y, loss, [noise])


@case()
def initial_values(tf, record, workdir):
    """Initializers of many kinds, run twice: the second run draws further numbers."""
    x, y = placeholders(tf)
    kinds = [
        tf.truncated_normal_initializer(stddev=0.1),
        tf.glorot_normal_initializer(),
        tf.orthogonal_initializer(),
        tf.variance_scaling_initializer(2.0),
        tf.random_uniform_initializer(-0.2, 0.2, seed=11),
    ]
    net = x
    for index, kind in enumerate(kinds):
        net = tf.nn.tanh(tf.matmul(net, tf.get_variable(f"w{index}", [4, 4], initializer=kind)))
    loss = tf.reduce_mean(tf.square(tf.reduce_sum(net, 1, keepdims=True) - y))
    initialise = tf.global_variables_initializer()
    with tf.Session() as sess:
        for _ in range(2):
            sess.run(initialise)
            record_variables(tf, sess, record)
    loop(tf, record, x, y, loss)


@case()
def act_calls_between_steps(tf, record, workdir):
    """Actions for one row, too few to cut, and evaluations draw from the stream that steps draw from."""
    features, targets = plane(rows=20, width=4)
    x, y = placeholders(tf)
    keep = tf.placeholder_with_default(0.5, [])
    hidden = tf.nn.dropout(tf.layers.dense(x, 6, tf.nn.tanh), rate=1.0 - keep)
    output = tf.layers.dense(hidden, 1)
    action = output + tf.random_normal(tf.shape(output), stddev=0.1)
    loss = tf.reduce_mean(tf.square(output - y))
    train = tf.train.GradientDescentOptimizer(0.05).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(2):
            for a, b in batches(7, features, targets):
                record("action", sess.run(action, {x: a[:1]}))
                record("loss", sess.run([loss, train], {x: a, y: b})[0])
                record("loss and action", sess.run([loss, action], {x: a[:3], y: b[:3], keep: 0.8}))
        record_variables(tf, sess, record)


@case()
def random_part_of_a_fed_batch(tf, record, workdir):
    """One place is drawn for the whole batch, and every image is cropped there."""
    random = np.random.RandomState(0)
    x = tf.placeholder(tf.float32, [None, 7, 6, 2])
    cropped = tf.random_crop(x, [tf.shape(x)[0], 5, 4, 2])
    loss = tf.reduce_mean(tf.square(tf.layers.conv2d(cropped, 3, 3) - 1.0))
    train = tf.train.AdamOptimizer(0.02).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for size in (8, 5, 7, 3, 8):
            record("losses", sess.run([loss, cropped, train], {x: random.randn(size, 7, 6, 2)})[:2])
        record_variables(tf, sess, record)


@case()
def dropout_at_every_turn(tf, record, workdir):
    """Dropout of inputs, states and outputs of a cell, within the lengths of sequences, and noise in a written loop."""
    random = np.random.RandomState(0)
    x, lengths = tf.placeholder(tf.float32, [None, 5, 3]), tf.placeholder(tf.int32, [None])
    cell = tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.LSTMCell(4), 0.7, 0.5, 0.8)
    states, _ = tf.nn.dynamic_rnn(cell, x, lengths, dtype=tf.float32, parallel_iterations=1)
    turn = lambda i, h: (i + 1, tf.tanh(h) + tf.random_normal(tf.shape(h)))  # noqa: E731
    _, noisy = tf.while_loop(lambda i, h: i < 3, turn, [0, tf.reduce_mean(states, 1)], parallel_iterations=1)
    loss = tf.reduce_mean(tf.square(noisy - 0.3))
    train = tf.train.AdamOptimizer(0.02).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for size in (8, 5, 7, 8):
            feed = {x: random.randn(size, 5, 3), lengths: random.randint(1, 6, size)}
            record("losses", sess.run([loss, noisy, train], feed)[:2])
        record_variables(tf, sess, record)
