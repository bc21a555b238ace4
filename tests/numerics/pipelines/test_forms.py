"""The ways in which a script says what its stages are, and what the plan then says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import whale as wh
from tests.numerics.case import Record, record_variables
from tests.numerics.pipelines import models, scripts
from tests.numerics.pipelines.compare import compare, on_one_device
from tests.numerics.pipelines.scopes import Cut, NoScopes, StageScopes

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.mark.parametrize(
    "cut", [Cut(2, 4, 1, "PreferBackward", (2, 2)), Cut(3, 5, 1, "PreferForward", (2, 1, 1))], ids=str
)
def test_stages_on_several_devices_take_micro_batches_in_turn(cut: Cut) -> None:
    text = compare(models.fed(models.mlp), cut)
    assert "on /device:CPU:0, /device:CPU:1" in text


def test_stages_on_several_devices_with_replicas() -> None:
    text = compare(models.fed(models.language_model), Cut(2, 2, 2, "PreferBackward", (1, 2)))
    assert "on /device:CPU:1, /device:CPU:2, /device:CPU:4, /device:CPU:5" in text


@pytest.mark.parametrize("cut", [Cut(2, 4, epl=True), Cut(3, 2, 1, "PreferForward", epl=True)], ids=str)
def test_replicate_scopes_are_stages_by_epls_rule(cut: Cut) -> None:
    compare(models.fed(models.mlp), cut)


def test_epls_pipeline_is_copied_as_often_as_the_devices_allow() -> None:
    compare(models.fed(models.mlp), Cut(2, 2, 2, epl=True))


def test_the_plan_says_that_one_run_is_one_update_where_epl_needs_several() -> None:
    script = models.drawn(models.mlp, 3, 12, copies=4)
    assert "one run is one update (EPL needs 4)" in compare(script, Cut(2, 4, epl=True), mode="local")


@pytest.mark.parametrize("cut", [Cut(2, 4), Cut(3, 2, 2), Cut(4, 3, 1, "PreferForward")], ids=str)
def test_default_scopes_cut_inside_of_model_code(cut: Cut) -> None:
    """Layers made by a loop that knows of no stages, but calls ``current_scope_as_default`` at their borders."""

    def script(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
        x, y = scripts.inputs(tf)
        hidden = x
        with scopes.model():
            for number in range(3):
                hidden = tf.layers.dense(_from_here(tf, scopes, number, hidden), 6, tf.tanh)
            _from_here(tf, scopes, 3, hidden)
        logits = tf.layers.dense(hidden, scripts.CLASSES)
        loss = tf.losses.sparse_softmax_cross_entropy(y, logits)
        net = scripts.Net(x, y, [hidden], logits, loss)
        scripts.trained(tf, record, net, tf.train.MomentumOptimizer(0.2, 0.9).minimize(loss))

    compare(script, cut)


def _from_here(tf: Any, scopes: NoScopes, number: int, hidden: Any) -> Any:
    """Makes the scope of a part the default one; an op in it, as a scope must not be empty."""
    with scopes.part(number):
        if isinstance(scopes, StageScopes):
            wh.current_scope_as_default()
        return tf.identity(hidden)


def test_ops_outside_of_every_scope_join_by_data_flow() -> None:
    """The loss, and a layer between two stages; the plan counts them."""

    def script(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
        x, y = scripts.inputs(tf)
        with scopes.model():
            with scopes.part(0):
                hidden = tf.layers.dense(x, 6, tf.tanh)
            hidden = tf.layers.dense(hidden, 6, tf.tanh)
            with scopes.part(2):
                logits = tf.layers.dense(hidden, scripts.CLASSES)
        loss = tf.losses.sparse_softmax_cross_entropy(y, logits)
        net = scripts.Net(x, y, [hidden], logits, loss)
        scripts.trained(tf, record, net, tf.train.MomentumOptimizer(0.2, 0.9).minimize(loss))

    text = compare(script, Cut(2, 3))
    (first,) = (line for line in text.splitlines() if "stage 0 'stage0'" in line)
    assert "ops without a scope joined it by data flow" in first


def test_a_root_of_a_mean_waits_for_all_micro_batches_and_the_plan_says_so() -> None:
    """GPipe's backward passes come after all forward passes as they are."""

    def script(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
        net = scripts.network(
            tf, scopes, loss=lambda y, z: tf.sqrt(tf.reduce_mean(tf.square(z - tf.one_hot(y, scripts.CLASSES))))
        )
        scripts.trained(tf, record, net, tf.train.MomentumOptimizer(0.2, 0.9).minimize(net.loss))

    for cut in (Cut(2, 4), Cut(3, 2, 2), Cut(3, 2, 2, "PreferForward")):
        text = compare(script, cut)
        waits = "the schedule gives way: micro-batches wait for one another at" in text
        assert waits == (cut.schedule == "PreferBackward")
        assert "exact: equals one device" in text


def test_a_weighted_mean_does_not_wait() -> None:
    """What it is divided by depends on inputs alone, and is worked out ahead."""
    script = scripts.weighted_by_masks
    text = compare(script, Cut(3, 4), on_one_device(script))
    assert "gives way" not in text


@pytest.mark.parametrize("cut", [Cut(2, 3), Cut(3, 2, 2)], ids=str)
@pytest.mark.parametrize("model", [models.mlp, models.language_model], ids=lambda model: model.__name__)
def test_the_first_batch_may_be_a_single_row(model: models.Model, cut: Cut) -> None:
    # After four steps the language model's momenta have grown apart by 1.6e-5: rounding in another order.
    compare(models.fed(model, (1, 7, 1, 4)), cut, tolerance=5e-5)


@pytest.mark.parametrize("cut", [Cut(2, 3), Cut(3, 2, 2)], ids=str)
def test_the_first_batch_may_be_empty(cut: Cut) -> None:
    """A loss that divides by no number of rows, so that no rows are a loss of zero on one device."""

    def script(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
        net = scripts.network(
            tf, scopes, loss=lambda y, z: 0.1 * tf.reduce_sum(tf.square(z - tf.one_hot(y, scripts.CLASSES)))
        )
        train = tf.train.MomentumOptimizer(0.2, 0.9).minimize(net.loss)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for step, rows in enumerate((0, 5, 0, 1)):
                record("step", sess.run([net.loss, train], net.feeds(step, rows))[0])
            record_variables(tf, sess, record)

    compare(script, cut)
