"""A small DCGAN on the handwritten digits: two networks, two optimizers over two lists of variables.

python examples/dcgan_digits.py
whale run --devices 2 examples/dcgan_digits.py
"""

from __future__ import annotations

import argparse

import numpy as np
import tensorflow.compat.v1 as tf
from sklearn.datasets import load_digits

tf.disable_v2_behavior()

NOISE = 16


def load() -> np.ndarray:
    """The 1,797 images, float32 [1797, 8, 8, 1] from -1 to 1."""
    return (load_digits().images[..., np.newaxis] / 8.0 - 1.0).astype(np.float32)


def weights(shape: list[int]) -> tf.Variable:
    """The variable ``kernel`` of the current scope."""
    return tf.get_variable("kernel", shape, initializer=tf.truncated_normal_initializer(stddev=0.1))


def batch_norm(x: tf.Tensor) -> tf.Tensor:
    """``x`` [n, ..., c] normalised per channel over the batch, with a learned shift."""
    mean, variance = tf.nn.moments(x, axes=list(range(len(x.shape) - 1)))
    shift = tf.get_variable("shift", [x.shape[-1]], initializer=tf.zeros_initializer())
    return tf.nn.batch_normalization(x, mean, variance, shift, None, variance_epsilon=1e-5)


def generator(noise: tf.Tensor) -> tf.Tensor:
    """Images [n, 8, 8, 1] of noise [n, 16]."""
    count = tf.shape(noise)[0]
    with tf.variable_scope("generator"):
        with tf.variable_scope("project"):
            x = tf.reshape(tf.matmul(noise, weights([NOISE, 2 * 2 * 64])), [-1, 2, 2, 64])
            x = tf.nn.relu(batch_norm(x))
        with tf.variable_scope("up1"):
            x = tf.nn.conv2d_transpose(x, weights([3, 3, 32, 64]), tf.stack([count, 4, 4, 32]), strides=2)
            x = tf.nn.relu(batch_norm(x))
        with tf.variable_scope("up2"):
            x = tf.nn.conv2d_transpose(x, weights([3, 3, 1, 32]), tf.stack([count, 8, 8, 1]), strides=2)
            return tf.tanh(x)


def discriminator(images: tf.Tensor) -> tf.Tensor:
    """Logits [n] that images [n, 8, 8, 1] are real."""
    with tf.variable_scope("discriminator", reuse=tf.AUTO_REUSE):
        with tf.variable_scope("down1"):
            x = tf.nn.leaky_relu(tf.nn.conv2d(images, weights([3, 3, 1, 32]), strides=2, padding="SAME"))
        with tf.variable_scope("down2"):
            x = tf.nn.leaky_relu(tf.nn.conv2d(x, weights([3, 3, 32, 64]), strides=2, padding="SAME"))
        with tf.variable_scope("logit"):
            return tf.squeeze(tf.matmul(tf.reshape(x, [-1, 2 * 2 * 64]), weights([2 * 2 * 64, 1])), axis=1)


def cross_entropy(logits: tf.Tensor, label: float) -> tf.Tensor:
    """Mean cross-entropy of ``logits`` [n], all of which should say ``label``."""
    labels = tf.fill(tf.shape(logits), label)
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))


def distance_to_data(samples: np.ndarray, images: np.ndarray) -> float:
    """Mean over ``samples`` of the root mean square difference to the nearest real image."""
    differences = samples.reshape(len(samples), 1, -1) - images.reshape(1, len(images), -1)
    return float(np.sqrt(np.square(differences).mean(axis=2).min(axis=1)).mean())


def main() -> None:
    """Train, print both losses, and how near to real digits the samples are before and after."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--print-every", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    images = load()
    tf.set_random_seed(args.seed)

    real = tf.placeholder(tf.float32, [None, 8, 8, 1], name="real")
    noise = tf.placeholder(tf.float32, [None, NOISE], name="noise")
    fake = generator(noise)
    fake_logits = discriminator(fake)
    discriminator_loss = cross_entropy(discriminator(real), 0.9) + cross_entropy(fake_logits, 0.0)
    generator_loss = cross_entropy(fake_logits, 1.0)
    train_discriminator = tf.train.AdamOptimizer(1e-3, beta1=0.5).minimize(
        discriminator_loss, var_list=tf.trainable_variables("discriminator")
    )
    train_generator = tf.train.AdamOptimizer(2e-3, beta1=0.5).minimize(
        generator_loss, var_list=tf.trainable_variables("generator")
    )

    rng = np.random.RandomState(args.seed)
    sample_noise = rng.normal(size=[64, NOISE]).astype(np.float32)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        before = distance_to_data(sess.run(fake, {noise: sample_noise}), images)
        for step in range(1, args.steps + 1):
            batch = {
                real: images[rng.randint(len(images), size=args.batch_size)],
                noise: rng.normal(size=[args.batch_size, NOISE]).astype(np.float32),
            }
            _, d_loss = sess.run([train_discriminator, discriminator_loss], batch)
            _, g_loss = sess.run([train_generator, generator_loss], batch)
            if step % args.print_every == 0:
                print(f"step {step:5d}  discriminator {d_loss:.4f}  generator {g_loss:.4f}", flush=True)
        after = distance_to_data(sess.run(fake, {noise: sample_noise}), images)
    print(f"distance to data: {before:.4f} before, {after:.4f} after")


if __name__ == "__main__":
    main()
