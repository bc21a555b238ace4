"""The pipeline that scopes ask for, EPL's rule, and pipelines that cannot be run."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import whale as wh
from whale.annotations.pipelines import pipeline_of
from whale.annotations.state import annotations_of
from whale.config import Config
from whale.errors import PlanError, ScheduleError, ScopeError
from whale.ir.task_graphs import PipelineRequest

pytestmark = [
    pytest.mark.usefixtures("graph"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

PLAIN = Config({})


def asked(config: Config = PLAIN) -> PipelineRequest | None:
    """What the default graph asks for."""
    return pipeline_of(annotations_of(tf.get_default_graph()), config)


def request(config: Config = PLAIN) -> PipelineRequest:
    found = asked(config)
    assert found is not None
    return found


def an_op() -> None:
    """Something for a scope to hold."""
    tf.constant(1.0)


# -- what scopes ask for -----------------------------------------------------------------------------------------------


def test_nothing_is_asked_for_without_scopes_and_micro_batches() -> None:
    assert asked() is None
    assert pipeline_of(None, PLAIN) is None
    with wh.replica():
        an_op()
    assert asked() is None


def test_stages_come_in_the_order_of_their_first_entry() -> None:
    with wh.pipeline(num_micro_batch=4, strategy="PreferForward"):
        for name in ("a", "b", "c"):
            with wh.stage(name=name):
                an_op()
    found = request()
    assert [stage.name for stage in found.stages] == ["a", "b", "c"]
    assert (found.micro_batches, found.strategy) == (4, "PreferForward")
    assert found.site is not None and found.site.path == __file__
    assert all(stage.site is not None and stage.site.path == __file__ for stage in found.stages)


def test_a_stage_that_is_entered_again_is_one_stage() -> None:
    with wh.pipeline(num_micro_batch=2):
        first, second = wh.stage(name="first"), wh.stage(name="second")
        for scope in (first, second, first):
            with scope:
                an_op()
    found = request().stages
    assert [(stage.name, len(stage.scopes)) for stage in found] == [("first", 2), ("second", 1)]
    assert not found[0].scopes & found[1].scopes


def test_what_the_scopes_leave_open_is_configured() -> None:
    with wh.pipeline():
        for _ in range(2):
            with wh.stage():
                an_op()
    found = request(Config({"pipeline.num_micro_batch": 8, "pipeline.strategy": "PreferBackwardOptimizer"}))
    assert (found.micro_batches, found.strategy) == (8, "PreferBackwardOptimizer")


def test_the_scopes_win_over_the_configuration() -> None:
    with wh.pipeline(num_micro_batch=3, strategy="PreferBackward"), wh.stage():
        an_op()
    found = request(Config({"pipeline.num_micro_batch": 8, "pipeline.strategy": "PreferForward"}))
    assert (found.micro_batches, found.strategy) == (3, "PreferBackward")


def test_devices_by_replica_and_their_number() -> None:
    with wh.pipeline(num_micro_batch=2):
        with wh.stage([["cpu:0", "cpu:1"], ["cpu:2", "cpu:3"]]):
            an_op()
        with wh.stage(device_count=2):
            an_op()
    first, second = request().stages
    assert first.devices == (("/device:CPU:0", "/device:CPU:1"), ("/device:CPU:2", "/device:CPU:3"))
    assert (first.device_count, second.devices, second.device_count) == (2, (), 2)


def test_a_stage_may_ask_for_devices_that_do_not_divide_all_of_them() -> None:
    """Two stages, one on three of the four devices: other stages have the rest."""
    with wh.pipeline(num_micro_batch=2):
        with wh.stage(device_count=3):
            an_op()
        with wh.stage():
            an_op()
    assert [stage.device_count for stage in request().stages] == [3, 1]


def test_scopes_inside_of_a_stage_are_its_own() -> None:
    with wh.pipeline(num_micro_batch=2):
        with wh.stage(), wh.replica():
            an_op()
        with wh.stage():
            an_op()
    assert [len(stage.scopes) for stage in request().stages] == [2, 1]


def test_two_pipelines_are_refused_with_both_lines() -> None:
    for _ in range(2):
        with wh.pipeline(num_micro_batch=2), wh.stage():
            an_op()
    with pytest.raises(ScopeError, match=rf"two pipelines, at .*{re.escape(__file__)}:\d+ and at ") as caught:
        asked()
    assert caught.value.fix


# -- EPL's rule --------------------------------------------------------------------------------------------------------

FOUR = Config({"pipeline.num_micro_batch": 4})


@pytest.mark.parametrize("count", [2, 3])
def test_replicate_scopes_are_stages_where_micro_batches_are_configured(count: int) -> None:
    for index in range(count):
        with wh.replicate(device_count=1, name=f"part{index}"):
            an_op()
    assert [stage.name for stage in request(FOUR).stages] == [f"part{index}" for index in range(count)]
    assert request(FOUR).micro_batches == 4
    assert asked() is None, "data parallelism without micro-batches"


@pytest.mark.parametrize("scopes", [0, 1])
def test_one_scope_or_none_is_gradient_accumulation(scopes: int) -> None:
    for _ in range(scopes):
        with wh.replicate(device_count=1):
            an_op()
    found = request(FOUR)
    assert (found.stages, found.micro_batches) == ((), 4)


def test_one_strategy_entered_twice_is_no_pipeline() -> None:
    scope = wh.replicate(device_count=1)
    for _ in range(2):
        with scope:
            an_op()
    assert request(FOUR).stages == ()


def test_default_strategies_are_stages_where_several_are_set() -> None:
    """EPL's scripts cut inside model code so: a default for the first layers, another one for the next."""
    for _ in range(3):
        wh.set_default_strategy(wh.replicate(device_count=1))
        an_op()
    assert len(request(FOUR).stages) == 3


