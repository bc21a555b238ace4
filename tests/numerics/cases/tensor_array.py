"""TensorArrays written and read by the script itself."""

from __future__ import annotations

import numpy as np

from tests.numerics.case import case, record_variables
from tests.numerics.data import batches, plane


@case()
def written_in_a_loop(tf, record, workdir):
    """Each iteration writes one hidden state; the stack is [steps, batch, width]."""
    features, targets = plane(rows=20, width=3)
    x, y = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None, 1])
    w = tf.get_variable("w", [3, 3])
    array = tf.TensorArray(tf.float32, size=4)

    def body(i, state, states):
        state = tf.tanh(tf.matmul(state, w))
        return i + 1, state, states.write(i, state)

    _, _, array = tf.while_loop(lambda i, *_: i < 4, body, [0, x, array])
    states = array.stack()
    loss = tf.reduce_mean(tf.square(tf.layers.dense(tf.reduce_sum(states, axis=0), 1) - y))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(4):
            for a, b in batches(7, features, targets):
                record("loss", sess.run([loss, train], {x: a, y: b})[0])
        record("states", sess.run(states, {x: features}))
        record_variables(tf, sess, record)


@case(fixed="it picks samples by their numbers")
def unstacked_and_gathered(tf, record, workdir):
    """unstack, read, gather and a dynamic size, over a time-major input."""
    values = np.random.RandomState(0).randn(5, 20, 2).astype(np.float32)
    x = tf.placeholder(tf.float32, [None, None, 2])
    steps = tf.shape(x)[0]
    inputs = tf.TensorArray(tf.float32, size=steps, clear_after_read=False).unstack(x)
    w = tf.get_variable("w", [2, 2])

    def body(i, total):
        return i + 1, tf.tanh(total + tf.matmul(inputs.read(i), w))

    start = tf.zeros([tf.shape(x)[1], 2])
    _, total = tf.while_loop(lambda i, _: i < steps, body, [0, start], shape_invariants=[start.shape[:0], start.shape])
    chosen = inputs.gather([0, 2])
    loss = tf.reduce_mean(tf.square(total - chosen[0] * chosen[1]))
    train = tf.train.GradientDescentOptimizer(0.2).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(10):
            record("loss", sess.run([loss, train], {x: values[: 3 + step % 3, step : step + 10]})[0])
        record_variables(tf, sess, record)


@case()
def one_row_at_a_time(tf, record, workdir):
    """The loop runs over the rows of the batch; its TensorArray holds one element a row."""
    features, targets = plane(rows=20, width=3)
    x, y = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None, 1])
    rows = tf.shape(x)[0]
    w = tf.get_variable("w", [3, 1])
    inputs = tf.TensorArray(tf.float32, size=rows).unstack(x)
    outputs = tf.TensorArray(tf.float32, size=rows)

    def body(i, outputs):
        return i + 1, outputs.write(i, tf.matmul(inputs.read(i)[None, :], w)[0])

    _, outputs = tf.while_loop(lambda i, _: i < rows, body, [0, outputs])
    loss = tf.reduce_mean(tf.square(outputs.stack() - y))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(4):
            for a, b in batches(7, features, targets):
                record("loss", sess.run([loss, train], {x: a, y: b})[0])
        record_variables(tf, sess, record)


@case()
def concatenated(tf, record, workdir):
    """Elements of [batch, 2] joined by TensorArray.concat to [steps * batch, 2]."""
    features, _ = plane(rows=20, width=2)
    x = tf.placeholder(tf.float32, [None, 2])
    w = tf.get_variable("w", [2, 2])
    array = tf.TensorArray(tf.float32, size=3, infer_shape=False)
    state = x
    for i in range(3):
        state = tf.nn.elu(tf.matmul(state, w))
        array = array.write(i, state)
    joined = tf.reshape(array.concat(), [-1, 2])
    loss = tf.reduce_mean(tf.square(joined - 1.0))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(4):
            for (batch,) in batches(7, features):
                value, _, rows = sess.run([loss, train, joined], {x: batch})
                record("loss", value)
                record("joined", rows)
        record_variables(tf, sess, record)


@case()
def vectorized_over_a_network(tf, record, workdir):
    """``tf.vectorized_map`` over what an RNN gives: every sample attends to its own steps."""
    random = np.random.RandomState(0)
    x = tf.placeholder(tf.float32, [None, 5, 3])
    states, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(4), x, dtype=tf.float32)
    w = tf.get_variable("w", [4, 4])

    def read(steps):
        return tf.reduce_max(tf.matmul(tf.nn.softmax(tf.matmul(steps, steps, transpose_b=True)), steps @ w), 0)

    loss = tf.reduce_mean(tf.square(tf.vectorized_map(read, states) - 0.2))
    train = tf.train.AdamOptimizer(0.02).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for size in (8, 5, 7, 1, 2):
            record("loss", sess.run([loss, train], {x: random.randn(size, 5, 3)})[0])
        record_variables(tf, sess, record)
