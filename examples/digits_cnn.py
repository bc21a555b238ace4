"""A small convolutional network on scikit-learn's handwritten digits, trained by a feed_dict loop.

A plain TF1 script for one device. Run it as it is, or on several devices without an edit:

    python examples/digits_cnn.py
    whale run --devices 2 examples/digits_cnn.py
"""

from __future__ import annotations

import argparse

import numpy as np
import tensorflow.compat.v1 as tf
from sklearn.datasets import load_digits

tf.disable_v2_behavior()

CLASSES = 10
SIDE = 8
TEST_IMAGES = 360


def load(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training images and labels, then test images and labels, shuffled by ``seed``.

    Images are float32 [n, 8, 8, 1] from 0 to 1, labels int64 [n]; the bundled set has 1,797 samples.
    """
    digits = load_digits()
    order = np.random.RandomState(seed).permutation(len(digits.target))
    images = (digits.images[order, :, :, np.newaxis] / 16.0).astype(np.float32)
    labels = digits.target[order].astype(np.int64)
    return images[TEST_IMAGES:], labels[TEST_IMAGES:], images[:TEST_IMAGES], labels[:TEST_IMAGES]


def conv(inputs: tf.Tensor, channels: int, name: str) -> tf.Tensor:
    """A 3x3 convolution with bias, ReLU and 2x2 max pooling: [n, s, s, c] to [n, s/2, s/2, channels]."""
    with tf.variable_scope(name):
        kernel = tf.get_variable(
            "kernel", [3, 3, inputs.shape[-1], channels], initializer=tf.glorot_uniform_initializer()
        )
        bias = tf.get_variable("bias", [channels], initializer=tf.zeros_initializer())
        features = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(inputs, kernel, strides=1, padding="SAME"), bias))
        return tf.nn.max_pool2d(features, ksize=2, strides=2, padding="VALID")


def dense(inputs: tf.Tensor, units: int, name: str) -> tf.Tensor:
    """An affine layer: [n, d] to [n, units]."""
    with tf.variable_scope(name):
        kernel = tf.get_variable("kernel", [inputs.shape[-1], units], initializer=tf.glorot_uniform_initializer())
        bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        return tf.nn.bias_add(tf.matmul(inputs, kernel), bias)


def network(images: tf.Tensor, keep_prob: tf.Tensor) -> tf.Tensor:
    """Logits [n, 10] of images [n, 8, 8, 1]."""
    features = conv(conv(images, 16, "conv1"), 32, "conv2")
    flat = tf.reshape(features, [-1, int(np.prod(features.shape.as_list()[1:]))])
    hidden = tf.nn.dropout(tf.nn.relu(dense(flat, 64, "hidden")), rate=1.0 - keep_prob)
    return dense(hidden, CLASSES, "logits")


def main() -> None:
    """Train, print the loss of every epoch and the accuracy on the test images."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    train_images, train_labels, test_images, test_labels = load(args.seed)
    tf.set_random_seed(args.seed)

    images = tf.placeholder(tf.float32, [None, SIDE, SIDE, 1], name="images")
    labels = tf.placeholder(tf.int64, [None], name="labels")
    keep_prob = tf.placeholder_with_default(1.0, [], name="keep_prob")
    logits = network(images, keep_prob)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, axis=1), labels), tf.float32))
    train_op = tf.train.AdamOptimizer(args.learning_rate).minimize(loss)

    shuffle = np.random.RandomState(args.seed)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for epoch in range(1, args.epochs + 1):
            order = shuffle.permutation(len(train_labels))
            total = 0.0
            for start in range(0, len(order), args.batch_size):
                rows = order[start : start + args.batch_size]
                feed = {images: train_images[rows], labels: train_labels[rows], keep_prob: 0.8}
                _, batch_loss = sess.run([train_op, loss], feed)
                total += float(batch_loss) * len(rows)
            print(f"epoch {epoch:2d}  loss {total / len(order):.4f}", flush=True)
        test_accuracy = sess.run(accuracy, {images: test_images, labels: test_labels})
    print(f"test accuracy: {test_accuracy:.4f}")


if __name__ == "__main__":
    main()
