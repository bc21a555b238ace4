"""tf.GradientTape and callable losses in graph mode: gradients that tf.gradients was never asked for."""

from __future__ import annotations

from tests.numerics.case import case, record_variables
from tests.numerics.data import batches, plane


def loop(tf, record, x, y, loss, train, fetches=()):
    """Three rounds of batches of 7, 7 and 6."""
    features, targets = plane(rows=20, width=4)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for a, b in batches(7, features, targets):
                value, _, others = sess.run([loss, train, list(fetches)], {x: a, y: b})
                record("loss", value)
                record("fetched", others)
        record_variables(tf, sess, record)


def weights(tf):
    """Placeholders and two resource variables."""
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
    return x, y, tf.get_variable("w", [4, 5], use_resource=True), tf.get_variable("v", [5, 1], use_resource=True)


@case()
def tape(tf, record, workdir):
    """Gradients by a tape, applied by apply_gradients."""
    x, y, w, v = weights(tf)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.matmul(tf.nn.tanh(tf.matmul(x, w)), v) - y))
    gradients = tape.gradient(loss, [w, v])
    train = tf.train.AdamOptimizer(0.03).apply_gradients(zip(gradients, [w, v]))
    loop(tf, record, x, y, loss, train, gradients)


@case()
def nested_tapes(tf, record, workdir):
    """A tape inside a tape: the penalty on the input's gradient, per row."""
    x, y, w, v = weights(tf)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            inner.watch(x)
            output = tf.matmul(tf.nn.tanh(tf.matmul(x, w)), v)
        slopes = inner.gradient(output, x)
        loss = tf.reduce_mean(tf.square(output - y)) + 0.1 * tf.reduce_mean(tf.reduce_sum(tf.square(slopes), 1))
    gradients = outer.gradient(loss, [w, v])
    train = tf.train.GradientDescentOptimizer(0.05).apply_gradients(zip(gradients, [w, v]))
    loop(tf, record, x, y, loss, train, [slopes])


@case()
def callable_loss(tf, record, workdir):
    """minimize of a function of no arguments."""
    tf.enable_resource_variables()
    x, y, w, v = weights(tf)

    def loss():
        return tf.reduce_mean(tf.square(tf.matmul(tf.nn.tanh(tf.matmul(x, w)), v) - y))

    before = loss()
    with tf.control_dependencies([before]):
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, var_list=[w, v])
    loop(tf, record, x, y, before, train)


@case()
def gradients_by_hand(tf, record, workdir):
    """Backpropagation written out as matrix products, and assign_sub: no gradient function at all."""
    x, y, w, v = weights(tf)
    hidden = tf.nn.tanh(tf.matmul(x, w))
    error = tf.matmul(hidden, v) - y
    rows = tf.cast(tf.shape(x)[0], tf.float32)
    to_v = tf.matmul(hidden, error, transpose_a=True) / rows
    back = tf.matmul(error, v, transpose_b=True) * (1.0 - tf.square(hidden))
    to_w = tf.matmul(x, back, transpose_a=True) / rows
    loss = tf.reduce_mean(tf.square(error))
    with tf.control_dependencies([to_v, to_w, loss]):
        train = tf.group(w.assign_sub(0.1 * to_w), v.assign_sub(0.1 * to_v))
    loop(tf, record, x, y, loss, train, [to_w])
