"""Training loops that feed placeholders."""

from __future__ import annotations

import numpy as np

from tests.numerics.case import case, record_variables
from tests.numerics.data import batches, blobs, plane


@case()
def softmax_regression(tf, record, workdir):
    """The classic loop: shuffled batches of 13 with a short last one, accuracy at the end."""
    features, labels = blobs(rows=70, width=5, classes=3)
    x = tf.placeholder(tf.float32, [None, 5])
    y = tf.placeholder(tf.int32, [None])
    w = tf.Variable(tf.zeros([5, 3]), name="w")
    b = tf.Variable(tf.zeros([3]), name="b")
    logits = tf.matmul(x, w) + b
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    correct = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), y)
    accuracy = tf.reduce_mean(tf.cast(correct, tf.float32))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(2):
            order = np.random.permutation(70)
            for batch_x, batch_y in batches(13, features[order], labels[order]):
                _, value = sess.run([train, loss], feed_dict={x: batch_x, y: batch_y})
                record("loss", value)
        record("accuracy", sess.run(accuracy, feed_dict={x: features, y: labels}))
        record_variables(tf, sess, record)


@case()
def fed_scalars(tf, record, workdir):
    """Learning rate, keep probability and a training flag are fed beside the batch."""
    features, targets = plane(rows=50, width=4)
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    y = tf.placeholder(tf.float32, [None, 1], name="y")
    rate = tf.placeholder(tf.float32, name="rate")
    keep = tf.placeholder(tf.float32, name="keep")
    is_training = tf.placeholder(tf.bool, name="is_training")
    hidden = tf.nn.relu(tf.layers.dense(x, 8))
    hidden = tf.cond(is_training, lambda: tf.nn.dropout(hidden, keep_prob=keep), lambda: hidden)
    loss = tf.reduce_mean(tf.square(tf.layers.dense(hidden, 1) - y))
    train = tf.train.GradientDescentOptimizer(rate).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step, (batch_x, batch_y) in enumerate(batches(7, features, targets)):
            feeds = {x: batch_x, y: batch_y, rate: 0.1 / (1 + step), keep: 0.8, is_training: True}
            _, value = sess.run([train, loss], feeds)
            record("loss", value)
        record("evaluation", sess.run(loss, {x: features, y: targets, keep: 1.0, is_training: False}))
        record_variables(tf, sess, record)


@case()
def placeholder_with_default(tf, record, workdir):
    """Defaults for the training flag and the rate, fed now and then."""
    features, targets = plane(rows=30, width=3)
    x = tf.placeholder(tf.float32, [None, 3])
    y = tf.placeholder(tf.float32, [None, 1])
    training = tf.placeholder_with_default(False, [])
    rate = tf.placeholder_with_default(tf.constant(0.05), [])
    hidden = tf.layers.dropout(tf.layers.dense(x, 6, tf.nn.tanh), 0.3, training=training)
    loss = tf.losses.mean_squared_error(y, tf.layers.dense(hidden, 1))
    train = tf.train.MomentumOptimizer(rate, 0.9).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(10):
            feeds = {x: features[step : step + 11], y: targets[step : step + 11], training: True}
            if step > 5:
                feeds[rate] = 0.01
            record("loss", sess.run([loss, train], feeds)[0])
        record("evaluation", sess.run(loss, {x: features, y: targets}))
        record_variables(tf, sess, record)


@case()
def feed_of_an_inner_tensor(tf, record, workdir):
    """A hidden layer's output and a constant are fed in place of being computed."""
    features, targets = plane(rows=20, width=4)
    x = tf.placeholder(tf.float32, [None, 4])
    y = tf.placeholder(tf.float32, [None, 1])
    scale = tf.constant(1.0)
    hidden = tf.layers.dense(x, 5, tf.nn.tanh)
    loss = scale * tf.reduce_mean(tf.square(tf.layers.dense(hidden, 1) - y))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for batch_x, batch_y in batches(7, features, targets):
            record("loss", sess.run([loss, train], {x: batch_x, y: batch_y})[0])
            record("loss", sess.run([loss, train], {x: batch_x, y: batch_y, scale: 0.5})[0])
        code = np.random.RandomState(1).randn(9, 5)
        record("loss", sess.run([loss, train], {x: features[:9], hidden: code, y: targets[:9]})[0])
        record_variables(tf, sess, record)


