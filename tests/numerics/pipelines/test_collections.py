"""Fetched tensors under each of ``GraphKeys``: over all pieces, or over the micro-batches of the first replica."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import whale as wh
from tests.numerics.pipelines.compare import pipelined
from tests.numerics.pipelines.scopes import Cut, StageScopes
from tests.numerics.process import start_tensorflow

pytestmark = [pytest.mark.filterwarnings("ignore::UserWarning"), pytest.mark.filterwarnings("ignore::FutureWarning")]

ROWS, WIDTH = 8, 3


def fetched(mode: str, key: str | None, cut: Cut) -> tuple[np.ndarray, np.ndarray]:
    """An activation as it is fetched from a step, and what one device computes on all rows of the step."""
    tf = start_tensorflow()
    x = np.random.RandomState(0).randn(ROWS, WIDTH).astype(np.float32)
    kernel = np.random.RandomState(1).randn(WIDTH, WIDTH).astype(np.float32)
    with pipelined(cut, mode)(), tf.Graph().as_default():
        scopes: Any = StageScopes(cut)
        rows = ROWS if mode == "global" else ROWS // cut.copies
        dataset = tf.data.Dataset.from_tensor_slices(x).batch(rows, drop_remainder=True).repeat()
        drawn = tf.data.make_one_shot_iterator(dataset).get_next()
        with scopes.model():
            with scopes.part(0):
                hidden = tf.matmul(drawn, tf.get_variable("kernel", initializer=kernel))
            with scopes.part(3):
                loss = tf.reduce_mean(tf.square(tf.layers.dense(hidden, 1)))
        if key is not None:
            wh.add_to_collection(hidden, key)
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            return sess.run([hidden, train])[0], x @ kernel


@pytest.mark.parametrize("mode", ["global", "local"])
@pytest.mark.parametrize("cut", [Cut(2, 4), Cut(2, 2, 2)], ids=str)
@pytest.mark.parametrize("key", [None, *(getattr(wh.GraphKeys, name) for name in dir(wh.GraphKeys) if name.isupper())])
def test_pieces_are_merged_as_the_collection_says(mode: str, cut: Cut, key: str | None) -> None:
    found, rows = fetched(mode, key, cut)
    extent, how = (key or "global_concat_objects").split("_")[:2]
    if extent == "local":
        rows = rows[: ROWS // cut.replicas]
    copies = cut.micro_batches if extent == "local" else cut.copies
    pieces = rows.reshape(copies, -1, WIDTH)
    expected = {"concat": rows, "sum": pieces.sum(0), "mean": pieces.mean(0)}[how]
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
