"""ResNet v1.5 as TF1 code for one device, with the batch size left open."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from benchmarks.graphs.sizes import Convolutional

_BLOCKS = {"resnet50": (3, 4, 6, 3), "resnet101": (3, 4, 23, 3), "resnet152": (3, 8, 36, 3)}


def training_step(model: Convolutional) -> tf.Operation:
    """Builds loss and update in the default graph; returns the op that trains."""
    images = tf.placeholder(tf.float32, [None, 224, 224, 3], "images")
    labels = tf.placeholder(tf.int32, [None], "labels")
    logits = _resnet(images, _BLOCKS[model.name])
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    return tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)


def _resnet(x: tf.Tensor, blocks: tuple[int, ...]) -> tf.Tensor:
    x = tf.nn.relu(_conv_norm(x, 64, 7, 2, "stem"))
    x = tf.nn.max_pool2d(x, 3, 2, "SAME")
    for stage, count in enumerate(blocks):
        for block in range(count):
            stride = 2 if stage and not block else 1
            with tf.variable_scope(f"stage_{stage}/block_{block}"):
                x = _bottleneck(x, 64 << stage, stride)
    return _dense(tf.reduce_mean(x, [1, 2]), 1000, "logits")


def _bottleneck(x: tf.Tensor, width: int, stride: int) -> tf.Tensor:
    """The stride is in the 3 x 3 convolution: version 1.5."""
    y = tf.nn.relu(_conv_norm(x, width, 1, 1, "reduce"))
    y = tf.nn.relu(_conv_norm(y, width, 3, stride, "spatial"))
    y = _conv_norm(y, 4 * width, 1, 1, "expand")
    if int(x.shape[-1]) != 4 * width:
        x = _conv_norm(x, 4 * width, 1, stride, "shortcut")
    return tf.nn.relu(x + y)


def _conv(x: tf.Tensor, width: int, size: int, stride: int, name: str) -> tf.Tensor:
    with tf.variable_scope(name):
        kernel = tf.get_variable("kernel", [size, size, int(x.shape[-1]), width])
        return tf.nn.conv2d(x, kernel, strides=stride, padding="SAME")


def _conv_norm(x: tf.Tensor, width: int, size: int, stride: int, name: str) -> tf.Tensor:
    y = _conv(x, width, size, stride, name)
    with tf.variable_scope(f"{name}/norm"):
        scale = tf.get_variable("gamma", [width], initializer=tf.ones_initializer())
        shift = tf.get_variable("beta", [width], initializer=tf.zeros_initializer())
        return tf.nn.fused_batch_norm(y, scale, shift, epsilon=1e-5, is_training=True)[0]


def _dense(x: tf.Tensor, units: int, name: str) -> tf.Tensor:
    with tf.variable_scope(name):
        kernel = tf.get_variable("kernel", [int(x.shape[-1]), units])
        return tf.nn.bias_add(tf.matmul(x, kernel), tf.get_variable("bias", [units]))
