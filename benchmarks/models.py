"""The two models of the data-parallel benchmark, as a script would write them for one device.

A model is a function from a batch to the loss of each sample. All initial values come from stateless random ops with
seeds of their own, so that they do not depend on what else is in the graph: every variant starts from the same point.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable

import numpy as np
import tensorflow.compat.v1 as tf

CLASSES = 10


@dataclasses.dataclass(frozen=True)
class Model:
    """A model and the work of one step."""

    losses: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
    """Inputs [n, ...] and labels [n] to losses [n]."""
    input_shape: tuple[int, ...]
    """Of one sample."""
    batch_size: int
    """Of all devices together."""
    learning_rate: float


def weights(name: str, shape: list[int]) -> tf.Variable:
    """A variable with He-normal initial values; the fan-in is the product of all dims but the last."""
    scope = tf.get_variable_scope().name.split("/", 1)[-1]

    def initial(shape: list[int], dtype: tf.DType, partition_info: object = None) -> tf.Tensor:
        scale = np.sqrt(2.0 / np.prod(shape[:-1]))
        return scale * tf.random.stateless_normal(shape, seed=[zlib.crc32(f"{scope}/{name}".encode()) % 2**31, 7])

    return tf.get_variable(name, shape, initializer=initial)


def dense(x: tf.Tensor, units: int, name: str) -> tf.Tensor:
    """An affine layer: [n, d] to [n, units]."""
    with tf.variable_scope(name):
        kernel = weights("kernel", [int(x.shape[-1]), units])
        bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        return tf.nn.bias_add(tf.matmul(x, kernel), bias)


def mlp_losses(x: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Losses of a perceptron of 25.2 million parameters on samples of 1,024 numbers."""
    for layer, units in enumerate((4096, 4096, 1024)):
        x = tf.nn.relu(dense(x, units, f"layer_{layer}"))
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=dense(x, CLASSES, "logits"))


def cnn_losses(x: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Losses of a small convolutional network on images of 32 x 32 x 3."""
    for layer, channels in enumerate((32, 64, 64)):
        with tf.variable_scope(f"conv_{layer}"):
            kernel = weights("kernel", [3, 3, int(x.shape[-1]), channels])
            bias = tf.get_variable("bias", [channels], initializer=tf.zeros_initializer())
            x = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, kernel, strides=1, padding="SAME"), bias))
            x = tf.nn.max_pool2d(x, ksize=2, strides=2, padding="VALID")
    x = tf.nn.relu(dense(tf.reshape(x, [-1, 4 * 4 * 64]), 128, "hidden"))
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=dense(x, CLASSES, "logits"))


MODELS = {
    "mlp": Model(mlp_losses, (1024,), batch_size=64, learning_rate=1e-3),
    "cnn": Model(cnn_losses, (32, 32, 3), batch_size=64, learning_rate=1e-2),
}


def dataset(model: Model, batch_size: int) -> tf.data.Dataset:
    """Endless batches of synthetic samples that are made once and kept in memory."""
    rng = np.random.RandomState(1)
    inputs = rng.normal(size=[4 * model.batch_size, *model.input_shape]).astype(np.float32)
    labels = rng.randint(CLASSES, size=[4 * model.batch_size]).astype(np.int64)
    return tf.data.Dataset.from_tensor_slices((inputs, labels)).repeat().batch(batch_size, drop_remainder=True)
