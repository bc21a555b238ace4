"""Training ops inside control flow."""

from __future__ import annotations

from tests.numerics.case import case, record_variables
from tests.numerics.data import batches, plane


def model(tf):
    """Placeholders and the loss of a small network over resource variables."""
    tf.get_variable_scope().set_use_resource(True)
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
    hidden = tf.nn.tanh(tf.matmul(x, tf.get_variable("w", [4, 5])))
    return x, y, tf.reduce_mean(tf.square(tf.matmul(hidden, tf.get_variable("v", [5, 1])) - y))


def loop(tf, record, x, y, loss, train):
    """Three rounds of batches of 7, 7 and 6."""
    features, targets = plane(rows=20, width=4)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for a, b in batches(7, features, targets):
                record("loss", sess.run([loss, train], {x: a, y: b})[0])
        record_variables(tf, sess, record)


@case()
def in_cond_on_the_loss(tf, record, workdir):
    """minimize inside a branch: the step is made only while the batch's loss is large."""
    x, y, loss = model(tf)

    def step():
        with tf.control_dependencies([tf.train.GradientDescentOptimizer(0.1).minimize(loss)]):
            return tf.constant(True)

    loop(tf, record, x, y, loss, tf.cond(loss > 1.5, step, lambda: tf.constant(False)))


@case()
def one_of_two_optimizers(tf, record, workdir):
    """Gradients outside, one of two apply ops inside a cond on the loss."""
    x, y, loss = model(tf)
    pairs = tf.train.GradientDescentOptimizer(1.0).compute_gradients(loss)
    fast, slow = tf.train.GradientDescentOptimizer(0.2), tf.train.GradientDescentOptimizer(0.02)
    train = tf.cond(loss > 1.0, lambda: fast.apply_gradients(pairs), lambda: slow.apply_gradients(pairs))
    loop(tf, record, x, y, loss, train)


@case(cut=False, reason="a loop that holds whole training steps may run as one on one device")
def in_while_loop(tf, record, workdir):
    """Several training steps in one run: the loop's body computes gradients and applies them."""
    tf.get_variable_scope().set_use_resource(True)
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
    w = tf.get_variable("w", [4, 1])
    optimizer = tf.train.GradientDescentOptimizer(0.05)

    def body(i, last):
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w.read_value()) - y))
        (gradient,) = tf.gradients(loss, [w])
        with tf.control_dependencies([optimizer.apply_gradients([(gradient, w)])]):
            return i + 1, tf.identity(loss)

    _, loss = tf.while_loop(lambda i, _: i < 3, body, [0, 0.0], parallel_iterations=1)
    loop(tf, record, x, y, loss, tf.no_op())


@case()
def unrolled_in_python(tf, record, workdir):
    """Three SGD steps chained by control dependencies within one run."""
    tf.get_variable_scope().set_use_resource(True)
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
    w = tf.get_variable("w", [4, 1])
    losses, last = [], tf.no_op()
    for _ in range(3):
        with tf.control_dependencies([last]):
            value = w.read_value()
            loss = tf.reduce_mean(tf.square(tf.matmul(x, value) - y))
            (gradient,) = tf.gradients(loss, [value])
            last = w.assign_sub(0.05 * gradient).op
            losses.append(loss)
    loop(tf, record, x, y, tf.stack(losses), last)
