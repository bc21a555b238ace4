"""Generator against discriminator: two optimizers over two lists of variables."""

from __future__ import annotations

import numpy as np

from tests.numerics.case import case, record_variables
from tests.numerics.data import batches, plane


def networks(tf):
    """The usual pair of functions with variable scopes."""

    def generator(z):
        with tf.variable_scope("generator", reuse=tf.AUTO_REUSE):
            return tf.layers.dense(tf.layers.dense(z, 5, tf.nn.leaky_relu, name="one"), 3, name="two")

    def discriminator(x):
        with tf.variable_scope("discriminator", reuse=tf.AUTO_REUSE):
            return tf.layers.dense(tf.layers.dense(x, 6, tf.nn.leaky_relu, name="one"), 1, name="two")

    return generator, discriminator


def variables_of(tf, scope):
    """Trainable variables of one network."""
    return tf.trainable_variables(scope)


def cross_entropy(tf, logits, value):
    """Mean sigmoid cross entropy against a constant label."""
    labels = value * tf.ones_like(logits)
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))


@case()
def two_optimizers(tf, record, workdir):
    """The first GAN: fed noise, alternating runs of two train ops over two var_lists."""
    features, _ = plane(rows=26, width=3)
    random = np.random.RandomState(1)
    x, z = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None, 2])
    generator, discriminator = networks(tf)
    fake = discriminator(generator(z))
    d_loss = cross_entropy(tf, discriminator(x), 0.9) + cross_entropy(tf, fake, 0.0)
    g_loss = cross_entropy(tf, fake, 1.0)
    d_train = tf.train.AdamOptimizer(0.01, 0.5).minimize(d_loss, var_list=variables_of(tf, "discriminator"))
    g_train = tf.train.AdamOptimizer(0.01, 0.5).minimize(g_loss, var_list=variables_of(tf, "generator"))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for (batch,) in batches(7, features):
                noise = random.uniform(-1, 1, [len(batch), 2])
                record("loss", sess.run([d_loss, d_train], {x: batch, z: noise})[0])
                record("g_loss", sess.run([g_loss, g_train], {z: random.uniform(-1, 1, [10, 2])})[0])
        record("samples", sess.run(generator(z), {z: random.uniform(-1, 1, [4, 2])}))
        record_variables(tf, sess, record)


@case()
def noise_in_the_graph(tf, record, workdir):
    """Noise is drawn in the graph with as many rows as the batch; both networks train in one run."""
    tf.get_variable_scope().set_use_resource(True)
    features, _ = plane(rows=26, width=3)
    x = tf.placeholder(tf.float32, [None, 3])
    generator, discriminator = networks(tf)
    samples = generator(tf.random_normal([tf.shape(x)[0], 2]))
    real, fake = discriminator(x), discriminator(samples)
    d_loss = cross_entropy(tf, real, 1.0) + cross_entropy(tf, fake, 0.0)
    g_loss = cross_entropy(tf, fake, 1.0)
    optimizer = tf.train.RMSPropOptimizer(0.01)
    d_gradients = optimizer.compute_gradients(d_loss, variables_of(tf, "discriminator"))
    g_gradients = optimizer.compute_gradients(g_loss, variables_of(tf, "generator"))
    train = optimizer.apply_gradients(d_gradients + g_gradients)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for (batch,) in batches(7, features):
                values = sess.run([d_loss, g_loss, samples, train], {x: batch})
                record("loss", values[0])
                record("others", values[1:3])
        record_variables(tf, sess, record)


@case()
def wasserstein_with_clipped_weights(tf, record, workdir):
    """Several critic steps a generator step, and weights clipped by assign ops of their own."""
    features, _ = plane(rows=30, width=3)
    random = np.random.RandomState(1)
    x, z = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None, 2])
    generator, discriminator = networks(tf)
    fake = discriminator(generator(z))
    d_loss = tf.reduce_mean(fake) - tf.reduce_mean(discriminator(x))
    critic = variables_of(tf, "discriminator")
    d_train = tf.train.RMSPropOptimizer(0.02).minimize(d_loss, var_list=critic)
    g_train = tf.train.RMSPropOptimizer(0.02).minimize(-tf.reduce_mean(fake), var_list=variables_of(tf, "generator"))
    clip = [v.assign(tf.clip_by_value(v, -0.3, 0.3)) for v in critic]
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(4):
            for part in range(2):
                batch = features[5 * step + part : 5 * step + part + 10]
                feeds = {x: batch, z: random.randn(10, 2)}
                record("loss", sess.run([d_loss, d_train], feeds)[0])
                sess.run(clip)
            sess.run(g_train, {z: random.randn(7, 2)})
        record_variables(tf, sess, record)
