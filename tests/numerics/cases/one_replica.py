"""Scripts that cannot be cut, or already are: they run as they are, and say why."""

from __future__ import annotations

import numpy as np

from tests.numerics.case import case, record_variables
from tests.numerics.data import plane


@case(
    cut=False,
    reason="every row of the graph's adjacency reads every other: there is no batch",
    fixed="there is no batch",
)
def whole_graph_network(tf, record, workdir):
    """A graph convolutional network whose only input is the whole graph."""
    random = np.random.RandomState(0)
    adjacency = (random.uniform(size=(12, 12)) > 0.7).astype(np.float32) + np.eye(12, dtype=np.float32)
    adjacency /= adjacency.sum(1, keepdims=True)
    features, labels = random.randn(12, 4).astype(np.float32), random.randint(0, 3, 12)
    a, x = tf.constant(adjacency), tf.constant(features)
    hidden = tf.nn.relu(tf.matmul(a, tf.matmul(x, tf.get_variable("w", [4, 5]))))
    logits = tf.matmul(a, tf.matmul(hidden, tf.get_variable("v", [5, 3])))
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    train = tf.train.AdamOptimizer(0.05).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(10):
            record("loss", sess.run([loss, train])[0])
        record_variables(tf, sess, record)


@case(cut=False, reason="the batch is one row", fixed="the batch is one row")
def batch_of_one(tf, record, workdir):
    """Style transfer's way: one sample, and the variable trained is the input itself."""
    target = np.random.RandomState(0).randn(1, 4, 4, 1).astype(np.float32)
    image = tf.Variable(tf.random_normal([1, 4, 4, 1]), name="image")
    kernel = tf.constant(np.random.RandomState(1).randn(3, 3, 1, 2).astype(np.float32))

    def gram(value):
        rows = tf.reshape(tf.nn.conv2d(value, kernel, strides=1, padding="SAME"), [-1, 2])
        return tf.matmul(rows, rows, transpose_a=True)

    loss = tf.reduce_mean(tf.square(gram(image) - gram(tf.constant(target))))
    train = tf.train.AdamOptimizer(0.05).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(10):
            record("loss", sess.run([loss, train])[0])
        record_variables(tf, sess, record)


@case(cut=False, reason="the script makes its own towers", fixed="the graph holds its number of samples")
def towers_of_its_own(tf, record, workdir):
    """The CIFAR multi-GPU pattern: split the batch, a tower a device, averaged gradients."""
    features, targets = plane(rows=40, width=4)
    x, y = tf.placeholder(tf.float32, [10, 4]), tf.placeholder(tf.float32, [10, 1])
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    tower_gradients, losses = [], []
    for index, (part_x, part_y) in enumerate(zip(tf.split(x, 2), tf.split(y, 2))):
        with tf.device(f"/gpu:{index}"), tf.variable_scope("model", reuse=index > 0):
            output = tf.layers.dense(part_x, 1, name="output")
            losses.append(tf.reduce_mean(tf.square(output - part_y)))
            tower_gradients.append(optimizer.compute_gradients(losses[-1]))
    averaged = []
    for pairs in zip(*tower_gradients):
        averaged.append((tf.reduce_mean(tf.stack([g for g, _ in pairs]), axis=0), pairs[0][1]))
    train = optimizer.apply_gradients(averaged)
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(10):
            feeds = {x: features[3 * step : 3 * step + 10], y: targets[3 * step : 3 * step + 10]}
            record("loss", sess.run([*losses, train], feeds)[:2])
        record_variables(tf, sess, record)


@case(cut=False, reason="the training data are a variable of the graph; nothing is fed", fixed="there is no batch")
def data_in_a_variable(tf, record, workdir):
    """Synthetic data kept in a variable, as benchmark scripts do, trained on whole."""
    features, targets = plane(rows=13, width=4)
    x = tf.Variable(features, trainable=False, name="data")
    y = tf.Variable(targets, trainable=False, name="targets")
    loss = tf.reduce_mean(tf.square(tf.layers.dense(x, 1) - y))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(10):
            record("loss", sess.run([loss, train])[0])
        record_variables(tf, sess, record)
