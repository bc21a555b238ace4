"""A multi-layer perceptron that asks for data parallelism itself, by Whale's annotations.

A script with annotations runs in local batch mode: every replica draws a batch of ``--batch-size`` of its own, so
the step sees ``--batch-size`` times the number of devices. Whale prints this with the plan.

    whale run --devices 2 examples/annotated_mlp.py
"""

from __future__ import annotations

import argparse

import numpy as np
import tensorflow.compat.v1 as tf
from sklearn.datasets import load_digits

import whale as wh

tf.disable_v2_behavior()

TEST_IMAGES = 360


def load(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Training images, float32 [1437, 64] from 0 to 1, and labels, int64 [1437], shuffled by ``seed``."""
    digits = load_digits()
    order = np.random.RandomState(seed).permutation(len(digits.target))[TEST_IMAGES:]
    return (digits.data[order] / 16.0).astype(np.float32), digits.target[order].astype(np.int64)


def dense(inputs: tf.Tensor, units: int, name: str) -> tf.Tensor:
    """An affine layer: [n, d] to [n, units]."""
    with tf.variable_scope(name):
        kernel = tf.get_variable("kernel", [inputs.shape[-1], units], initializer=tf.glorot_uniform_initializer())
        bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        return tf.nn.bias_add(tf.matmul(inputs, kernel), bias)


def main() -> None:
    """Train for ``--steps`` and print the loss and the accuracy over the batches of all replicas."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=32, help="samples per replica and step")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--print-every", type=int, default=50)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    wh.init()
    tf.set_random_seed(args.seed)
    with wh.replica():
        data = tf.data.Dataset.from_tensor_slices(load(args.seed))
        data = data.shuffle(2000, seed=args.seed).repeat().batch(args.batch_size)
        images, labels = data.make_one_shot_iterator().get_next()
        hidden = tf.nn.relu(dense(images, 128, "hidden"))
        logits = dense(hidden, 10, "logits")
        loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
        accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, axis=1), labels), tf.float32))
    wh.add_to_collection([loss, accuracy], wh.GraphKeys.GLOBAL_MEAN_OBJECTS)

    step = tf.train.get_or_create_global_step()
    train_op = tf.train.MomentumOptimizer(args.learning_rate, momentum=0.9).minimize(loss, global_step=step)
    with tf.control_dependencies([train_op]):
        steps_done = step.read_value()
    hooks = [tf.train.StopAtStepHook(last_step=args.steps)]
    with tf.train.MonitoredTrainingSession(hooks=hooks, log_step_count_steps=None) as sess:
        while not sess.should_stop():
            at, batch_loss, batch_accuracy = sess.run([steps_done, loss, accuracy])
            if at % args.print_every == 0:
                print(f"step {at:4d}  loss {batch_loss:.4f}  accuracy {batch_accuracy:.4f}", flush=True)


if __name__ == "__main__":
    main()
