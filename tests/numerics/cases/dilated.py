"""Dilated convolutions: blocks of space go into the batch dim and come back."""

from __future__ import annotations

import numpy as np

from tests.numerics.case import case, record_variables


def _train(tf, record, x, loss, feeds):
    train = tf.train.AdamOptimizer(0.01).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for value in feeds:
            record("loss", sess.run([loss, train], {x: value})[0])
        record_variables(tf, sess, record)


@case()
def atrous(tf, record, workdir):
    """DeepLab's block: convolutions of several rates side by side, for batches down to one sample."""
    random = np.random.RandomState(0)
    x = tf.placeholder(tf.float32, [None, 8, 8, 3])
    net = tf.layers.conv2d(x, 3, 3, padding="same", activation=tf.nn.relu)
    rates = [tf.layers.conv2d(net, 4, 3, padding="same", dilation_rate=rate) for rate in (1, 2, 3)]
    rates.append(tf.nn.atrous_conv2d(net, tf.get_variable("kernel", [3, 3, 3, 4]), 2, "VALID")[:, :1, :1] + rates[0])
    rates.append(tf.layers.separable_conv2d(net, 4, 3, padding="same", dilation_rate=2))
    loss = tf.reduce_mean(tf.square(tf.concat(rates, 3) - 1.0))
    _train(tf, record, x, loss, [random.randn(size, 8, 8, 3) for size in (8, 7, 5, 1, 3, 2)])


@case()
def causal(tf, record, workdir):
    """A WaveNet-like stack of dilated convolutions over time, whose length is open."""
    random = np.random.RandomState(0)
    x = tf.placeholder(tf.float32, [None, None, 3])
    net = x
    for number, rate in enumerate((1, 2, 4)):
        kernel = tf.get_variable(f"kernel{number}", [2, 3, 3])
        padded = tf.pad(net, [[0, 0], [rate, 0], [0, 0]])
        net += tf.tanh(tf.nn.convolution(padded, kernel, "VALID", dilation_rate=[rate]))
    loss = tf.reduce_mean(tf.square(net - 1.0))
    _train(tf, record, x, loss, [random.randn(size, time, 3) for size, time in ((8, 9), (7, 5), (1, 6), (5, 9))])


@case()
def blocks_by_hand(tf, record, workdir):
    """A script that moves space into the batch itself, with a batch norm over the blocks."""
    random = np.random.RandomState(0)
    x = tf.placeholder(tf.float32, [None, 6, 6, 3])
    net = tf.space_to_batch_nd(x, [2, 2], [[1, 1], [0, 2]])
    net = tf.layers.batch_normalization(tf.layers.conv2d(net, 4, 3, padding="same", use_bias=False), training=True)
    net = tf.batch_to_space_nd(tf.nn.relu(net), [2, 2], [[1, 1], [0, 2]])
    loss = tf.reduce_mean(tf.square(net - x[..., :1]))
    _train(tf, record, x, loss, [random.randn(size, 6, 6, 3) for size in (8, 7, 5, 1)])


@case()
def time_goes_into_the_batch(tf, record, workdir):
    """WaveNet's own dilated convolution: steps that a kernel leaves out go into the batch by reshape and transpose."""
    random = np.random.RandomState(0)
    x = tf.placeholder(tf.float32, [None, None, 3])
    net = x
    for number, rate in enumerate((2, 4, 3)):
        samples, steps, width = tf.unstack(tf.shape(net))
        padded = tf.pad(net, [[0, 0], [0, rate - 1 - (steps + rate - 1) % rate], [0, 0]])
        blocks = tf.transpose(tf.reshape(padded, [-1, rate, width]), [1, 0, 2])
        blocks = tf.reshape(blocks, [samples * rate, -1, width])
        inside = tf.nn.conv1d(blocks, tf.get_variable(f"kernel{number}", [2, 3, 3]), 1, "VALID")
        back = tf.transpose(tf.reshape(inside, [rate, -1, width]), [1, 0, 2])
        back = tf.reshape(back, [tf.div(tf.shape(inside)[0], rate), -1, width])
        net = tf.tanh(tf.slice(back, [0, 0, 0], [-1, steps - rate, -1])) + net[:, rate:]
    loss = tf.reduce_mean(tf.square(net - 1.0))
    sizes = ((8, 19), (7, 14), (1, 16), (5, 23), (3, 20), (2, 15))
    _train(tf, record, x, loss, [random.randn(size, steps, 3) for size, steps in sizes])
