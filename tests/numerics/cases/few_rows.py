"""Batches of one row, of fewer rows than there are devices, and of pieces of a single row, drawn and fed in turn.

What goes wrong there is a shape that an empty piece does not show, an axis that a piece of one row seems to broadcast,
and state that the other devices keep from before a step that was not cut.
"""

from __future__ import annotations

import numpy as np

from tests.numerics.case import case, record_variables
from tests.numerics.data import plane

SIZES = (4, 1, 5, 2, 3, 1, 1, 7, 4)
"""Rows of the batches of a run, step by step."""


def train_on(tf, record, x, loss, draw, fetches=()):
    """Feeds batches of all sizes to a training step with Adam, and records losses, slots and variables."""
    train = tf.train.AdamOptimizer(0.02).minimize(loss)
    random = np.random.RandomState(0)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for size in SIZES:
            values = sess.run([loss, *fetches, train], {x: draw(random, size)})[:-1]
            for name, value in zip(("loss", "rows"), values):
                record(name, value)
        record_variables(tf, sess, record)


def drawn(tf, record, model, rows=3, width=6, epochs=3):
    """Trains with momentum on an iterator whose batches shrink to one row at the end of each epoch."""
    points, targets = plane(rows=2 * rows + 1, width=width)
    data = tf.data.Dataset.from_tensor_slices((points, targets)).batch(rows)
    iterator = tf.data.make_initializable_iterator(data)
    x, y = iterator.get_next()
    loss = model(x, y)
    train = tf.train.MomentumOptimizer(0.03, 0.9).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(epochs):
            sess.run(iterator.initializer)
            for _ in range(3):
                record("loss", sess.run([loss, train])[0])
        record_variables(tf, sess, record)


@case()
def slots_after_a_step_that_is_not_cut(tf, record, workdir):
    """Padding by reflection, which refuses empty tensors: short steps run on one device, and Adam's slots follow."""
    x = tf.placeholder(tf.float32, [None, 5, 5, 2])
    padded = tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]], "REFLECT")
    hidden = tf.tanh(tf.layers.conv2d(padded, 2, 3))
    loss = tf.reduce_mean(tf.square(hidden - x))
    rows = tf.reduce_mean(hidden, [1, 2, 3])
    train_on(tf, record, x, loss, lambda random, size: random.randn(size, 5, 5, 2), [rows])


@case()
def slots_of_rows_after_a_step_that_is_not_cut(tf, record, workdir):
    """The same with a table whose touched rows are updated: sparse updates write slots as well."""
    x = tf.placeholder(tf.int64, [None, 3])
    table = tf.get_variable("table", [7, 4], initializer=tf.random_normal_initializer(seed=1))
    loss = tf.reduce_mean(tf.square(tf.layers.dense(tf.nn.embedding_lookup(table, x), 2) - 1.0))
    train_on(tf, record, x, loss, lambda random, size: random.randint(0, 7, [size, 3]))


@case()
def open_size_beside_the_batch(tf, record, workdir):
    """``reshape(h, [batch, -1, width])`` with a length that only the values fed show."""
    x = tf.placeholder(tf.float32, [None, None, 6])
    w = tf.get_variable("w", [6, 8], initializer=tf.random_normal_initializer(seed=1))
    hidden = tf.reshape(tf.matmul(tf.reshape(x, [-1, 6]), w), [tf.shape(x)[0], -1, 8])
    loss = tf.reduce_mean(tf.square(tf.reduce_mean(tf.tanh(hidden), [1, 2]) - 0.3))
    train_on(tf, record, x, loss, lambda random, size: random.randn(size, 4 + size % 3, 6))


@case()
def drawn_open_size_beside_the_batch(tf, record, workdir):
    """The same of a batch that is drawn, whose last piece has no row."""
    w = tf.get_variable("w", [2, 4], initializer=tf.random_normal_initializer(seed=1))

    def model(x, y):
        x = tf.reshape(x, [tf.shape(x)[0], -1, 2])
        hidden = tf.reshape(tf.matmul(tf.reshape(x, [-1, 2]), w), [tf.shape(x)[0], -1, 4])
        return tf.reduce_mean(tf.square(tf.reduce_mean(tf.tanh(hidden), [1, 2])[:, None] - y))

    drawn(tf, record, model)


