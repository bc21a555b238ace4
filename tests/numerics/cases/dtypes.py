"""Types other than float32."""

from __future__ import annotations

import numpy as np

from tests.numerics.case import case, record_variables
from tests.numerics.data import batches, blobs, plane


def regression(tf, record, dtype, rate):
    """A two-layer regression in one floating type."""
    features, targets = plane(rows=20, width=4)
    x, y = tf.placeholder(dtype, [None, 4]), tf.placeholder(dtype, [None, 1])
    w, v = tf.get_variable("w", [4, 5], dtype), tf.get_variable("v", [5, 1], dtype)
    loss = tf.reduce_mean(tf.square(tf.matmul(tf.nn.tanh(tf.matmul(x, w)), v) - y))
    train = tf.train.GradientDescentOptimizer(rate).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for a, b in batches(7, features, targets):
                record("loss", sess.run([loss, train], {x: a, y: b})[0])
        record_variables(tf, sess, record)


@case(tolerance=1e-13)
def float64(tf, record, workdir):
    """Double precision throughout: equal to thirteen digits."""
    regression(tf, record, tf.float64, 0.1)


@case(tolerance=2e-2, reason="float16 has eleven bits; sums in another order differ by a few units")
def float16(tf, record, workdir):
    """Half precision throughout."""
    regression(tf, record, tf.float16, 0.1)


@case(tolerance=1e-2, reason="a last float16 bit of the inputs moves plain TensorFlow's result by up to 1.1e-2")
def float16_with_master_weights(tf, record, workdir):
    """Mixed precision by hand: float32 variables, float16 compute through a custom getter, a loss scale."""
    features, targets = plane(rows=20, width=4)

    def getter(getter, name, *args, dtype=None, **kwargs):
        variable = getter(name, *args, dtype=tf.float32, **kwargs)
        return tf.cast(variable, dtype)

    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
    with tf.variable_scope("half", custom_getter=getter, dtype=tf.float16):
        w, v = tf.get_variable("w", [4, 5]), tf.get_variable("v", [5, 1])
        output = tf.matmul(tf.nn.tanh(tf.matmul(tf.cast(x, tf.float16), w)), v)
    loss = tf.reduce_mean(tf.square(tf.cast(output, tf.float32) - y))
    optimizer = tf.train.MomentumOptimizer(0.05, 0.9)
    gradients = [(g / 64.0, v) for g, v in optimizer.compute_gradients(64.0 * loss)]
    train = optimizer.apply_gradients(gradients)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for a, b in batches(7, features, targets):
                record("loss", sess.run([loss, train], {x: a, y: b})[0])
        record_variables(tf, sess, record)


@case(tolerance=6e-2, reason="a last bfloat16 bit of the inputs moves plain TensorFlow's result by up to 5.5e-2")
def bfloat16(tf, record, workdir):
    """Activations cast to bfloat16 and back around the matmul."""
    features, targets = plane(rows=20, width=4)
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
    w = tf.get_variable("w", [4, 1])
    output = tf.cast(tf.matmul(tf.cast(x, tf.bfloat16), tf.cast(w, tf.bfloat16)), tf.float32)
    loss = tf.reduce_mean(tf.square(output - y))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for a, b in batches(7, features, targets):
                record("loss", sess.run([loss, train], {x: a, y: b})[0])
        record_variables(tf, sess, record)


@case()
def integers_and_booleans(tf, record, workdir):
    """Integer counts and boolean masks computed from the batch, in variables and in fetches."""
    features, labels = blobs(rows=23, width=4, classes=3)
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.int64, [None])
    logits = tf.layers.dense(x, 3)
    loss = tf.losses.sparse_softmax_cross_entropy(y, logits)
    train = tf.train.GradientDescentOptimizer(0.3).minimize(loss)
    right = tf.equal(tf.argmax(logits, 1), y)
    seen = tf.Variable(tf.zeros([3], tf.int64), trainable=False)
    ever = tf.Variable(False, trainable=False)
    counts = tf.reduce_sum(tf.one_hot(y, 3, dtype=tf.int64), axis=0)
    update = [seen.assign_add(counts), ever.assign(tf.logical_or(ever, tf.reduce_all(right)))]
    outputs = [
        right,
        counts,
        tf.reduce_sum(tf.cast(right, tf.int32)),
        tf.cast(right, tf.uint8),
        tf.bitcast(y, tf.uint64),
    ]
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for a, b in batches(7, features, labels):
                value, got, _, _ = sess.run([loss, outputs, train, update], {x: a, y: b})
                record("loss", value)
                record("outputs", got)
        record_variables(tf, sess, record)


@case()
def complex_spectrum(tf, record, workdir):
    """A loss on the Fourier transform of each row: complex64 on the forward and backward path."""
    signals = np.random.RandomState(0).randn(20, 8).astype(np.float32)
    x = tf.placeholder(tf.float32, [None, 8])
    w = tf.get_variable("w", [8, 8])
    spectrum = tf.fft(tf.cast(tf.matmul(x, w), tf.complex64))
    loss = tf.reduce_mean(tf.square(tf.abs(spectrum) - 1.0))
    train = tf.train.GradientDescentOptimizer(0.02).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for (batch,) in batches(7, signals):
                value, got, _ = sess.run([loss, spectrum, train], {x: batch})
                record("loss", value)
                record("spectrum", got)
        record_variables(tf, sess, record)


@case(cut=False, reason="rows of 16 may straddle strings: how many bytes one has is not in the graph")
def bytes_decoded(tf, record, workdir):
    """uint8 images decoded from raw strings in the graph."""
    pixels = np.random.RandomState(0).randint(0, 255, (20, 16)).astype(np.uint8)
    raw = np.array([row.tobytes() for row in pixels], dtype=object)
    text = tf.placeholder(tf.string, [None])
    x = tf.cast(tf.reshape(tf.decode_raw(text, tf.uint8), [-1, 16]), tf.float32) / 255.0
    loss = tf.reduce_mean(tf.square(tf.layers.dense(x, 1)[:, 0] - tf.reduce_mean(x, 1)))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for (batch,) in batches(7, raw):
                record("loss", sess.run([loss, train], {text: batch})[0])
        record_variables(tf, sess, record)
