"""Gradients of gradients: inner steps, penalties, products with the Hessian."""

from __future__ import annotations

import numpy as np

from tests.numerics.case import case, record_variables
from tests.numerics.data import batches, plane


@case()
def gradient_penalty(tf, record, workdir):
    """WGAN-GP: the norm of the critic's gradient at random interpolates of real and fake rows."""
    features, _ = plane(rows=23, width=3)
    fakes, _ = plane(rows=23, width=3, seed=5)
    x, z = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None, 3])
    w, v = tf.get_variable("w", [3, 6]), tf.get_variable("v", [6, 1])

    def critic(rows):
        return tf.matmul(tf.nn.tanh(tf.matmul(rows, w)), v)

    mix = tf.random_uniform([tf.shape(x)[0], 1])
    between = mix * x + (1 - mix) * z
    (slopes,) = tf.gradients(critic(between), [between])
    norms = tf.sqrt(tf.reduce_sum(tf.square(slopes), axis=1) + 1e-6)
    penalty = tf.reduce_mean(tf.square(norms - 1.0))
    loss = tf.reduce_mean(critic(z)) - tf.reduce_mean(critic(x)) + 10.0 * penalty
    train = tf.train.AdamOptimizer(0.01).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for a, b in batches(7, features, fakes):
                values = sess.run([loss, penalty, norms, train], {x: a, z: b})
                record("loss", values[0])
                record("penalty", values[1:3])
        record_variables(tf, sess, record)


def adapted(tf, weights, rate, x, y):
    """One inner gradient step: the weights after it, and the inner loss."""
    loss = tf.reduce_mean(tf.square(tf.matmul(tf.tanh(tf.matmul(x, weights[0])), weights[1]) - y))
    gradients = tf.gradients(loss, weights)
    return [w - rate * g for w, g in zip(weights, gradients)], loss


@case(fixed="two sets of different sizes are fed")
def maml_over_samples(tf, record, workdir):
    """Meta-learning whose support and query sets are rows of the batch: the inner step is a batch mean."""
    features, targets = plane(rows=40, width=3)
    x, y = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None, 1])
    query_x, query_y = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None, 1])
    weights = [tf.get_variable("w", [3, 4]), tf.get_variable("v", [4, 1])]
    fast, inner = adapted(tf, weights, 0.1, x, y)
    fast, _ = adapted(tf, fast, 0.1, x, y)
    outer = tf.reduce_mean(tf.square(tf.matmul(tf.tanh(tf.matmul(query_x, fast[0])), fast[1]) - query_y))
    train = tf.train.AdamOptimizer(0.02).minimize(outer)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(10):
            here, there = slice(step, step + 7), slice(20 + step, 30 + step)
            feeds = {x: features[here], y: targets[here], query_x: features[there], query_y: targets[there]}
            values = sess.run([outer, inner, train], feeds)
            record("loss", values[0])
            record("inner", values[1])
        record_variables(tf, sess, record)


@case()
def maml_over_tasks(tf, record, workdir):
    """The batch is one of tasks, each adapted on its own inside tf.map_fn (the first MAML script)."""
    random = np.random.RandomState(0)
    points = random.uniform(-2, 2, (14, 6, 1)).astype(np.float32)
    values = np.sin(points + random.uniform(0, 3, (14, 1, 1))).astype(np.float32)
    x, y = tf.placeholder(tf.float32, [None, 6, 1]), tf.placeholder(tf.float32, [None, 6, 1])
    weights = [tf.get_variable("w", [1, 5], use_resource=True), tf.get_variable("v", [5, 1], use_resource=True)]

    def task(pair):
        task_x, task_y = pair
        fast, _ = adapted(tf, weights, 0.1, task_x[:3], task_y[:3])
        output = tf.matmul(tf.tanh(tf.matmul(task_x[3:], fast[0])), fast[1])
        return tf.reduce_mean(tf.square(output - task_y[3:]))

    losses = tf.map_fn(task, (x, y), dtype=tf.float32)
    loss = tf.reduce_mean(losses)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for a, b in batches(5, points, values):
                value, each, _ = sess.run([loss, losses, train], {x: a, y: b})
                record("loss", value)
                record("losses", each)
        record_variables(tf, sess, record)


@case()
def hessian_vector_product(tf, record, workdir):
    """A curvature term: the gradient of (gradient . vector), the vector being fixed."""
    features, targets = plane(rows=23, width=3)
    x, y = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None, 1])
    w = tf.get_variable("w", [3, 1], use_resource=True)
    loss = tf.reduce_mean(tf.log(1.0 + tf.exp(-tf.matmul(x, w) * y)))
    (gradient,) = tf.gradients(loss, [w])
    vector = tf.constant([[1.0], [-0.5], [0.25]])
    (product,) = tf.gradients(tf.reduce_sum(gradient * vector), [w])
    hessian = tf.hessians(loss, w)[0]
    train = tf.train.GradientDescentOptimizer(0.3).apply_gradients([(gradient + 0.1 * product, w)])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for a, b in batches(7, features, targets):
                values = sess.run([loss, gradient, product, hessian, train], {x: a, y: b})
                record("loss", values[0])
                record("derivatives", values[1:4])
        record_variables(tf, sess, record)


@case()
def penalty_on_the_batch_gradient(tf, record, workdir):
    """The squared norm of the weights' own mean gradient is part of the loss: a square of a batch sum."""
    features, targets = plane(rows=23, width=3)
    x, y = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None, 1])
    w = tf.get_variable("w", [3, 4])
    v = tf.get_variable("v", [4, 1])
    data = tf.reduce_mean(tf.square(tf.matmul(tf.tanh(tf.matmul(x, w)), v) - y))
    size = tf.add_n([tf.reduce_sum(tf.square(g)) for g in tf.gradients(data, [w, v])])
    loss = data + 0.1 * size
    train = tf.train.MomentumOptimizer(0.05, 0.5).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for a, b in batches(7, features, targets):
                values = sess.run([loss, size, train], {x: a, y: b})
                record("loss", values[0])
                record("size", values[1])
        record_variables(tf, sess, record)


@case()
def adversarial_rows(tf, record, workdir):
    """Training on inputs moved along the sign of their own gradient, and a saliency fetch."""
    features, targets = plane(rows=23, width=3)
    x, y = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None, 1])
    w, v = tf.get_variable("w", [3, 5]), tf.get_variable("v", [5, 1])

    def error(rows):
        return tf.reduce_mean(tf.square(tf.matmul(tf.nn.softplus(tf.matmul(rows, w)), v) - y))

    (slope,) = tf.gradients(error(x), [x])
    moved = tf.stop_gradient(x + 0.05 * tf.sign(slope))
    loss = 0.5 * error(x) + 0.5 * error(moved)
    train = tf.train.GradientDescentOptimizer(0.05).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for a, b in batches(7, features, targets):
                values = sess.run([loss, slope, train], {x: a, y: b})
                record("loss", values[0])
                record("slope", values[1])
        record_variables(tf, sess, record)
