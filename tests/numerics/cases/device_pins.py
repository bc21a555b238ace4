"""Scripts that pin ops to devices with tf.device."""

from __future__ import annotations

from tests.numerics.case import case, record_variables
from tests.numerics.data import batches, plane


def train_and_record(tf, record, x, y, loss, config=None):
    """SGD over batches of 7, 7 and 6."""
    features, targets = plane(rows=20, width=4)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session(config=config) as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for a, b in batches(7, features, targets):
                record("loss", sess.run([loss, train], {x: a, y: b})[0])
        record_variables(tf, sess, record)


@case()
def variables_on_the_host(tf, record, workdir):
    """Variables are pinned to /cpu:0, the model to /gpu:0 under soft placement."""
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
    with tf.device("/cpu:0"):
        w, v = tf.get_variable("w", [4, 5]), tf.get_variable("v", [5, 1])
    with tf.device("/gpu:0"):
        loss = tf.reduce_mean(tf.square(tf.matmul(tf.nn.tanh(tf.matmul(x, w)), v) - y))
    train_and_record(tf, record, x, y, loss, tf.ConfigProto(allow_soft_placement=True))


@case()
def device_functions(tf, record, workdir):
    """A device function, a full device name, a nested None and colocate_with."""
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
    with tf.device(lambda op: "/cpu:0" if "Variable" in op.type else ""):
        w, v = tf.get_variable("w", [4, 5]), tf.get_variable("v", [5, 1])
    with tf.colocate_with(w):
        size = tf.reduce_sum(tf.square(tf.stop_gradient(w)))
    with tf.device(lambda op: "/cpu:0"), tf.control_dependencies([size]):  # else its read and the update may race
        hidden = tf.nn.tanh(tf.matmul(x, w))
    with tf.device("/job:localhost/replica:0/task:0/device:CPU:0"):
        output = tf.matmul(hidden, v)
        with tf.device(None):
            error = output - y
    train_and_record(tf, record, x, y, tf.reduce_mean(tf.square(error)) + 0.01 * size)


@case()
def embedding_on_the_host(tf, record, workdir):
    """The classic word-embedding pin: lookup on /cpu:0, the rest unpinned."""
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
    with tf.device("/cpu:0"):
        table = tf.get_variable("table", [6, 3])
        embedded = tf.nn.embedding_lookup(table, tf.argmax(x, axis=1))
    output = tf.layers.dense(tf.concat([x, embedded], axis=1), 1)
    train_and_record(tf, record, x, y, tf.losses.absolute_difference(y, output))
