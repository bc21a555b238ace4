"""Recurrent networks: cells, dynamic and static unrolling, lengths, carried states."""

from __future__ import annotations

import numpy as np

from tests.numerics.case import case, record_variables
from tests.numerics.data import batches, sentences


def sequences(rows, steps, width):
    """Random float32 [rows, steps, width], lengths int32 [rows] and targets float32 [rows]."""
    random = np.random.RandomState(0)
    values = random.randn(rows, steps, width).astype(np.float32)
    lengths = random.randint(1, steps + 1, rows).astype(np.int32)
    return values, lengths, values[:, :, 0].sum(axis=1)


@case()
def lstm_with_lengths(tf, record, workdir):
    """dynamic_rnn over an LSTM cell, stopping each row at its own length."""
    values, lengths, targets = sequences(20, 6, 3)
    x, y = tf.placeholder(tf.float32, [None, 6, 3]), tf.placeholder(tf.float32, [None])
    length = tf.placeholder(tf.int32, [None])
    cell = tf.nn.rnn_cell.LSTMCell(5)
    _, state = tf.nn.dynamic_rnn(cell, x, sequence_length=length, dtype=tf.float32)
    loss = tf.reduce_mean(tf.square(tf.layers.dense(state.h, 1)[:, 0] - y))
    train = tf.train.MomentumOptimizer(0.05, 0.8).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(4):
            for a, b, c in batches(7, values, lengths, targets):
                record("loss", sess.run([loss, train], {x: a, length: b, y: c})[0])
        record("state", sess.run(state, {x: values, length: lengths}))
        record_variables(tf, sess, record)


@case()
def bidirectional_tagger(tf, record, workdir):
    """A bidirectional LSTM tags every word; the loss is averaged over the words that exist."""
    tokens, lengths = sentences(rows=23, steps=5, vocabulary=9)
    x, length = tf.placeholder(tf.int32, [None, None]), tf.placeholder(tf.int32, [None])
    embedded = tf.nn.embedding_lookup(tf.get_variable("table", [9, 4]), x)
    forward, backward = tf.nn.rnn_cell.LSTMCell(3), tf.nn.rnn_cell.LSTMCell(3)
    outputs, _ = tf.nn.bidirectional_dynamic_rnn(forward, backward, embedded, length, dtype=tf.float32)
    logits = tf.layers.dense(tf.concat(outputs, 2), 9)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=(x * 2) % 9, logits=logits)
    loss = tf.reduce_mean(tf.boolean_mask(losses, tf.sequence_mask(length, tf.shape(x)[1])))
    train = tf.train.AdamOptimizer(0.02).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for batch, lens in batches(7, tokens, lengths):
                record("loss", sess.run([loss, train], {x: batch, length: lens})[0])
        record_variables(tf, sess, record)


@case()
def stacked_gru_with_dropout(tf, record, workdir):
    """A MultiRNNCell of GRUs in DropoutWrappers with a fed keep probability."""
    values, _, targets = sequences(20, 4, 3)
    x, y = tf.placeholder(tf.float32, [None, 4, 3]), tf.placeholder(tf.float32, [None])
    keep = tf.placeholder_with_default(1.0, [])

    def cell():
        return tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.GRUCell(4), output_keep_prob=keep, seed=3)

    outputs, _ = tf.nn.dynamic_rnn(
        tf.nn.rnn_cell.MultiRNNCell([cell(), cell()]), x, dtype=tf.float32, parallel_iterations=1
    )
    loss = tf.losses.mean_squared_error(y, tf.layers.dense(outputs[:, -1], 1)[:, 0])
    train = tf.train.GradientDescentOptimizer(0.05).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for a, b in batches(7, values, targets):
                record("loss", sess.run([loss, train], {x: a, y: b, keep: 0.8})[0])
        record("evaluation", sess.run(loss, {x: values, y: targets}))
        record_variables(tf, sess, record)


@case()
def static_unrolling(tf, record, workdir):
    """static_rnn over an unstacked input with clipped gradients."""
    values, _, targets = sequences(18, 4, 2)
    x, y = tf.placeholder(tf.float32, [None, 4, 2]), tf.placeholder(tf.float32, [None])
    cell = tf.nn.rnn_cell.BasicLSTMCell(4, forget_bias=1.0)
    outputs, _ = tf.nn.static_rnn(cell, tf.unstack(x, 4, axis=1), dtype=tf.float32)
    loss = tf.reduce_sum(tf.square(tf.layers.dense(outputs[-1], 1)[:, 0] - y))
    optimizer = tf.train.GradientDescentOptimizer(0.02)
    variables = tf.trainable_variables()
    gradients, norm = tf.clip_by_global_norm(tf.gradients(loss, variables), 1.0)
    train = optimizer.apply_gradients(zip(gradients, variables))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for a, b in batches(7, values, targets):
                value, size, _ = sess.run([loss, norm, train], {x: a, y: b})
                record("loss", value)
                record("norm", size)
        record_variables(tf, sess, record)


