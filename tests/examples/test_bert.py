"""The pieces of the example BERT against the same arithmetic in NumPy."""

from __future__ import annotations

import importlib.util
import math
import pathlib
import sys
from types import ModuleType

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

BERT = pathlib.Path(__file__).resolve().parents[2] / "examples" / "bert.py"


@pytest.fixture(scope="module")
def bert() -> ModuleType:
    """The example's module, which is no package."""
    spec = importlib.util.spec_from_file_location("bert_example", BERT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_gelu_is_x_times_the_normal_distribution(bert: ModuleType) -> None:
    values = np.linspace(-3.0, 3.0, 13, dtype=np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        actual = session.run(bert.gelu(tf.constant(values)))
    expected = [x * 0.5 * (1.0 + math.erf(x / math.sqrt(2.0))) for x in values]
    np.testing.assert_allclose(actual, expected, atol=1e-6)


def test_padding_does_not_change_the_losses(bert: ModuleType) -> None:
    config = bert.BertConfig(vocab_size=11, hidden_size=8, num_layers=2, num_heads=2, max_positions=8)
    rng = np.random.RandomState(0)
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        tokens = tf.placeholder(tf.int32, [3, 6])
        features = {
            "token_ids": tokens,
            "type_ids": tf.zeros([3, 6], tf.int32),
            "input_mask": tf.constant([[1, 1, 1, 1, 0, 0]] * 3),
            "masked_positions": tf.constant([[1, 2], [3, 0], [2, 0]]),
            "masked_labels": tf.constant([[1, 2], [3, 0], [4, 0]]),
            "masked_weights": tf.constant([[1.0, 1.0], [1.0, 0.0], [1.0, 0.0]]),
            "is_next": tf.constant([0, 1, 1]),
        }
        losses = bert.pretraining_losses(features, config, training=False)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            ids = rng.randint(11, size=[3, 6])
            one = session.run(losses, {tokens: ids})
            ids[:, 4:] = rng.randint(11, size=[3, 2])
            other = session.run(losses, {tokens: ids})
    np.testing.assert_allclose(one, other, rtol=1e-6)
    assert one[0] == pytest.approx(math.log(11), rel=0.1)
    assert one[1] == pytest.approx(math.log(2), rel=0.1)


@pytest.mark.parametrize("name", ["AdamWeightDecay", "Lamb"])
def test_optimizers_follow_their_papers(bert: ModuleType, name: str) -> None:
    start = np.array([[1.0, -2.0], [0.5, 3.0]], dtype=np.float32)
    with tf.Graph().as_default():
        weights = tf.get_variable("weights", initializer=start)
        step = tf.train.get_or_create_global_step()
        loss = 0.5 * tf.reduce_sum(tf.square(weights))
        optimizer = getattr(bert, name)(tf.constant(0.1), weight_decay=0.01)
        train = bert.train_op(loss, optimizer, step, clip_norm=1.0)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for _ in range(3):
                session.run(train)
            actual, steps = session.run([weights, step])

    expected, m, v = start.astype(np.float64), 0.0, 0.0
    for _ in range(3):
        gradient = expected / max(1.0, np.linalg.norm(expected))
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        update = m / (np.sqrt(v) + 1e-6) + 0.01 * expected
        rate = 0.1 * (np.linalg.norm(expected) / np.linalg.norm(update) if name == "Lamb" else 1.0)
        expected = expected - rate * update
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
    assert steps == 3


def test_learning_rate_rises_then_falls(bert: ModuleType) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        step = tf.placeholder(tf.int64, [])
        rate = bert.warmed_up_learning_rate(step, peak=1.0, total_steps=100, warmup_steps=10)
        rates = [session.run(rate, {step: at}) for at in (0, 5, 10, 55, 100)]
    np.testing.assert_allclose(rates, [0.0, 0.5, 0.9, 0.45, 0.0], atol=1e-6)
