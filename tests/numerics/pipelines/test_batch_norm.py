"""Batch norm in a pipeline: over the whole batch where that is asked for, else of each micro-batch, and said so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.numerics.case import Record, record_variables
from tests.numerics.pipelines import models
from tests.numerics.pipelines.compare import Script, compare, on_one_device
from tests.numerics.pipelines.scopes import Cut, NoScopes
from whale.sharding.batches import bounds

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

CUTS = [Cut(2, 4), Cut(3, 2, 2, "PreferForward"), Cut(4, 5, 1, "PreferBackwardOptimizer"), Cut(4, 2, 1, "Interleaved")]

BATCHES = (11, 8)
"""Every piece has rows: the statistics of none are no number in plain TensorFlow."""


def towers(copies: int) -> Script:
    """What a pipeline computes, written by hand for one device: a tower per piece, all of one set of variables.

    The loss, and what is taken off the moving averages, is the mean over the towers, weighted by rows.
    """

    def script(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
        del workdir
        data = models.DATA[models.cnn](sum(BATCHES))
        weights = tf.placeholder(tf.float32, [copies])
        pieces, losses, updates = [], [], []
        for tower in range(copies):
            piece = {name: tf.placeholder(a.dtype, [None, *a.shape[1:]]) for name, a in data.arrays.items()}
            before = len(tf.get_collection(tf.GraphKeys.UPDATE_OPS))
            with tf.variable_scope(tf.get_variable_scope(), reuse=tower > 0):
                losses.append(named_cnn(tf, piece, scopes))
            pieces.append(piece)
            updates.append(tf.get_collection(tf.GraphKeys.UPDATE_OPS)[before:])
        loss = tf.add_n([weights[tower] * one for tower, one in enumerate(losses)])
        moves = []
        for same_update in zip(*updates):
            less = tf.add_n([weights[tower] * update.inputs[1] for tower, update in enumerate(same_update)])
            (variable,) = (v for v in tf.global_variables() if v.op is same_update[0].inputs[0].op)
            moves.append(tf.assign_sub(variable, less))
        tf.get_default_graph().clear_collection(tf.GraphKeys.UPDATE_OPS)
        for move in moves:
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, move)
        fetches = models.training(tf, loss, models.momentum(tf))
        start = 0
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for rows in BATCHES:
                edges = [start + edge for edge in bounds(rows, (1,) * copies)]
                feeds = {weights: np.diff(edges) / rows}
                for piece, low, high in zip(pieces, edges, edges[1:]):
                    feeds |= {piece[name]: array for name, array in data.slice(low, high).items()}
                record("step", sess.run(fetches, feeds)[:2])
                start += rows
            record_variables(tf, sess, record)

    return script


def named_cnn(tf: Any, inputs: dict[str, Any], scopes: NoScopes) -> Any:
    """As ``models.cnn``, with layers that a second tower finds again; the initial values depend on no op's number."""
    initial = tf.initializers.glorot_uniform(seed=3)
    with scopes.model():
        hidden = inputs["x"]
        for part in range(3):
            with scopes.part(part):
                hidden = tf.layers.conv2d(hidden, 4, 3, padding="same", kernel_initializer=initial, name=f"conv{part}")
                hidden = tf.layers.batch_normalization(hidden, momentum=0.8, training=True, name=f"norm{part}")
                hidden = tf.nn.relu(hidden)
        with scopes.part(3):
            logits = tf.layers.dense(tf.reduce_mean(hidden, [1, 2]), 3, kernel_initializer=initial, name="out")
            return tf.losses.sparse_softmax_cross_entropy(inputs["y"], logits)


models.DATA[named_cnn] = models.DATA[models.cnn]
models.OPTIMIZERS[named_cnn] = models.momentum


@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_statistics_are_those_of_each_micro_batch(cut: Cut) -> None:
    text = compare(models.fed(named_cnn, BATCHES), cut, on_one_device(towers(cut.copies)))
    assert "approximate: batch-norm statistics are those of each piece of the batch" in text
    assert "exact" not in text.replace("makes them exact", "")


@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_statistics_of_the_whole_batch_are_one_device_s(cut: Cut) -> None:
    """All micro-batches wait for one another at each batch norm: the schedule gives way."""
    text = compare(models.fed(models.cnn), cut, settings={"batch.sync": True})
    assert "exact: equals one device" in text
    assert "the schedule gives way: micro-batches wait for one another at FusedBatchNorm" in text
