"""A multi-layer perceptron on the handwritten digits, as a tf.estimator.Estimator: train, evaluate, predict.

TensorFlow 2.15 is the last release with Estimator.

    python examples/estimator_mlp.py
    whale run --devices 2 examples/estimator_mlp.py
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf
from sklearn.datasets import load_digits

tf.disable_v2_behavior()

TEST_IMAGES = 360


def load(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images, float32 [1797, 64] from 0 to 1, and labels, int64 [1797], shuffled by ``seed``."""
    digits = load_digits()
    order = np.random.RandomState(seed).permutation(len(digits.target))
    return (digits.data[order] / 16.0).astype(np.float32), digits.target[order].astype(np.int64)


def dense(inputs: tf.Tensor, units: int, name: str) -> tf.Tensor:
    """An affine layer: [n, d] to [n, units]."""
    with tf.variable_scope(name):
        kernel = tf.get_variable("kernel", [inputs.shape[-1], units], initializer=tf.glorot_uniform_initializer())
        bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        return tf.nn.bias_add(tf.matmul(inputs, kernel), bias)


def model_fn(
    features: tf.Tensor, labels: tf.Tensor | None, mode: str, params: dict[str, Any]
) -> tf.estimator.EstimatorSpec:
    """The network on images [n, 64], for each of Estimator's three modes."""
    hidden = tf.nn.relu(dense(features, params["hidden"], "hidden"))
    logits = dense(hidden, 10, "logits")
    digits = tf.argmax(logits, axis=1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"digit": digits, "probabilities": tf.nn.softmax(logits)})
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(
            mode, loss=loss, eval_metric_ops={"accuracy": tf.metrics.accuracy(labels, digits)}
        )
    step = tf.train.get_global_step()
    train_op = tf.train.MomentumOptimizer(params["learning_rate"], momentum=0.9).minimize(loss, global_step=step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def main() -> None:
    """Train, then print the evaluation on the test images and the first predictions."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model-dir", help="where to keep checkpoints; a temporary directory when not given")
    args = parser.parse_args()
    images, labels = load(args.seed)

    def train_input() -> tf.data.Dataset:
        data = tf.data.Dataset.from_tensor_slices((images[TEST_IMAGES:], labels[TEST_IMAGES:]))
        return data.shuffle(2000, seed=args.seed).repeat().batch(args.batch_size)

    def test_input() -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices((images[:TEST_IMAGES], labels[:TEST_IMAGES])).batch(args.batch_size)

    with tempfile.TemporaryDirectory() as scratch:
        estimator = tf.estimator.Estimator(
            model_fn,
            model_dir=args.model_dir or scratch,
            params={"hidden": args.hidden, "learning_rate": args.learning_rate},
            config=tf.estimator.RunConfig(tf_random_seed=args.seed),
        )
        estimator.train(train_input, steps=args.steps)
        result = estimator.evaluate(test_input)
        predictions = [int(row["digit"]) for row in itertools.islice(estimator.predict(test_input), 10)]
    print(f"step {result['global_step']}  test loss {result['loss']:.4f}")
    print(f"test accuracy: {result['accuracy']:.4f}")
    print("predicted", *predictions)
    print("true     ", *labels[:10])


if __name__ == "__main__":
    main()