@case()
def raw_loop(tf, record, workdir):
    """tf.nn.raw_rnn with a loop_fn that reads its input from a TensorArray."""
    values, _, targets = sequences(14, 5, 2)
    x, y = tf.placeholder(tf.float32, [None, 5, 2]), tf.placeholder(tf.float32, [None])
    inputs = tf.TensorArray(tf.float32, size=5).unstack(tf.transpose(x, [1, 0, 2]))
    cell = tf.nn.rnn_cell.GRUCell(4)
    rows = tf.shape(x)[0]

    def loop_fn(time, output, state, loop_state):
        next_state = cell.zero_state(rows, tf.float32) if output is None else state
        finished = tf.fill([rows], time >= 5)
        following = tf.cond(time >= 5, lambda: tf.zeros([rows, 2]), lambda: inputs.read(time))
        following.set_shape([None, 2])
        return finished, following, next_state, output, None

    outputs, _, _ = tf.nn.raw_rnn(cell, loop_fn)
    loss = tf.reduce_mean(tf.square(tf.layers.dense(outputs.stack()[-1], 1)[:, 0] - y))
    train = tf.train.AdamOptimizer(0.02).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(5):
            for a, b in batches(7, values, targets):
                record("loss", sess.run([loss, train], {x: a, y: b})[0])
        record_variables(tf, sess, record)


@case(fixed="the state that a batch leaves is fed with the next")
def state_carried_by_feeds(tf, record, workdir):
    """Truncated backpropagation: the final LSTM state is fetched and fed as the next initial state."""
    text = np.random.RandomState(0).randint(0, 8, (7, 41))
    x, y = tf.placeholder(tf.int32, [None, None]), tf.placeholder(tf.int32, [None, None])
    cell = tf.nn.rnn_cell.LSTMCell(5)
    start = cell.zero_state(tf.shape(x)[0], tf.float32)
    embedded = tf.nn.embedding_lookup(tf.get_variable("table", [8, 4]), x)
    outputs, final = tf.nn.dynamic_rnn(cell, embedded, initial_state=start)
    loss = tf.losses.sparse_softmax_cross_entropy(y, tf.layers.dense(outputs, 8))
    train = tf.train.AdamOptimizer(0.02).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        state = None
        for step in range(8):
            feeds = {x: text[:, 5 * step : 5 * step + 5], y: text[:, 5 * step + 1 : 5 * step + 6]}
            if state is not None:
                feeds[start.c], feeds[start.h] = state.c, state.h
            value, state, _ = sess.run([loss, final, train], feeds)
            record("loss", value)
            record("state", state)
        record_variables(tf, sess, record)


@case()
def encoder_and_decoder(tf, record, workdir):
    """Sequence to sequence with dot attention; source and target have their own lengths."""
    tokens, lengths = sentences(rows=20, steps=5, vocabulary=9)
    source, source_length = tf.placeholder(tf.int32, [None, 5]), tf.placeholder(tf.int32, [None])
    table = tf.get_variable("table", [9, 4])
    encoded, state = tf.nn.dynamic_rnn(
        tf.nn.rnn_cell.GRUCell(6), tf.nn.embedding_lookup(table, source), source_length, dtype=tf.float32
    )
    target = tf.reverse_sequence(source, source_length, seq_axis=1)
    shifted = tf.concat([tf.zeros_like(target[:, :1]), target[:, :-1]], axis=1)
    with tf.variable_scope("decoder"):
        decoded, _ = tf.nn.dynamic_rnn(
            tf.nn.rnn_cell.GRUCell(6), tf.nn.embedding_lookup(table, shifted), initial_state=state
        )
    scores = tf.matmul(decoded, encoded, transpose_b=True)
    mask = tf.sequence_mask(source_length, 5)
    scores = tf.where(tf.tile(mask[:, None, :], [1, 5, 1]), scores, -1e9 * tf.ones_like(scores))
    context = tf.matmul(tf.nn.softmax(scores), encoded)
    logits = tf.layers.dense(tf.concat([decoded, context], axis=2), 9)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=logits)
    weights = tf.cast(mask, tf.float32)
    loss = tf.reduce_sum(losses * weights) / tf.reduce_sum(weights)
    train = tf.train.AdamOptimizer(0.02).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(4):
            for batch, lens in batches(7, tokens, lengths):
                record("loss", sess.run([loss, train], {source: batch, source_length: lens})[0])
        record_variables(tf, sess, record)


