"""Stages that train nothing are stages: frozen encoders, losses, variables and inputs of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.numerics.case import Record
from tests.numerics.pipelines import scripts
from tests.numerics.pipelines.compare import compare
from tests.numerics.pipelines.scopes import Cut, NoScopes

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

CUTS = [Cut(2, 4), Cut(2, 2, 2, "PreferForward"), Cut(2, 3, 1, "PreferBackwardOptimizer")]


def _finish(tf: Any, record: Record, x: Any, y: Any, hidden: Any, logits: Any, loss: Any) -> None:
    net = scripts.Net(x, y, [hidden], logits, loss)
    scripts.trained(tf, record, net, tf.train.MomentumOptimizer(0.2, 0.9).minimize(loss))


def frozen_encoder(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
    """The first stage is not trained."""
    x, y = scripts.inputs(tf)
    with scopes.model():
        with scopes.part(0):
            hidden = tf.layers.dense(x, 6, tf.tanh, trainable=False)
        with scopes.part(2):
            logits = tf.layers.dense(hidden, scripts.CLASSES)
            loss = tf.losses.sparse_softmax_cross_entropy(y, logits)
    _finish(tf, record, x, y, hidden, logits, loss)


def stopped_encoder(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
    """The first stage's weights are trainable, and no gradient gets there."""
    x, y = scripts.inputs(tf)
    with scopes.model():
        with scopes.part(0):
            hidden = tf.stop_gradient(tf.layers.dense(x, 6, tf.tanh))
        with scopes.part(2):
            logits = tf.layers.dense(hidden, scripts.CLASSES)
            loss = tf.losses.sparse_softmax_cross_entropy(y, logits)
    _finish(tf, record, x, y, hidden, logits, loss)


def loss_alone(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
    """The last stage holds no variable."""
    x, y = scripts.inputs(tf)
    with scopes.model():
        with scopes.part(0):
            hidden = tf.layers.dense(x, 6, tf.tanh)
            logits = tf.layers.dense(hidden, scripts.CLASSES)
        with scopes.part(2):
            loss = tf.losses.sparse_softmax_cross_entropy(y, logits)
    _finish(tf, record, x, y, hidden, logits, loss)


def variables_alone(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
    """The first stage makes the variables, and the second one uses them."""
    x, y = scripts.inputs(tf)
    with scopes.model():
        with scopes.part(0):
            w = tf.get_variable("w", [x.shape[-1], 6], initializer=tf.glorot_uniform_initializer(seed=5))
        with scopes.part(2):
            hidden = tf.tanh(tf.matmul(x, w))
            logits = tf.layers.dense(hidden, scripts.CLASSES)
            loss = tf.losses.sparse_softmax_cross_entropy(y, logits)
    _finish(tf, record, x, y, hidden, logits, loss)


def parameterless_middle(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
    """A stage between two that are trained holds no variable."""
    x, y = scripts.inputs(tf)
    with scopes.model():
        with scopes.part(0):
            hidden = tf.layers.dense(x, 6)
        with scopes.part(2):
            hidden = tf.nn.softmax(hidden) * hidden
        with scopes.part(3):
            logits = tf.layers.dense(hidden, scripts.CLASSES)
            loss = tf.losses.sparse_softmax_cross_entropy(y, logits)
    _finish(tf, record, x, y, hidden, logits, loss)


SCRIPTS = [frozen_encoder, stopped_encoder, loss_alone, variables_alone]


@pytest.mark.parametrize("cut", CUTS, ids=str)
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_a_stage_that_trains_nothing_computes_what_one_device_does(script: Callable[..., None], cut: Cut) -> None:
    compare(script, cut)


@pytest.mark.parametrize("cut", [Cut(3, 4), Cut(3, 3, 2, "PreferForward")], ids=str)
def test_a_stage_without_variables_between_two_others(cut: Cut) -> None:
    compare(parameterless_middle, cut)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_local_batches(script: Callable[..., None]) -> None:
    compare(script, Cut(2, 2), mode="local")
