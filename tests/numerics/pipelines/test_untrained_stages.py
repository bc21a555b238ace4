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


def _train(
    tf: Any,
    record: Record,
    scopes: NoScopes,
    first: Callable[[Any], Any],
    last: Callable[[Any, Any, Any], tuple[Any, Any, Any]],
    middle: Callable[[Any], Any] | None = None,
) -> None:
    """Trains a network of stages, each given what the one before it gives.

    ``first`` is given the examples; ``last`` the examples and labels as well, and gives hidden, logits and loss.
    """
    x, y = scripts.inputs(tf)
    with scopes.model():
        with scopes.part(0):
            given = first(x)
        if middle is not None:
            with scopes.part(2):
                given = middle(given)
        with scopes.part(2 if middle is None else 3):
            hidden, logits, loss = last(given, x, y)
    net = scripts.Net(x, y, [hidden], logits, loss)
    scripts.trained(tf, record, net, tf.train.MomentumOptimizer(0.2, 0.9).minimize(loss))


def _classified(tf: Any, hidden: Any, y: Any) -> tuple[Any, Any, Any]:
    logits = tf.layers.dense(hidden, scripts.CLASSES)
    return hidden, logits, tf.losses.sparse_softmax_cross_entropy(y, logits)


def frozen_encoder(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
    """The first stage is not trained."""

    def encoder(x: Any) -> Any:
        return tf.layers.dense(x, 6, tf.tanh, trainable=False)

    _train(tf, record, scopes, encoder, lambda hidden, x, y: _classified(tf, hidden, y))


def stopped_encoder(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
    """The first stage's weights are trainable, and no gradient gets there."""

    def encoder(x: Any) -> Any:
        return tf.stop_gradient(tf.layers.dense(x, 6, tf.tanh))

    _train(tf, record, scopes, encoder, lambda hidden, x, y: _classified(tf, hidden, y))


def loss_alone(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
    """The last stage holds no variable."""

    def model(x: Any) -> Any:
        hidden = tf.layers.dense(x, 6, tf.tanh)
        return hidden, tf.layers.dense(hidden, scripts.CLASSES)

    _train(tf, record, scopes, model, lambda net, x, y: (*net, tf.losses.sparse_softmax_cross_entropy(y, net[1])))


def variables_alone(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
    """The first stage makes the variables, and the second one uses them."""

    def variables(x: Any) -> Any:
        return tf.get_variable("w", [x.shape[-1], 6], initializer=tf.glorot_uniform_initializer(seed=5))

    _train(tf, record, scopes, variables, lambda w, x, y: _classified(tf, tf.tanh(tf.matmul(x, w)), y))


def parameterless_middle(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
    """A stage between two that are trained holds no variable."""
    _train(
        tf,
        record,
        scopes,
        first=lambda x: tf.layers.dense(x, 6),
        middle=lambda hidden: tf.nn.softmax(hidden) * hidden,
        last=lambda hidden, x, y: _classified(tf, hidden, y),
    )


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
