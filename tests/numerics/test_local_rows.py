"""Local batches of the size that the script writes: gradients with rows equal those of one device fed all draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.numerics.process import start_tensorflow
from whale.cluster import Cluster
from whale.runtime.activation import activate
from whale.runtime.options import Options

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

OPTIMIZERS = {
    "sgd": lambda tf: tf.train.GradientDescentOptimizer(0.5),
    "momentum": lambda tf: tf.train.MomentumOptimizer(0.1, 0.9),
    "adam": lambda tf: tf.train.AdamOptimizer(0.1),
    "adagrad": lambda tf: tf.train.AdagradOptimizer(0.1),
}


def trained(optimizer: str, clips: bool, copies: int, devices: int | None) -> list[Any]:
    """Trains a table on draws of 4 rows, on one device (None) of all copies; its gradients' norms, and itself."""
    tf = start_tensorflow()
    rng = np.random.RandomState(0)
    data = (rng.randint(0, 6, 48).astype(np.int32), rng.randn(48, 3).astype(np.float32))

    def script() -> list[Any]:
        with tf.Graph().as_default():
            rows = tf.data.Dataset.from_tensor_slices(data).batch(4 if devices else 4 * copies, drop_remainder=True)
            ids, y = tf.data.make_one_shot_iterator(rows).get_next()
            table = tf.get_variable("table", [6, 3], initializer=tf.ones_initializer())
            picked = tf.nn.embedding_lookup(table, ids)
            loss = tf.reduce_mean(tf.square(tf.layers.dense(picked, 3, kernel_initializer=tf.ones_initializer()) - y))
            made = OPTIMIZERS[optimizer](tf)
            gradients, variables = zip(*made.compute_gradients(loss))
            norm = tf.global_norm(gradients)
            if clips:
                gradients, norm = tf.clip_by_global_norm(gradients, 1.0)
            train = made.apply_gradients(zip(gradients, variables))
            with tf.Session() as sess:
                sess.run(tf.global_variables_initializer())
                norms = [sess.run([norm, train])[0] for _ in range(12 // copies)]
                return [norms, sess.run(table)]

    if devices is None:
        return script()
    with activate(Options(cluster=Cluster.local(devices), batch="local", quiet=True)) as activation:
        found = script()
    assert any(report.trains and report.cut for report in activation.reports)
    return found


def test_a_draw_may_have_fewer_rows_than_there_are_devices() -> None:
    for actual, expected in zip(trained("sgd", True, 6, 6), trained("sgd", True, 6, None)):
        np.testing.assert_allclose(actual, expected, rtol=2e-5)


@pytest.mark.parametrize("clips", [False, True])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_rows_are_scaled_before_they_are_read(optimizer: str, clips: bool) -> None:
    for actual, expected in zip(trained(optimizer, clips, 2, 2), trained(optimizer, clips, 2, None)):
        np.testing.assert_allclose(actual, expected, rtol=2e-5)
