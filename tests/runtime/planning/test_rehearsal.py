"""Scripts run up to their first training step: nothing is trained, nothing is initialised that need not be."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from whale.cluster import Cluster
from whale.runtime.options import Options
from whale.runtime.planning.rehearsal import Met, Rehearsal, TrainingStepMet

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

ROWS = np.arange(12, dtype=np.float32).reshape(6, 2)


def rehearse(script: Callable[[], Any]) -> Met | None:
    """What a script meets; it must be ended there."""
    rehearsal = Rehearsal(Options(cluster=Cluster.local(2)), lambda: None)
    try:
        with tf.Graph().as_default():
            script()
    except TrainingStepMet:
        assert rehearsal.met is not None
    finally:
        rehearsal.close()
    return rehearsal.met


def model(rows: Any) -> tuple[Any, Any]:
    """A loss and its training step."""
    loss = tf.reduce_mean(tf.square(tf.layers.dense(rows, 3)))
    return loss, tf.train.AdamOptimizer(0.1).minimize(loss, tf.train.get_or_create_global_step())


def refuse(*_: Any) -> Any:
    raise AssertionError("it ran")


def test_a_session_that_feeds() -> None:
    def script() -> None:
        rows = tf.placeholder(tf.float32, [None, 2])
        loss, step = model(rows)
        with tf.control_dependencies([tf.py_func(refuse, [], [])]):
            initialise = tf.group(tf.global_variables_initializer())
        with tf.Session() as sess:
            sess.run(initialise)
            sess.run([loss, step], {rows: ROWS})

    met = rehearse(script)
    assert met is not None
    assert met.run.shapes == {"Placeholder:0": (6, 2)}
    assert met.run.signature.targets == ("Adam",)


def test_a_value_that_is_fetched_before_is_the_true_one() -> None:
    def script() -> None:
        rows = tf.placeholder(tf.float32, [None, 2])
        _, step = model(rows)
        bias = tf.global_variables()[1]
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            sess.run(bias.assign([1.0, 2.0, 3.0]).op)
            seen.append(sess.run(bias))
            sess.run(step, {rows: ROWS})

    seen: list[Any] = []
    assert rehearse(script) is not None
    np.testing.assert_array_equal(seen[0], [1, 2, 3])


def test_a_monitored_session_leaves_nothing_behind(tmp_path: Path) -> None:
    def script() -> None:
        dataset = tf.data.Dataset.from_tensor_slices(ROWS).batch(2)
        _, step = model(tf.data.make_one_shot_iterator(dataset).get_next())
        initialised = tf.train.Scaffold(init_fn=lambda _, session: made.append(session))
        with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path), scaffold=initialised) as sess:
            sess.run(step)

    made: list[Any] = []
    met = rehearse(script)
    assert met is not None and made
    assert not [path for path in tmp_path.iterdir() if "ckpt" in path.name or path.name == "checkpoint"]


def test_a_restored_model_and_an_initialisable_iterator(tmp_path: Path) -> None:
    path = str(tmp_path / "model")

    def script() -> None:
        iterator = tf.data.make_initializable_iterator(tf.data.Dataset.from_tensor_slices(ROWS).batch(2))
        _, step = model(iterator.get_next())
        saver = tf.train.Saver()
        with tf.Session() as sess:
            if not (tmp_path / "model.index").exists():
                sess.run(tf.global_variables_initializer())
                saver.save(sess, path)
            saver.restore(sess, path)
            sess.run(iterator.initializer)
            sess.run(step)

    with tf.Graph().as_default():
        script()
    assert rehearse(script) is not None


@pytest.mark.parametrize("look", [False, True])
def test_queues_are_filled_where_the_script_looks_into_them(look: bool) -> None:
    def script() -> None:
        (row,) = tf.train.slice_input_producer([ROWS], shuffle=False)
        batch = tf.train.batch([row], 3)
        _, step = model(batch)
        with tf.Session() as sess:
            sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            coordinator = tf.train.Coordinator()
            threads = tf.train.start_queue_runners(sess, coordinator)
            if look:
                seen.append(sess.run(batch))
            try:
                sess.run(step)
            finally:
                coordinator.request_stop()
                coordinator.join(threads, ignore_live_threads=True)

    seen: list[Any] = []
    assert rehearse(script) is not None
    assert len(seen) == look
    for rows in seen:
        np.testing.assert_array_equal(rows, ROWS[:3])


def test_gradients_that_a_script_adds_up_itself() -> None:
    def script() -> None:
        rows = tf.placeholder(tf.float32, [None, 2])
        weight = tf.get_variable("weight", [2, 3])
        total = tf.get_variable("total", [2, 3], trainable=False)
        (gradient,) = tf.gradients(tf.reduce_sum(tf.matmul(rows, weight)), weight)
        add, use = total.assign_add(gradient), weight.assign_sub(total)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            sess.run(add, {rows: ROWS})
            sess.run(use)

    met = rehearse(script)
    assert met is not None and met.run.shapes == {"Placeholder:0": (6, 2)}


@pytest.mark.parametrize("train", [False, True])
def test_keras_in_graph_mode(train: bool) -> None:
    def script() -> None:
        net = tf.keras.Sequential([tf.keras.layers.Dense(3, input_shape=(2,))])
        net.compile(tf.keras.optimizers.SGD(0.1), "mse")
        targets = np.zeros((6, 3), np.float32)
        if train:
            net.train_on_batch(ROWS, targets)
        else:
            net.evaluate(ROWS, targets, verbose=0)

    assert (rehearse(script) is not None) is train


def test_a_script_without_training_runs_to_its_end() -> None:
    def script() -> None:
        rows = tf.placeholder(tf.float32, [None, 2])
        loss, _ = model(rows)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            seen.append(sess.run(loss, {rows: ROWS}))

    seen: list[Any] = []
    assert rehearse(script) is None and seen


@pytest.mark.parametrize("in_a_thread", [False, True])
def test_a_script_that_cannot_be_ended_is_ended_with_its_process(
    in_a_thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[Any] = []

    def exit_process(status: int) -> None:
        ended.append(status)
        raise TrainingStepMet

    monkeypatch.setattr("whale.runtime.ending.os._exit", exit_process)
    rows = ROWS

    def steps(sess: tf.Session, step: Any, feed: Any) -> None:
        while not ended:
            try:
                sess.run(step, {feed: rows})
            except BaseException as error:
                caught.append(error)

    caught: list[BaseException] = []
    rehearsal = Rehearsal(Options(cluster=Cluster.local(2)), lambda: ended.append("answered"))
    try:
        with tf.Graph().as_default():
            feed = tf.placeholder(tf.float32, [None, 2])
            _, step = model(feed)
            with tf.Session() as sess:
                if in_a_thread:
                    thread = threading.Thread(target=steps, args=(sess, step, feed))
                    thread.start()
                    thread.join()
                else:
                    steps(sess, step, feed)
    finally:
        rehearsal.close()
    assert ended == ["answered", 0]
    assert len(caught) == (1 if in_a_thread else 3)
