"""A convolutional network trained on batches of which some are smaller than there are devices.

Run as a process, whose environment says whether oneDNN is on: TensorFlow reads that once. Fails unless 2 and 3 devices
compute what one computes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.numerics.process import start_tensorflow
from whale.cluster import Cluster
from whale.runtime.activation import activate
from whale.runtime.options import Options


def train() -> list[Any]:
    """Losses, outputs and final variables."""
    tf = start_tensorflow()
    found: list[Any] = []
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.set_random_seed(3)
        random = np.random.RandomState(0)
        x = tf.placeholder(tf.float32, [None, 8, 8, 4])

        def weights(name: str, *shape: int) -> Any:
            return tf.get_variable(name, shape, initializer=tf.glorot_uniform_initializer())

        net = tf.nn.conv2d(x, weights("conv", 3, 3, 4, 6), 2, "SAME")
        net = tf.nn.relu(tf.nn.bias_add(net, weights("bias", 6)))
        net = tf.nn.depthwise_conv2d(net, weights("depthwise", 3, 3, 6, 2), [1, 1, 1, 1], "SAME")
        shape = tf.stack([tf.shape(x)[0], 8, 8, 3])
        net = tf.nn.conv2d_transpose(net, weights("up", 3, 3, 3, 12), shape, 2, "SAME")
        net = tf.nn.conv3d(net[..., None], weights("volume", 2, 2, 2, 1, 2), [1] * 5, "SAME")
        loss = tf.reduce_mean(tf.square(net))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        sess.run(tf.global_variables_initializer())
        for rows in (5, 1, 2, 4, 1):
            found.extend(sess.run([loss, net, train], {x: random.randn(rows, 8, 8, 4)})[:2])
        found.extend(sess.run(tf.trainable_variables()))
    return found


def main() -> None:
    """Compare."""
    expected = train()
    for devices in (2, 3):
        with activate(Options(cluster=Cluster.local(devices), batch="global", quiet=True)) as activation:
            actual = train()
        assert any(report.cut and report.trains for report in activation.reports)
        for a, b in zip(expected, actual):
            np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    main()