def test_a_default_strategy_alone_is_no_stage() -> None:
    wh.set_default_strategy(wh.replicate(device_count=1))
    an_op()
    assert request(FOUR).stages == ()


# -- pipelines that cannot be run --------------------------------------------------------------------------------------


def train(x: Any, loss: Any) -> None:
    """One step of gradient descent on a batch of eight."""
    op = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    run(op, {x: np.ones([8, 4], np.float32)})


def run(op: Any, feeds: dict[Any, Any] | None = None) -> None:
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(op, feeds)


def batch() -> Any:
    return tf.placeholder(tf.float32, [None, 4], "batch")


def here(error: Exception) -> list[str]:
    """The lines of this file that a message names."""
    return re.findall(rf"{re.escape(__file__)}:\d+", str(error))


def test_stages_out_of_order_name_scopes_ops_and_lines() -> None:
    x = batch()
    with wh.pipeline(num_micro_batch=2):
        first, second = wh.stage(name="first"), wh.stage(name="second")
        with first:
            tf.identity(x)
        with second:
            hidden = tf.layers.dense(x, 3, name="early")
        with first:
            loss = tf.reduce_mean(tf.layers.dense(hidden, 1, name="late"))
    with pytest.raises(PlanError, match=r"stage 1 'second' .* is read by stage 0 'first'") as caught:
        train(x, loss)
    text = str(caught.value)
    assert "BiasAdd 'early/BiasAdd'" in text and "'late/MatMul'" in text
    assert len(here(caught.value)) >= 4 and caught.value.fix


def test_a_circle_of_stages_is_told() -> None:
    """A -> B -> A."""
    x = batch()
    with wh.pipeline(num_micro_batch=2):
        first, second = wh.stage(name="first"), wh.stage(name="second")
        with first:
            hidden = tf.layers.dense(x, 3)
        with second:
            hidden = tf.layers.dense(hidden, 3)
        with first:
            loss = tf.reduce_mean(tf.layers.dense(hidden, 1))
    with pytest.raises(PlanError, match="which reads from it in turn") as caught:
        train(x, loss)
    assert len(here(caught.value)) >= 4


def test_a_stage_without_a_path_to_the_loss_is_told() -> None:
    x = batch()
    with wh.pipeline(num_micro_batch=2):
        with wh.stage():
            hidden = tf.layers.dense(x, 3)
            loss = tf.reduce_mean(hidden)
        with wh.stage(name="aside"):
            tf.layers.dense(hidden, 1, name="unused")
    with pytest.raises(PlanError, match=r"stage 1 'aside' .* takes no part in training: its ops \(.*unused/") as caught:
        train(x, loss)
    assert len(here(caught.value)) >= 2


def test_a_stage_of_nothing_trainable_trains() -> None:
    x = batch()
    with wh.pipeline(num_micro_batch=2):
        with wh.stage():
            hidden = tf.layers.dense(x, 3)
        with wh.stage(name="middle"):
            hidden = tf.tanh(hidden, name="only")
        with wh.stage():
            loss = tf.reduce_mean(tf.layers.dense(hidden, 1))
    train(x, loss)


def test_more_stages_than_devices_are_told() -> None:
    x = hidden = batch()
    with wh.pipeline(num_micro_batch=2):
        for _ in range(5):
            with wh.stage():
                hidden = tf.layers.dense(hidden, 3)
    with pytest.raises(PlanError, match="a pipeline of 5 stages needs 5 devices, and there are 4") as caught:
        train(x, tf.reduce_mean(hidden))
    assert here(caught.value) and "--devices 5" in str(caught.value)