@case()
def unknown_rank(tf, record, workdir):
    """Placeholders declared without any shape; only the fed value tells."""
    features, targets = plane(rows=30, width=4)
    x = tf.placeholder(tf.float32)
    y = tf.placeholder(tf.float32)
    w = tf.get_variable("w", [4, 1])
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - y))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for batch_x, batch_y in batches(7, features, targets):
            record("loss", sess.run([loss, train], {x: batch_x, y: batch_y})[0])
        record_variables(tf, sess, record)


@case()
def python_lists(tf, record, workdir):
    """Feeds are Python lists and the train op is run by its own method."""
    x = tf.placeholder(tf.float32, [None])
    y = tf.placeholder(tf.float32, [None])
    slope, offset = tf.Variable(0.3), tf.Variable(-0.3)
    loss = tf.reduce_sum(tf.square(slope * x + offset - y))
    train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    feeds = {x: [1, 2, 3, 4, 5], y: [0, -1, -2, -3, -4]}
    with tf.Session():
        tf.global_variables_initializer().run()
        for _ in range(10):
            train.run(feeds)
            record("loss", loss.eval(feeds))
        record("slope", slope.eval())
        record("offset", offset.eval())


@case(cut=False, reason="the rows of a fed sparse tensor are not a dim of its arrays")
def sparse_placeholder(tf, record, workdir):
    """Bags of words fed as SparseTensorValue into a sparse matmul."""
    random = np.random.RandomState(0)
    dense = random.uniform(size=(10, 6)).astype(np.float32) * (random.uniform(size=(10, 6)) > 0.6)
    _, labels = blobs(rows=10, width=2, classes=3)
    where = np.argwhere(dense)
    value = tf.SparseTensorValue(where, dense[tuple(where.T)], dense.shape)
    x = tf.sparse_placeholder(tf.float32)
    y = tf.placeholder(tf.int32, [None])
    w = tf.get_variable("w", [6, 3])
    loss = tf.losses.sparse_softmax_cross_entropy(y, tf.sparse_tensor_dense_matmul(x, w))
    train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(10):
            record("loss", sess.run([loss, train], {x: value, y: labels})[0])
        record_variables(tf, sess, record)


@case()
def labels_in_several_inputs(tf, record, workdir):
    """Two inputs, a mask and two targets that share one batch, as in multi-task scripts."""
    features, labels = blobs(rows=33, width=4, classes=3)
    extra, targets = plane(rows=33, width=2)
    mask = (np.arange(33) % 4 != 0).astype(np.float32)
    x1 = tf.placeholder(tf.float32, [None, 4])
    x2 = tf.placeholder(tf.float32, [None, 2])
    y1 = tf.placeholder(tf.int32, [None])
    y2 = tf.placeholder(tf.float32, [None, 1])
    known = tf.placeholder(tf.float32, [None])
    joint = tf.layers.dense(tf.concat([x1, x2], axis=1), 7, tf.nn.elu)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y1, logits=tf.layers.dense(joint, 3))
    first = tf.reduce_sum(losses * known) / tf.maximum(tf.reduce_sum(known), 1.0)
    second = tf.reduce_mean(tf.abs(tf.layers.dense(joint, 1) - y2))
    train = tf.train.AdamOptimizer(0.01).minimize(first + 0.3 * second)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(2):
            for a, b, c, d, e in batches(7, features, extra, labels, targets, mask):
                record("losses", sess.run([first, second, train], {x1: a, x2: b, y1: c, y2: d, known: e})[:2])
        record_variables(tf, sess, record)


def noisy_regression(tf, noise):
    """Inputs with noise added: the placeholder of the inputs, the loss, a training step."""
    x = tf.placeholder(tf.float32, [None, 4])
    added = x + noise(tf, x)
    loss = tf.reduce_mean(tf.square(tf.layers.dense(tf.layers.dense(added, 6, tf.nn.tanh), 1)))
    return x, loss, tf.train.GradientDescentOptimizer(0.1).minimize(loss)


