"""Image ops beyond conv2d: depthwise, separable, 1-D, 3-D, pooling of several kinds, resizing."""

from __future__ import annotations

import numpy as np

from tests.numerics.case import case, record_variables
from tests.numerics.data import batches, images


@case()
def depthwise_and_separable(tf, record, workdir):
    """Depthwise and separable convolutions, average pooling, local response normalisation."""
    pixels, labels = images(rows=20, side=6, channels=2, classes=2)
    x, y = tf.placeholder(tf.float32, [None, 6, 6, 2]), tf.placeholder(tf.int32, [None])
    kernel = tf.get_variable("kernel", [3, 3, 2, 2])
    net = tf.nn.depthwise_conv2d(x, kernel, [1, 1, 1, 1], "SAME")
    net = tf.nn.local_response_normalization(net, depth_radius=2)
    net = tf.layers.separable_conv2d(net, 5, 3, activation=tf.nn.relu)
    net = tf.nn.avg_pool(net, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    loss = tf.losses.sparse_softmax_cross_entropy(y, tf.layers.dense(tf.layers.flatten(net), 2))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(4):
            for batch_x, batch_y in batches(7, pixels, labels):
                record("loss", sess.run([loss, train], {x: batch_x, y: batch_y})[0])
        record_variables(tf, sess, record)


@case()
def text_convolution(tf, record, workdir):
    """The text CNN: embedding, parallel 1-D filters, max over time, concat, dropout."""
    random = np.random.RandomState(0)
    tokens, labels = random.randint(0, 12, (23, 7)), random.randint(0, 2, 23)
    x, y = tf.placeholder(tf.int32, [None, 7]), tf.placeholder(tf.int64, [None])
    keep = tf.placeholder(tf.float32)
    embedded = tf.expand_dims(tf.nn.embedding_lookup(tf.get_variable("table", [12, 5]), x), -1)
    pooled = []
    for size in (2, 3):
        filters = tf.get_variable(f"filters_{size}", [size, 5, 1, 4])
        convolved = tf.nn.relu(tf.nn.conv2d(embedded, filters, [1, 1, 1, 1], "VALID"))
        pooled.append(tf.nn.max_pool(convolved, [1, 7 - size + 1, 1, 1], [1, 1, 1, 1], "VALID"))
    flat = tf.nn.dropout(tf.reshape(tf.concat(pooled, 3), [-1, 8]), keep)
    logits = tf.layers.dense(flat, 2)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    train = tf.train.AdamOptimizer(0.01).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for batch_x, batch_y in batches(7, tokens, labels):
                record("loss", sess.run([loss, train], {x: batch_x, y: batch_y, keep: 0.7})[0])
        record("predicted", sess.run(tf.argmax(logits, 1), {x: tokens, keep: 1.0}))
        record_variables(tf, sess, record)


@case()
def one_and_three_dims(tf, record, workdir):
    """conv1d over sequences beside conv3d over small volumes of the same batch."""
    random = np.random.RandomState(0)
    waves = random.randn(19, 8, 2).astype(np.float32)
    volumes = random.randn(19, 4, 4, 4, 1).astype(np.float32)
    x, v = tf.placeholder(tf.float32, [None, 8, 2]), tf.placeholder(tf.float32, [None, 4, 4, 4, 1])
    first = tf.layers.max_pooling1d(tf.layers.conv1d(x, 3, 3, activation=tf.nn.tanh), 2, 2)
    second = tf.layers.conv3d(v, 2, 3, activation=tf.nn.tanh)
    joint = tf.concat([tf.layers.flatten(first), tf.layers.flatten(second)], axis=1)
    loss = tf.reduce_mean(tf.square(tf.layers.dense(joint, 1) - tf.reduce_sum(x, [1, 2])[:, None]))
    train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(4):
            for wave, volume in batches(7, waves, volumes):
                record("loss", sess.run([loss, train], {x: wave, v: volume})[0])
        record_variables(tf, sess, record)


@case(tolerance=1e-4, reason="a last bit of the pixels moves plain TensorFlow's result by up to 1.2e-4")
def images_reshaped_and_resized(tf, record, workdir):
    """Resize, pad, crop, reverse, space_to_depth and standardisation of uint8 images in the graph."""
    pixels = np.random.RandomState(0).randint(0, 255, (16, 6, 6, 3)).astype(np.uint8)
    x = tf.placeholder(tf.uint8, [None, 6, 6, 3])
    net = tf.image.resize_bilinear(tf.cast(x, tf.float32) / 255.0, [8, 8])
    net = tf.pad(net, [[0, 0], [1, 1], [1, 1], [0, 0]], mode="REFLECT")[:, 1:-1, 1:-1, :]
    net = tf.concat([net, tf.reverse(net, axis=[2])], axis=-1)
    net = tf.space_to_depth(net, 2)
    net = tf.layers.conv2d(net, 4, 3, activation=tf.nn.relu)
    target = tf.reduce_mean(tf.cast(x, tf.float32), [1, 2, 3]) / 255.0
    loss = tf.reduce_mean(tf.square(tf.layers.dense(tf.reduce_max(net, [1, 2]), 1)[:, 0] - target))
    train = tf.train.GradientDescentOptimizer(0.05).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(4):
            for (batch,) in batches(6, pixels):
                record("loss", sess.run([loss, train], {x: batch})[0])
        record_variables(tf, sess, record)