def test_interleaved_stages_that_do_not_fit_are_told() -> None:
    x = hidden = batch()
    with wh.pipeline(num_micro_batch=2, strategy="Interleaved"):
        for _ in range(6):
            with wh.stage():
                hidden = tf.layers.dense(hidden, 3)
    with pytest.raises(ScheduleError, match="6 stages cannot be dealt to 4 devices"):
        train(x, tf.reduce_mean(hidden))


def test_replicas_that_devices_cannot_share_are_told() -> None:
    x = hidden = batch()
    with wh.replica(), wh.pipeline(num_micro_batch=2):
        for _ in range(3):
            with wh.stage():
                hidden = tf.layers.dense(hidden, 3)
    with pytest.raises(PlanError, match="replicas of 3 devices each cannot use up 4 devices") as caught:
        train(x, tf.reduce_mean(hidden))
    assert here(caught.value)


def test_micro_batches_that_cannot_be_cut_are_told() -> None:
    """The data are a constant of the graph."""
    x = tf.constant(np.ones([4, 4], np.float32))
    with wh.pipeline(num_micro_batch=2):
        with wh.stage(name="first"):
            hidden = tf.layers.dense(x, 3)
        with wh.stage(name="second"):
            loss = tf.reduce_mean(tf.layers.dense(hidden, 1))
    with pytest.raises(PlanError, match="the batch cannot be cut into 2 micro-batches for stage 0 'first'") as caught:
        run(tf.train.GradientDescentOptimizer(0.1).minimize(loss))
    assert "stage 1 'second'" in str(caught.value) and here(caught.value) and caught.value.fix


def test_ops_that_keep_the_batch_whole_are_named() -> None:
    x = batch()
    with wh.pipeline(num_micro_batch=2):
        with wh.stage():
            pairs = tf.matmul(x, x, transpose_b=True)
            whole = tf.reduce_sum(tf.linalg.inv(pairs + tf.eye(tf.shape(x)[0]), name="inverse"), 1, keepdims=True)
        with wh.stage():
            hidden = tf.layers.dense(whole, 8, name="wide")
        with wh.stage():
            loss = tf.reduce_mean(tf.square(tf.layers.dense(hidden, 1)))
    with pytest.raises(PlanError, match=r"cannot be cut into 2 micro-batches") as caught:
        train(x, loss)
    assert here(caught.value)


def test_a_variable_that_two_stages_write_is_told() -> None:
    x = batch()
    with wh.pipeline(num_micro_batch=2):
        with wh.stage():
            hidden = tf.layers.dense(x, 3)
            count = tf.get_variable("count", [], initializer=tf.zeros_initializer(), trainable=False)
            first = count.assign_add(tf.reduce_sum(hidden), name="first_write")
        with wh.stage():
            hidden = tf.layers.dense(hidden, 3)
            second = count.assign_add(tf.reduce_sum(hidden), name="second_write")
    loss = tf.reduce_mean(hidden)
    with tf.control_dependencies([first, second]):
        loss = tf.identity(loss)
    with pytest.raises(PlanError, match="the variable 'count' is written by two stages") as caught:
        train(x, loss)
    text = str(caught.value)
    assert "'first_write' at" in text and "'second_write' at" in text and len(here(caught.value)) >= 3


def test_a_pipeline_without_gradients_that_updates_variables_is_told() -> None:
    x = batch()
    with wh.pipeline(num_micro_batch=2):
        with wh.stage():
            hidden = tf.layers.dense(x, 3, name="low")
        with wh.stage():
            hidden = tf.layers.dense(hidden, 3, name="high")
    kernel = tf.trainable_variables()[0]
    update = kernel.assign_sub(tf.reduce_mean(hidden) * tf.ones_like(kernel))
    with pytest.raises(PlanError, match=r"the run updates \w+ 'low/kernel' at .*graph has no gradients") as caught:
        run(update, {x: np.ones([8, 4], np.float32)})
    assert len(here(caught.value)) >= 2 and "tf.gradients" in str(caught.value)


def test_a_pipeline_without_gradients_evaluates() -> None:
    x = batch()
    with wh.pipeline(num_micro_batch=2):
        with wh.stage():
            hidden = tf.layers.dense(x, 3)
        with wh.stage():
            hidden = tf.layers.dense(hidden, 3)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert sess.run(hidden, {x: np.ones([8, 4], np.float32)}).shape == (8, 3)