@case()
def one_row_for_all(tf, record, workdir):
    """A fed tensor has as many rows as the batch, or one that is broadcast; each of the two has its turn as the one."""
    features, _ = plane(rows=12, width=4)
    noise = tf.placeholder(tf.float32, [None, 4])
    x, loss, train = noisy_regression(tf, lambda tf, x: noise)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for rows, noisy in [(6, 1), (6, 6), (6, 1), (7, 7), (1, 6), (5, 1), (1, 1), (7, 7), (1, 7)]:
            feeds = {x: features[:rows], noise: features[5 : 5 + noisy]}
            record("loss", sess.run([loss, train], feeds)[0])
            record("evaluation", sess.run(loss, feeds))
        record_variables(tf, sess, record)


@case()
def one_row_in_place_of_noise(tf, record, workdir):
    """A random op is fed a row of zeros to switch it off: from the second run on, and from the first."""
    features, _ = plane(rows=12, width=4)
    drawn = []

    def noise(tf, x):
        drawn.append(tf.random_normal(tf.shape(x)))
        return drawn[0]

    x, loss, train = noisy_regression(tf, noise)
    zeros = np.zeros([1, 4], np.float32)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        record("evaluation", sess.run(loss, {x: features, drawn[0]: zeros}))
        for rows in (6, 7, 5):
            record("loss", sess.run([loss, train], {x: features[:rows], drawn[0]: features[:rows] * 0})[0])
            record("loss", sess.run([loss, train], {x: features[:rows], drawn[0]: zeros})[0])
            record("evaluation", sess.run(loss, {x: features, drawn[0]: zeros}))
        record_variables(tf, sess, record)


@case()
def rows_that_do_not_fit(tf, record, workdir):
    """TensorFlow refuses feeds whose numbers of rows differ, however often they come, and good ones go on training."""
    features, targets = plane(rows=12, width=4)
    x = tf.placeholder(tf.float32, [None, 4])
    y = tf.placeholder(tf.float32, [None, 1])
    loss = tf.reduce_mean(tf.square(tf.layers.dense(x, 1) - y))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for rows, others in [(8, 3), (6, 6), (4, 3), (3, 4), (6, 6), (3, 4), (3, 2), (8, 4), (2, 6), (7, 7), (6, 12)]:
            for fetches in (loss, [loss, train]):
                try:
                    record("loss", sess.run(fetches, {x: features[:rows], y: targets[:others]}))
                except tf.errors.InvalidArgumentError as error:
                    record("refused", [s for s in error.message.splitlines() if "Incompatible shapes" in s])
        record_variables(tf, sess, record)


@case(fixed="a drawn batch of one row that meets a larger drawn one is refused, not broadcast")
def drawn_rows_that_do_not_fit(tf, record, workdir):
    """A batch that is drawn meets a fed one of other sizes, and one of another iterator: refused, and drawn from."""
    features, _ = plane(rows=60, width=4)
    data = tf.data.Dataset.from_tensor_slices(features).batch(4)
    x = tf.data.make_one_shot_iterator(data).get_next()
    sizes = tf.data.Dataset.from_tensor_slices([4, 4, 6, 2, 4, 5])
    y = tf.data.make_one_shot_iterator(sizes.map(lambda n: tf.ones([n, 4]))).get_next()
    noise = tf.random_normal(tf.shape(x))
    output = tf.layers.dense(x + noise, 1)
    loss = tf.reduce_mean(tf.square(output))
    other = tf.reduce_mean(tf.square(tf.layers.dense(x - y, 1)))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    train_other = tf.train.GradientDescentOptimizer(0.1).minimize(other)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())

        def attempt(fetches, feeds):
            try:
                record("loss", sess.run(fetches, feeds)[0])
            except tf.errors.InvalidArgumentError as error:
                record("refused", ["Incompatible shapes" in error.message])

        for rows in (4, 3, 3, 5, 4, 2):
            attempt([loss, train], {noise: np.ones([rows, 4], np.float32)})
        for _ in range(6):
            attempt([other, train_other], {})
        record("next", sess.run(x))
        record_variables(tf, sess, record)
