"""Batch modes, shares and statistics that a user may choose, each against what one device computes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.numerics.process import start_tensorflow
from whale.cluster import Cluster
from whale.config import Config
from whale.errors import PlanError
from whale.runtime.activation import Activation, activate
from whale.runtime.options import Options
from whale.runtime.plan_file import read_plan_file

pytestmark = [pytest.mark.filterwarnings("ignore::UserWarning"), pytest.mark.filterwarnings("ignore::FutureWarning")]


def options(devices: int, **kwargs: Any) -> Options:
    """Options for CPU devices, plans kept off standard error."""
    return Options(cluster=Cluster.local(devices), quiet=True, **kwargs)


def iterate(batch: int, drop: bool, rows: int) -> list[list[np.ndarray[Any, Any]]]:
    """Trains on a one-shot iterator to its end; losses, activations and final variables."""
    tf = start_tensorflow()
    found = []
    with tf.Graph().as_default():
        tf.set_random_seed(3)
        random = np.random.RandomState(0)
        features, labels = random.randn(rows, 6).astype(np.float32), random.randint(0, 4, rows)
        dataset = tf.data.Dataset.from_tensor_slices((features, labels)).batch(batch, drop_remainder=drop)
        x, y = tf.data.make_one_shot_iterator(dataset).get_next()
        logits = tf.layers.dense(tf.layers.dense(x, 8, tf.nn.relu), 4)
        loss = tf.losses.sparse_softmax_cross_entropy(y, logits)
        train = tf.train.AdamOptimizer(0.01).minimize(loss)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for values in _until_the_end(tf, lambda: sess.run([loss, logits, train])[:2]):
                found.append(values)
            found.append(sess.run(tf.global_variables()))
    return found


def _until_the_end(tf: Any, step: Any) -> Iterator[Any]:
    while True:
        try:
            yield step()
        except tf.errors.OutOfRangeError:
            return


def same(expected: list[Any], actual: list[Any]) -> None:
    """Asserts equal lengths and values within float32 rounding."""
    assert len(actual) == len(expected)
    for left, right in zip(expected, actual):
        for a, b in zip(left, right):
            np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("devices", "batch", "drop", "rows"),
    [(2, 4, False, 28), (3, 4, False, 29), (3, 2, False, 28), (2, 4, True, 28), (3, 4, True, 30)],
)
def test_local_batches_equal_one_device_fed_all_of_them(devices: int, batch: int, drop: bool, rows: int) -> None:
    expected = iterate(batch * devices, drop, rows)
    with activate(options(devices, batch="local")) as activation:
        actual = iterate(batch, drop, rows)
    assert any(report.cut and report.trains for report in activation.reports)
    same(expected, actual)


def fed(rows: tuple[int, ...] = (8, 8, 3)) -> list[list[np.ndarray[Any, Any]]]:
    """Trains on fed batches; losses, activations and final variables."""
    tf = start_tensorflow()
    found = []
    with tf.Graph().as_default():
        tf.set_random_seed(3)
        random = np.random.RandomState(0)
        x, y = tf.placeholder(tf.float32, [None, 5]), tf.placeholder(tf.float32, [None, 1])
        image = tf.layers.conv2d(tf.reshape(x, [-1, 1, 5, 1]), 6, [1, 2], use_bias=False)
        hidden = tf.layers.flatten(tf.layers.batch_normalization(image, training=True))
        output = tf.layers.dense(tf.nn.relu(hidden), 1)
        loss = tf.reduce_mean(tf.square(output - y))
        train = tf.train.MomentumOptimizer(0.05, 0.9).minimize(loss)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for count in rows:
                values = {x: random.randn(count, 5), y: random.randn(count, 1)}
                found.append(sess.run([loss, output, train], values)[:2])
            found.append(sess.run(tf.trainable_variables()))
    return found


def wide() -> list[list[np.ndarray[Any, Any]]]:
    """Trains layers whose gradients are all-reduced one by one, and others that are packed; losses and variables."""
    tf = start_tensorflow()
    found = []
    with tf.Graph().as_default():
        tf.set_random_seed(3)
        random = np.random.RandomState(0)
        x = tf.placeholder(tf.float32, [None, 1024])
        hidden = tf.layers.dense(tf.layers.dense(x, 1050, tf.tanh), 1024, tf.tanh)
        output = tf.layers.dense(tf.cast(hidden, tf.float64), 3)
        loss = tf.reduce_mean(tf.square(output))
        train = tf.train.GradientDescentOptimizer(0.05).minimize(loss)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for _ in range(3):
                found.append(sess.run([loss, train], {x: random.randn(5, 1024)})[:1])
            found.append(sess.run(tf.trainable_variables()))
    return found


@pytest.mark.parametrize("devices", [2, 3])
def test_large_gradients_are_added_up_alone_and_equal_one_device(devices: int) -> None:
    expected = wide()
    with activate(options(devices)) as activation:
        actual = wide()
    text = next(r for r in activation.reports if r.cut).text()
    assert "6 tensors in 4 buckets" in text, "two kernels, small float32, small float64"
    same(expected, actual)


@pytest.mark.parametrize("shares", [(3, 1), (5, 2, 1), (0, 1), (1, 0, 4)])
def test_unequal_shares_equal_one_device(shares: tuple[int, ...], tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(f'{{"version": 1, "shares": {list(shares)}}}')
    expected = fed()
    with activate(options(len(shares), plan_file=read_plan_file(str(path)))) as activation:
        actual = fed()
    assert any(report.cut for report in activation.reports)
    same(expected, actual)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "not JSON"),
        ('{"version": 2, "shares": [1, 1]}', "version"),
        ('{"version": 1, "share": [1, 1]}', "unknown field 'share'"),
        ('{"version": 1, "shares": [1, "2"]}', "'shares' must be a list of int"),
        ('{"version": 1, "shares": [0, 0]}', "at least one"),
        ('{"version": 1, "shares": [1, 1, 1]}', "the plan is for"),
        ('{"version": 1, "shares": [1, 1], "devices": ["/device:GPU:0", "/device:GPU:1"]}', "the plan is for"),
    ],
)
def test_plan_files_that_do_not_fit_are_refused_before_anything_runs(text: str, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(PlanError, match=fault):
        activate(options(2, plan_file=read_plan_file(str(path))))


def test_statistics_of_each_replica_are_told_to_be_approximate() -> None:
    exact = fed((8, 8))
    with activate(options(2, config=Config({"batch.sync": False}))) as activation:
        rough = fed((8, 8))
    report = next(r for r in activation.reports if r.cut)
    assert report.trains
    assert not np.allclose(exact[1][0], rough[1][0], rtol=1e-5) or "approximate" in report.text()


def dropped(activation_options: Options | None) -> tuple[np.ndarray[Any, Any], Activation | None]:
    """One draw of a dropout mask over a batch of 40."""
    tf = start_tensorflow()

    def script() -> np.ndarray[Any, Any]:
        with tf.Graph().as_default():
            tf.set_random_seed(5)
            x = tf.placeholder(tf.float32, [None, 10])
            w = tf.get_variable("w", [10, 10], initializer=tf.zeros_initializer())
            mask = tf.nn.dropout(x, rate=0.5)
            loss = tf.reduce_sum(tf.matmul(mask, w))
            train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
            with tf.Session() as sess:
                sess.run(tf.global_variables_initializer())
                return sess.run([mask, train], {x: np.ones((40, 10))})[0]

    if activation_options is None:
        return script(), None
    with activate(activation_options) as activation:
        return script(), activation


def test_random_numbers_are_one_device_s_or_each_replica_s_own() -> None:
    plain, _ = dropped(None)
    exact, _ = dropped(options(2, config=Config({"random.mode": "exact"})))
    own, activation = dropped(options(2, config=Config({"random.mode": "independent"})))
    np.testing.assert_array_equal(exact, plain)
    assert not np.array_equal(own, plain)
    assert not np.array_equal(own[:20], own[20:])
    assert activation is not None
    assert "random.mode" in next(r for r in activation.reports if r.cut).text()


def centred(rows_of_a_call: int | None, activation_options: Options | None) -> tuple[Any, list[int]]:
    """Trains on draws that a Python function centres; the weights, and how many rows each of its calls was given.

    Args:
        rows_of_a_call: on one device: the rows that are centred together; None: all that the function is given.
        activation_options: Whale's; None: plain TensorFlow, which draws two batches as one.
    """
    tf = start_tensorflow()
    calls: list[int] = []

    def centre(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        calls.append(len(value))
        parts = np.split(value, len(value) // rows_of_a_call) if rows_of_a_call else [value]
        return np.concatenate([part - part.mean(0) for part in parts])

    def script() -> Any:
        rows = 3 if activation_options is not None else 6
        data = np.random.RandomState(0).randn(12, 4).astype(np.float32)
        with tf.Graph().as_default():
            x = tf.data.Dataset.from_tensor_slices(data).batch(rows, drop_remainder=True)
            x = tf.data.make_one_shot_iterator(x).get_next()
            made = tf.py_func(centre, [x], tf.float32)
            made.set_shape([rows, 4])
            w = tf.get_variable("w", [4, 1], initializer=tf.ones_initializer())
            loss = tf.reduce_mean(tf.square(tf.matmul(made, w) - x[:, :1]))
            train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
            with tf.Session() as sess:
                sess.run(tf.global_variables_initializer())
                for _ in range(2):
                    sess.run(train)
                return sess.run(w)

    if activation_options is None:
        return script(), calls
    with activate(activation_options):
        return script(), calls


def test_in_local_mode_every_copy_calls_a_python_function_with_its_own_draw() -> None:
    expected, _ = centred(3, None)
    actual, calls = centred(None, options(2, batch="local"))
    np.testing.assert_allclose(actual, expected, rtol=1e-5)
    assert calls == [3, 3, 3, 3]