@case()
def fused_lstm(tf, record, workdir):
    """A layer of an LSTM as one op over time-major inputs, for batches smaller than the devices are many."""
    random = np.random.RandomState(0)
    x = tf.placeholder(tf.float32, [None, 5, 3])
    zeros = tf.zeros([tf.shape(x)[0], 4])
    kernel, bias = tf.get_variable("kernel", [7, 16]), tf.get_variable("bias", [16], initializer=tf.zeros_initializer())
    diagonals = {f"wc{gate}": tf.get_variable(f"diagonal_{gate}", [4]) for gate in "ifo"}
    layer = tf.raw_ops.BlockLSTM(
        seq_len_max=5,
        x=tf.transpose(x, [1, 0, 2]),
        cs_prev=zeros,
        h_prev=zeros,
        w=kernel,
        b=bias,
        use_peephole=True,
        **diagonals,
    )
    loss = tf.reduce_mean(tf.square(tf.layers.dense(layer.h[-1], 2) - x[:, 0, :2]))
    train = tf.train.AdamOptimizer(0.01).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for size in (7, 5, 1, 2, 6):
            record("loss", sess.run([loss, train], {x: random.randn(size, 5, 3)})[0])
        record_variables(tf, sess, record)


@case()
def connectionist_loss(tf, record, workdir):
    """Speech as most scripts have it: sparse labels are fed, their rows named by the sample they belong to."""
    random = np.random.RandomState(0)
    x, lengths = tf.placeholder(tf.float32, [None, None, 4]), tf.placeholder(tf.int32, [None])
    labels = tf.sparse_placeholder(tf.int32)
    hidden, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(6), x, lengths, dtype=tf.float32)
    logits = tf.layers.dense(hidden, 5)
    losses = tf.nn.ctc_loss(labels, tf.transpose(logits, [1, 0, 2]), lengths)
    loss = tf.reduce_mean(losses)
    train = tf.train.MomentumOptimizer(0.05, 0.9).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for size in (7, 5, 4, 7, 1):
            counts = random.randint(1, 4, size)
            places = np.array([[row, at] for row, count in enumerate(counts) for at in range(count)])
            words = tf.SparseTensorValue(places, random.randint(0, 4, len(places)), [size, counts.max()])
            feed = {x: random.randn(size, 8, 4), lengths: random.randint(6, 9, size), labels: words}
            record("losses", sess.run([losses, train], feed)[0])
        record_variables(tf, sess, record)


@case()
def loss_reads_a_mean_of_the_batch(tf, record, workdir):
    """The gradient of a mean over the batch reaches the weights in a loop alone, and cannot wait for its sum."""
    random = np.random.RandomState(0)
    x, y = tf.placeholder(tf.float32, [None, 6, 5]), tf.placeholder(tf.float32, [None, 6, 4])
    states, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(4), x, dtype=tf.float32)
    loss = tf.reduce_mean(tf.square(states - tf.reduce_mean(y, 0)))
    train = tf.train.AdamOptimizer(0.01).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for size in (8, 5, 6):
            feeds = {x: random.randn(size, 6, 5), y: random.randn(size, 6, 4)}
            record("loss", sess.run([loss, train], feeds)[0])
        record_variables(tf, sess, record)


@case()
def loop_is_given_a_mean_of_the_batch(tf, record, workdir):
    """A written loop multiplies by weights and subtracts a mean of the batch at every turn."""
    random = np.random.RandomState(0)
    x = tf.placeholder(tf.float32, [None, 4])
    w = tf.get_variable("w", [4, 4], initializer=tf.random_normal_initializer(stddev=0.3, seed=1))
    centre = tf.reduce_mean(tf.layers.dense(x, 4), 0)
    body = lambda i, h: (i + 1, tf.tanh(tf.matmul(h, w) - centre))  # noqa: E731
    _, hidden = tf.while_loop(lambda i, h: i < 3, body, [0, x])
    loss = tf.reduce_mean(tf.square(hidden - tf.reduce_mean(x, 0) - 0.3))
    train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for size in (8, 5, 6):
            record("loss", sess.run([loss, train], {x: random.randn(size, 4)})[0])
        record_variables(tf, sess, record)


@case()
def scan_is_given_a_mean_of_the_batch(tf, record, workdir):
    """The same through the arrays of ``tf.scan``."""
    random = np.random.RandomState(0)
    x = tf.placeholder(tf.float32, [None, 5, 4])
    w = tf.get_variable("w", [4, 4], initializer=tf.random_normal_initializer(stddev=0.3, seed=1))
    steps = tf.transpose(x, [1, 0, 2])
    states = tf.scan(lambda h, item: tf.tanh(tf.matmul(h, w) + item), steps, tf.zeros_like(steps[0]))
    loss = tf.reduce_mean(tf.square(states[-1] - tf.reduce_mean(states, [0, 1])))
    train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for size in (8, 5, 6):
            record("loss", sess.run([loss, train], {x: random.randn(size, 5, 4)})[0])
        record_variables(tf, sess, record)
