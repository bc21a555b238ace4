"""Fetches under the collections that say how the pieces of a tensor are merged."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import whale as wh
from whale.cluster import Cluster
from whale.runtime.activation import activate
from whale.runtime.in_force import InForce
from whale.runtime.options import Options

K = wh.GraphKeys
ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.fixture
def whale_on_two() -> Iterator[None]:
    options = Options(cluster=Cluster.local(2), batch="global", quiet=True)
    with activate(options) as activation, tf.Graph().as_default():
        InForce.set(InForce(activation, options))
        yield
    wh.shutdown()


@pytest.mark.parametrize(
    ("key", "rows"),
    [
        (None, 2 * ROWS),
        (K.GLOBAL_CONCAT_OBJECTS, 2 * ROWS),
        (K.GLOBAL_SUM_OBJECTS, 2 * (ROWS[:2] + ROWS[2:])),
        (K.GLOBAL_MEAN_OBJECTS, ROWS[:2] + ROWS[2:]),
        (K.LOCAL_CONCAT_OBJECTS, 2 * ROWS[:2]),
        (K.LOCAL_SUM_OBJECTS, 2 * ROWS[:2]),
        (K.LOCAL_MEAN_OBJECTS, 2 * ROWS[:2]),
    ],
)
def test_pieces_are_merged_as_the_key_says(whale_on_two: None, key: str | None, rows: np.ndarray) -> None:
    x = tf.placeholder(tf.float32, [None, 3])
    w = tf.get_variable("w", [], initializer=tf.constant_initializer(2.0))
    with wh.replica():
        scaled = w * x
        mean = tf.reduce_mean(scaled)
    if key is not None:
        wh.add_to_collection([scaled, mean], key)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        fetched = sess.run([scaled, mean], {x: ROWS})
    np.testing.assert_allclose(fetched[0], rows)
    np.testing.assert_allclose(fetched[1], 11.0, err_msg="a mean over the batch is that of the whole batch")
