"""Local batches that are padded, each draw to its own longest sequence: equal to one device fed all draws at once,
padded to the longest of them, for a model in which padding has no part."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import whale as wh
from tests.numerics.process import start_tensorflow
from whale.cluster import Cluster
from whale.runtime.activation import Activation, activate
from whale.runtime.options import Options

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

OPTIMIZERS = {
    "sgd": lambda tf: tf.train.GradientDescentOptimizer(0.01),
    "adam": lambda tf: tf.train.AdamOptimizer(0.1),
}
ROWS = 48


def sequences() -> Iterator[tuple[np.ndarray, int, float]]:
    """Ids of 2 to 6 words, how many there are, and a target."""
    rng = np.random.RandomState(0)
    for length in rng.randint(2, 7, ROWS):
        ids = rng.randint(1, 11, length).astype(np.int32)
        yield ids, length, float(ids.mean())


@contextlib.contextmanager
def no_stage() -> Iterator[None]:
    yield


@contextlib.contextmanager
def on_two_devices() -> Iterator[Activation]:
    """Whale, and afterwards TensorFlow as it was: what the script said is forgotten."""
    with activate(Options(cluster=Cluster.local(2), quiet=True)) as activation:
        try:
            yield activation
        finally:
            wh.shutdown()


def trained(optimizer: str, copies: int, scopes: Any, unique: bool = False) -> list[Any]:
    """Trains on padded draws of 4 rows, or without scopes on those of all copies at once; losses and variables."""
    tf = start_tensorflow()
    model, stage = (scopes, wh.stage) if scopes is wh.pipeline else (scopes, no_stage)
    with tf.Graph().as_default():
        kinds, shapes = (tf.int32, tf.int32, tf.float32), ([None], [], [])
        dataset = tf.data.Dataset.from_generator(sequences, kinds, shapes)
        dataset = dataset.padded_batch(4 if scopes else 4 * copies, shapes)
        iterator = tf.data.make_initializable_iterator(dataset)
        ids, lengths, target = iterator.get_next()
        with contextlib.nullcontext() if not scopes else wh.replica() if model is wh.replica else wh.pipeline(copies):
            with stage():
                table = tf.get_variable("table", [11, 4], initializer=tf.random_normal_initializer(seed=1))
                if unique:
                    words, where = tf.unique(tf.reshape(ids, [-1]))
                    embedded = tf.reshape(tf.gather(tf.gather(table, words), where), [-1, tf.shape(ids)[1], 4])
                else:
                    embedded = tf.nn.embedding_lookup(table, ids)
                hidden = tf.layers.dense(embedded, 5, tf.tanh, kernel_initializer=tf.random_normal_initializer(seed=2))
                hidden *= tf.sequence_mask(lengths, tf.shape(ids)[1], tf.float32)[:, :, None]
            with stage():
                mean = tf.reduce_sum(hidden, 1) / tf.cast(lengths, tf.float32)[:, None]
                output = tf.layers.dense(mean, 1, kernel_initializer=tf.random_normal_initializer(seed=3))[:, 0]
                loss = tf.reduce_mean(tf.square(output - target))
        train = OPTIMIZERS[optimizer](tf).minimize(loss)
        with tf.Session() as sess:
            sess.run([tf.global_variables_initializer(), iterator.initializer])
            losses = [sess.run([loss, train])[0] for _ in range(ROWS // 4 // copies)]
            return [losses, *sess.run(tf.trainable_variables())]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("scopes", [wh.replica, wh.pipeline], ids=["replicas", "stages"])
def test_every_draw_has_a_length_of_its_own(optimizer: str, scopes: Any) -> None:
    expected = trained(optimizer, 2, None)
    with on_two_devices() as activation:
        actual = trained(optimizer, 2, scopes)
    assert any(report.trains and report.cut for report in activation.reports)
    for got, wanted in zip(actual, expected):
        np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=1e-6)


def test_what_needs_the_draws_together_and_apart_again_is_named() -> None:
    """Where one draw's words end among those of all is not known: nothing is taken apart by another draw's length."""
    with on_two_devices() as activation:
        trained("sgd", 2, wh.replica, unique=True)
    (reason,) = {report.reason for report in activation.reports if report.trains}
    assert "test_local_padding.py:" in reason and "padded to a length of its own" in reason