@case()
def drawn_size_that_nothing_shows(tf, record, workdir):
    """A -1 that follows from no size fed or drawn: a part of the features is left out first."""
    w = tf.get_variable("w", [2, 4], initializer=tf.random_normal_initializer(seed=1))

    def model(x, y):
        kept = tf.strided_slice(x, [0, 0], [tf.shape(x)[0], 2 * (tf.shape(x)[1] // 3)])
        hidden = tf.tensordot(tf.reshape(kept, tf.stack([tf.shape(x)[0], -1, 2])), w, 1)
        return tf.reduce_mean(tf.square(tf.reduce_mean(tf.tanh(hidden), [1, 2])[:, None] - y))

    drawn(tf, record, model)


@case()
def all_pairs_beside_a_column(tf, record, workdir):
    """Products of all pairs of a batch, less the largest of each row: a piece of one row broadcasts nothing."""
    x = tf.placeholder(tf.float32, [None, 6])
    embedded = tf.layers.dense(x, 4)
    products = tf.matmul(embedded, embedded, transpose_b=True)
    loss = tf.reduce_mean(tf.tanh(products - tf.reduce_max(products, 1, keepdims=True)))
    train_on(tf, record, x, loss, lambda random, size: random.randn(size, 6))


@case()
def drawn_pairs_beside_a_row(tf, record, workdir):
    """Distances of all pairs of a drawn batch, a column of norms beside a row of them."""

    def model(x, y):
        embedded = tf.layers.dense(x, 4)
        norms = tf.reduce_sum(tf.square(embedded), 1)
        distances = norms[:, None] - 2.0 * tf.matmul(embedded, embedded, transpose_b=True) + norms[None, :]
        return tf.reduce_mean(tf.tanh(distances)) + tf.reduce_mean(tf.square(embedded[:, :1] - y))

    drawn(tf, record, model)


@case()
def dropout_in_a_loop(tf, record, workdir):
    """A random op in a loop has a generator in every plan: a step of one row must go on with that of the others."""
    x = tf.placeholder(tf.float32, [None, 3, 2])
    cell = tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.GRUCell(4), output_keep_prob=0.7, seed=3)
    outputs, _ = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32, parallel_iterations=1)
    loss = tf.reduce_mean(tf.square(tf.layers.dense(outputs[:, -1], 2) - x[:, 0]))
    train_on(tf, record, x, loss, lambda random, size: random.randn(size, 3, 2))


@case()
def time_before_the_batch(tf, record, workdir):
    """Time-major tensors, flattened to ``[T * B, d]`` for a dense layer and put back."""
    x = tf.placeholder(tf.float32, [None, 3, 4])
    hidden = tf.layers.dense(tf.transpose(x, [1, 0, 2]), 5, tf.nn.relu)
    value = tf.squeeze(tf.layers.dense(hidden, 1), -1)
    following = tf.concat([value[1:], tf.zeros_like(value[:1])], 0)
    loss = tf.reduce_sum(tf.square(1.0 + 0.9 * tf.stop_gradient(following) - value))
    train_on(tf, record, x, loss, lambda random, size: random.randn(size, 3, 4))


@case(reason="the two parts differ in size, which only the run shows", cut=False)
def two_drawn_batches_joined(tf, record, workdir):
    """Labelled and unlabelled samples of different numbers, drawn together and joined for one pass."""
    random = np.random.RandomState(0)
    parts = [tf.data.Dataset.from_tensor_slices(random.randn(18, 6).astype(np.float32)).repeat() for _ in range(2)]
    pair = tf.data.Dataset.zip((parts[0].batch(4), parts[1].batch(12)))
    labelled, unlabelled = tf.data.make_one_shot_iterator(pair).get_next()
    loss = tf.reduce_mean(tf.square(tf.layers.dense(tf.concat([labelled, unlabelled], 0), 3) - 1.0))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(4):
            record("loss", sess.run([loss, train])[0])
        record_variables(tf, sess, record)


@case(reason="the two batches differ in size, which only the run shows", cut=False)
def training_or_validation_batch(tf, record, workdir):
    """A conditional switches between a drawn training batch and a larger one for validation."""
    random = np.random.RandomState(1)

    def batches(rows, size):
        data = tf.data.Dataset.from_tensor_slices(random.randn(rows, 5).astype(np.float32)).batch(size).repeat()
        return tf.data.make_one_shot_iterator(data).get_next()

    training, validation = batches(24, 4), batches(21, 7)
    is_training = tf.placeholder_with_default(True, [])
    x = tf.cond(is_training, lambda: tf.identity(training), lambda: tf.identity(validation))
    x.set_shape([None, 5])
    loss = tf.reduce_mean(tf.square(tf.layers.dense(x, 3) - 1.0))
    train = tf.train.GradientDescentOptimizer(0.05).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(6):
            record("loss", sess.run([loss, train])[0])
            if step % 2:
                record("validation", sess.run(loss, {is_training: False}))
        record_variables(tf, sess, record)


@case()
def parsed_numbers_beside_the_batch(tf, record, workdir):
    """Numbers parsed from text, as many as there are, make a row per sample and meet a look-up that is cut."""
    random = np.random.RandomState(0)
    ids, lines = tf.placeholder(tf.int64, [None, 3]), tf.placeholder(tf.string, [None])
    numbers = tf.strings.to_number(tf.string_split(lines, ",").values)
    weights = 1.0 / (1.0 + tf.reshape(numbers, [-1, 3]))
    table = tf.get_variable("table", [7, 4], initializer=tf.random_normal_initializer(seed=1))
    weighted = tf.nn.embedding_lookup(table, ids) * weights[..., None]
    loss = tf.reduce_mean(tf.square(tf.layers.dense(weighted, 2) - 1.0))
    train = tf.train.GradientDescentOptimizer(0.05).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for size in SIZES:
            rows = random.randint(0, 7, [size, 3])
            feeds = {ids: rows, lines: [",".join(map(str, row)) for row in rows]}
            record("loss", sess.run([loss, train], feeds)[0])
        record_variables(tf, sess, record)


@case()
def generator_whose_state_is_a_variable(tf, record, workdir):
    """``tf.random.Generator`` keeps its state in a variable, which its draws write."""
    x = tf.placeholder(tf.float32, [None, 4])
    generator = tf.random.Generator.from_seed(3)
    noise = generator.normal([4])
    loss = tf.reduce_mean(tf.square(tf.layers.dense(x + noise, 2) - 1.0))
    train = tf.train.MomentumOptimizer(0.05, 0.9).minimize(loss)
    random = np.random.RandomState(0)
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), generator.state.initializer])
        for size in SIZES:
            record("loss", sess.run([loss, train], {x: random.randn(size, 4)})[0])
        record_variables(tf, sess, record)
