"""The comparison of whole and cut gradients before the first update."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.annotations.graphs import new_graph
from whale.cluster import Cluster
from whale.config import Config
from whale.ir.placement import REPLICATED
from whale.planner.witness import Witness
from whale.runtime.activation import Activation, activate
from whale.runtime.dynamic_check import compare, size_of_sum
from whale.runtime.options import Options
from whale.sharding import propagate


def options(mode: str = "on", devices: int = 2) -> Options:
    return Options(cluster=Cluster.local(devices), batch="global", config=Config({"check.mode": mode}), quiet=True)


def dense(x: tf.Tensor, units: int, name: str) -> tf.Tensor:
    kernel = tf.get_variable(f"{name}/kernel", [x.shape[1], units], initializer=tf.glorot_uniform_initializer())
    return tf.nn.bias_add(tf.matmul(x, kernel), tf.get_variable(f"{name}/bias", [units]))


def train(rows: int = 24) -> list[Any]:
    """Trains on an iterator with dropout to the end; losses and labels of each step, then variables."""
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.set_random_seed(2)
        random = np.random.RandomState(1)
        data = random.randn(rows, 4).astype(np.float32), random.randint(0, 3, rows)
        x, y = tf.data.make_one_shot_iterator(tf.data.Dataset.from_tensor_slices(data).batch(7)).get_next()
        hidden = tf.nn.dropout(dense(x, 5, "hidden"), rate=0.3)
        loss = tf.losses.sparse_softmax_cross_entropy(y, dense(hidden, 3, "logits"))
        step = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
        sess.run(tf.global_variables_initializer())
        found: list[Any] = []
        while True:
            try:
                found.append(sess.run([loss, y, step])[:2])
            except tf.errors.OutOfRangeError:
                return [*found, sess.run(tf.trainable_variables())]


def verdicts(activation: Activation) -> list[str]:
    said = (line for report in activation.reports for line in (*report.lines, report.reason))
    return [line for line in said if line.startswith(("checked", "not checked", "the check"))]


def equal(left: list[Any], right: list[Any]) -> None:
    assert len(left) == len(right)
    for a, b in zip(left, right):
        for x, y in zip(a, b):
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["on", "auto", "off"])
def test_nothing_is_consumed_by_it(mode: str) -> None:
    """Every batch is trained on once and every random number is used once, as on one device."""
    expected = train()
    with activate(options(mode)) as activation:
        actual = train()
    equal(expected, actual)
    said = verdicts(activation)
    assert not said if mode == "off" else "4 tensors that updates read agree" in said[0]


def sample() -> list[list[Any]]:
    """What four steps draw whose random ops take their parameters from the batch."""
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.set_random_seed(4)
        x, ids = tf.placeholder(tf.float32, [6]), tf.placeholder(tf.int64, [6, 1])
        w = tf.get_variable("w", [9], initializer=tf.ones_initializer())
        candidates, _, _ = tf.random.log_uniform_candidate_sampler(ids, 1, 3, True, 9)
        noise = tf.random_gamma([], alpha=1.0 + tf.square(x))
        hidden = tf.tanh(dense(x[:, None] * tf.ones([1, 30]), 40, "hidden"))
        loss = tf.reduce_mean(noise * tf.reduce_sum(hidden, 1) * tf.gather(w, tf.squeeze(ids, 1)))
        loss += tf.reduce_sum(tf.gather(w, candidates))
        with tf.control_dependencies([loss]):  # whose last gather no gradient waits for
            step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        sess.run(tf.global_variables_initializer())
        feeds = {x: np.arange(6) / 3.0, ids: np.arange(6)[:, None]}
        return [sess.run([candidates, noise, loss, step], feeds)[:3] for _ in range(4)]


def test_random_streams_go_on_where_the_check_left_them() -> None:
    expected = sample()
    with activate(options()) as activation:
        actual = sample()
    equal(expected, actual)
    assert "agree" in verdicts(activation)[0]


def break_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients of biases are too large: every copy sums over the whole batch, and the copies' sums are added up."""
    right = propagate.RULES["BiasAddGrad"]

    def wrong(call: Any) -> Any:
        return dataclasses.replace(right(call), wants=(REPLICATED,))

    monkeypatch.setitem(propagate.RULES, "BiasAddGrad", wrong)


def test_a_wrong_rule_is_refuted_and_the_run_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = train()
    break_a_rule(monkeypatch)
    with activate(options("off")):
        unchecked = train()
    assert not np.allclose(unchecked[-1][1], expected[-1][1], rtol=1e-3), "the fault is one that matters"
    with activate(options()) as activation:
        actual = train()
    equal(expected[:1], actual[:1])
    for a, b in zip(expected[:-1], actual[:-1]):
        np.testing.assert_array_equal(a[1], b[1])
    (said,) = verdicts(activation)
    assert said.startswith("the check before the first update failed: '")
    assert "bias" in said
    assert [r.cut for r in activation.reports if said in (r.reason, *r.lines)] == [False]


def train_with_summaries() -> list[Any]:
    """Trains, and fetches more in some steps than in others."""
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [None, 4])
        loss = tf.reduce_mean(tf.square(dense(x, 3, "layer")))
        step, norm = tf.train.GradientDescentOptimizer(0.1).minimize(loss), tf.norm(x)
        sess.run([v.initializer for v in tf.global_variables()])
        sess.run([v.assign(tf.fill(v.shape, 0.5)) for v in tf.trainable_variables()])
        rows = np.random.RandomState(3).randn(8, 4)
        return [sess.run([step, loss, *more], {x: rows})[1:2] for more in ([], [norm], [], [norm, x[0]])]


def test_runs_that_update_alike_are_checked_once() -> None:
    expected = train_with_summaries()
    with activate(options()) as activation:
        actual = train_with_summaries()
    equal(expected, actual)
    assert len([report for report in activation.reports if report.trains and report.seconds]) == 3
    (said,) = verdicts(activation)
    assert said.startswith("checked: 2 tensors")


def test_what_one_run_refuted_is_cut_in_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = train_with_summaries()
    break_a_rule(monkeypatch)
    with activate(options()) as activation:
        actual = train_with_summaries()
    equal(expected, actual)
    first, second, third = (report.reason for report in activation.reports if report.trains and not report.cut)
    assert first.startswith("the check before the first update failed: '")
    assert second == third == f"as for a kind of run before, {first}"


def train_on_held(picked: str) -> list[Any]:
    """Trains on rows that the graph holds: losses of two steps."""
    with tf.Graph().as_default(), tf.Session() as sess:
        data = np.random.RandomState(1).randn(20, 4).astype(np.float32)
        move, counter = tf.no_op(), tf.Variable(0, trainable=False)
        if picked == "local":
            x = tf.Variable(data[:6], trainable=False, collections=[tf.GraphKeys.LOCAL_VARIABLES]).read_value()
        elif picked == "permuted":
            x = tf.gather(tf.constant(data), tf.random_shuffle(tf.range(20), seed=3)[:6])
        else:
            x = tf.slice(tf.constant(data), [counter.read_value() * 6, 0], [6, 4])
            with tf.control_dependencies([x]):
                move = tf.assign_add(counter, 1)
        loss = tf.reduce_mean(tf.square(dense(tf.tanh(dense(x, 32, "hidden")), 1, "out")))
        step = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        return [sess.run([loss, step, move])[:1] for _ in range(2)]


@pytest.mark.parametrize("picked", ["local", "permuted", "counted"])
def test_a_batch_that_the_graph_holds_is_checked(picked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the run that computes the gradients for the check does not move the counter on."""
    with activate(options()) as activation:
        train_on_held(picked)
    (said,) = verdicts(activation)
    assert said.startswith("checked: 4 tensors")
    right = propagate.RULES["BiasAddGrad"]
    monkeypatch.setitem(
        propagate.RULES, "BiasAddGrad", lambda call: dataclasses.replace(right(call), wants=(REPLICATED,))
    )
    with activate(options()) as activation:
        train_on_held(picked)
    (said,) = verdicts(activation)
    assert said.startswith("the check before the first update failed: '")


def train_cancelling(factor: float) -> list[Any]:
    """Trains nothing but a bias before a batch norm, whose gradient is zero but for rounding; values of it."""
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.set_random_seed(2)
        x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 5])
        hidden = dense(x, 5, "hidden")
        mean, variance = tf.nn.moments(hidden, [0])
        loss = tf.reduce_sum(y * (hidden - mean) * tf.rsqrt(variance + 1e-3))
        (bias,) = [v for v in tf.trainable_variables() if "bias" in v.name]
        step = bias.assign_sub(tf.gradients(loss, [bias])[0] * factor)
        sess.run(tf.global_variables_initializer())
        random = np.random.RandomState(1)
        batches = [{x: random.randn(64, 4), y: random.randn(64, 5)} for _ in range(2)]
        return [sess.run([loss, step], feeds)[:1] for feeds in batches] + [sess.run([bias])]


@pytest.mark.parametrize("factor", [1.0, 1e-4])
def test_a_gradient_that_cancels_is_measured_by_its_summands(factor: float) -> None:
    expected = train_cancelling(factor)
    with activate(options()) as activation:
        actual = train_cancelling(factor)
    for (a,), (b,) in zip(expected, actual):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-4)
    assert verdicts(activation)[0].startswith("checked: 1 tensor that updates read agree")


def test_compare_measures_a_sum_by_what_it_is_made_of() -> None:
    whole = np.float32([1e-6])
    assert compare(seen(1), [whole], [-whole]).mismatch
    assert not compare(seen(1), [whole], [-whole], [1.0]).mismatch
    assert compare(seen(1), [whole], [whole + np.float32(1e-4)], [1.0]).mismatch


def test_what_a_sum_is_made_of() -> None:
    summands = np.float32([[1, -2], [-1, 2]])
    assert size_of_sum(np.float32([0, 1]), np.float32([0, 1]), summands) == 3
    assert size_of_sum(np.float32([[0.0, 0.5]]), np.float32([0, 1]), summands) == 1.5
    assert size_of_sum(np.float32([0, 1]), np.float32(1), summands) == 0, "the sum was a factor"
    assert size_of_sum(np.float32([0]), np.float32([0]), np.float32([np.nan])) == 0


def test_what_cannot_be_had_without_a_side_effect_is_not_checked() -> None:
    """The gradient waits for an assign: to compute it once more would assign once more."""
    with activate(options()) as activation, tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [None, 3])
        seen = tf.get_variable("seen", [], initializer=tf.zeros_initializer())
        w = tf.get_variable("w", [3, 1], initializer=tf.ones_initializer())
        with tf.control_dependencies([seen.assign_add(1.0)]):
            loss = tf.reduce_mean(tf.square(tf.matmul(x, w)))
        step = w.assign_sub(0.1 * tf.gradients(loss, [w])[0])
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            sess.run(step, {x: np.ones((4, 3))})
        assert sess.run(seen) == 3
    assert verdicts(activation) == ["not checked: nothing that updates read can be computed without a side effect"]


@pytest.mark.parametrize("turns", [1, 10])
def test_what_draws_in_a_loop_is_not_drawn_once_more(turns: int) -> None:
    with activate(options()) as activation, new_graph(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [None, 3])
        w = tf.get_variable("w", [3, 3], initializer=tf.ones_initializer())

        def turn(i: tf.Tensor, value: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return i + 1, tf.matmul(tf.nn.dropout(value, rate=0.5), w)

        last = tf.while_loop(lambda i, _: i < 2, turn, [0, x], parallel_iterations=turns)[1]
        step = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(last))
        sess.run(tf.global_variables_initializer())
        sess.run(step, {x: np.ones((4, 3))})
    (said,) = verdicts(activation)
    assert said.startswith("not checked: RandomUniform 'while/dropout/random_uniform/RandomUniform' at ")
    assert said.endswith(" would draw for the check and again for the step")
    lines = [line for report in activation.reports if report.trains for line in report.lines]
    assert any("draws in a loop, whose turns take the numbers in no fixed order" in line for line in lines) == (
        turns > 1
    )


@pytest.mark.parametrize("guarded", [False, True], ids=["loop", "loop_in_a_conditional"])
def test_gradients_through_loops_are_checked(guarded: bool) -> None:
    """What leaves a loop is there to be fetched, unless a conditional is around the loop and has not ended."""
    with activate(options()) as activation, new_graph(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [None, 3])
        w = tf.get_variable("w", [3, 3], initializer=tf.ones_initializer())

        def repeated() -> tf.Tensor:
            return tf.while_loop(lambda i, _: i < 4, lambda i, v: (i + 1, tf.tanh(tf.matmul(v, w))), [0, x])[1]

        last = tf.cond(tf.shape(x)[0] > 1, repeated, lambda: x) if guarded else repeated()
        step = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(tf.square(last)))
        sess.run(tf.global_variables_initializer())
        sess.run(step, {x: np.random.RandomState(0).randn(6, 3)})
    (said,) = verdicts(activation)
    assert said.startswith("checked: 1 tensor that updates read agree whole and cut")


def test_a_loop_that_uses_what_was_assigned_is_not_run_once_more() -> None:
    """The assign reaches the loop's result through its body only, from one turn to the next."""
    with activate(options()) as activation, new_graph(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [None, 3])
        w = tf.get_variable("w", [3], initializer=tf.ones_initializer())
        count = tf.get_variable("count", [], initializer=tf.zeros_initializer())
        counted = tf.assign_add(count, 1.0)
        looped = tf.while_loop(lambda i, _: i < 4, lambda i, v: (i + 1, tf.tanh(v * counted)), [0, x])[1]
        step = tf.assign_add(w, tf.reduce_mean(looped, axis=0))
        sess.run(tf.global_variables_initializer())
        sess.run(step, {x: np.ones((6, 3))})
        assert sess.run(count) == 1
    assert verdicts(activation) == ["not checked: nothing that updates read can be computed without a side effect"]


def test_a_batch_in_a_loop_of_a_branch_not_taken_is_no_matter() -> None:
    """What an update reads inside the branch cannot be had when another branch is taken: it is left out."""
    with activate(options()) as activation, new_graph(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [None, 3])
        w = tf.get_variable("w", [3], initializer=tf.ones_initializer())

        def kept() -> tf.Tensor:
            looped = tf.while_loop(lambda i, _: i < 4, lambda i, v: (i + 1, tf.tanh(v)), [0, x])[1]
            return tf.assign_add(w, tf.reduce_mean(looped, axis=0))

        step = tf.cond(tf.shape(x)[0] > 100, kept, lambda: tf.identity(w))
        sess.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(sess.run(step, {x: np.ones((6, 3))}), np.ones(3))
    assert not [line for line in verdicts(activation) if "Error" in line]


def test_a_fetched_batch_is_the_one_trained_on() -> None:
    with activate(options()), tf.Graph().as_default(), tf.Session() as sess:
        data = tf.data.Dataset.range(12).batch(4)
        x = tf.data.make_one_shot_iterator(data).get_next()
        w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        loss = tf.reduce_sum(w * tf.cast(x, tf.float32))
        step = w.assign_sub(tf.gradients(loss, [w])[0])
        sess.run(tf.global_variables_initializer())
        drawn = [sess.run([x, step])[0].tolist() for _ in range(3)]
        assert drawn == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
        assert sess.run(w) == -66


def test_the_batch_after_the_checked_one_is_the_next() -> None:
    """With known shapes TensorFlow's optimizer leaves control edges on an iterator whose outputs are fed."""

    def losses() -> list[float]:
        with tf.Graph().as_default(), tf.Session() as sess:
            pixels = np.random.RandomState(0).randn(24, 6, 6, 2).astype(np.float32)
            data = tf.data.Dataset.from_tensor_slices(pixels).batch(4, drop_remainder=True)
            x = tf.data.make_one_shot_iterator(data).get_next()
            kernel = tf.get_variable("kernel", [3, 3, 2, 3], initializer=tf.ones_initializer())
            loss = tf.reduce_mean(tf.square(tf.nn.max_pool2d(tf.nn.conv2d(x, kernel, 1, "SAME"), 2, 2, "VALID")))
            step = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
            sess.run(tf.global_variables_initializer())
            return [sess.run([loss, step])[0] for _ in range(6)]

    expected = losses()
    with activate(options()) as activation:
        np.testing.assert_allclose(losses(), expected, rtol=1e-5)
    assert "agree" in verdicts(activation)[0]


def seen(count: int, coarse: bool = False) -> Witness:
    return Witness(tuple(f"g{i}:0" for i in range(count)), (), tuple(f"u{i}" for i in range(count)), coarse)


def test_compare_allows_for_rounding_only() -> None:
    whole = np.float32([1.0, -2.0])
    assert not compare(seen(1), [whole], [whole * np.float32(1 + 1e-6)]).mismatch
    verdict = compare(seen(1), [whole], [whole * 1.01])
    assert verdict.mismatch == "'g0:0', read by 'u0', differs by 1.0e-02 of its size"
    assert not compare(seen(1, coarse=True), [whole], [whole * 1.01]).mismatch
    assert compare(seen(1), [whole.astype(np.float64)], [whole * (1 + 1e-4)]).mismatch
    assert compare(seen(1), [whole], [whole[:1]]).mismatch == "'g0:0', read by 'u0', has shape (1,) instead of (2,)"


def test_compare_treats_equal_nans_as_equal_and_others_not() -> None:
    nan = np.float32([np.nan, 1.0])
    assert not compare(seen(1), [nan], [nan]).mismatch
    assert compare(seen(1), [np.float32([0.0, 1.0])], [nan]).mismatch


def test_gradients_that_cancel_have_no_size_of_their_own() -> None:
    large, rest = np.float32([1.0]), np.float32([1e-8])
    assert not compare(seen(2), [large, rest], [large, -rest]).mismatch
    assert compare(seen(2), [large, np.float32([1e-3])], [large, np.float32([2e-3])]).mismatch


def train_on_sizes(*sizes: int, ranked: bool = False) -> list[np.ndarray[Any, Any]]:
    """Trains on fed batches of some sizes, and what Python makes of each if wanted; the variables after every step."""
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.set_random_seed(2)
        x = tf.placeholder(tf.float32, [None, 4])
        seen = x
        if ranked:
            rank = tf.py_func(lambda rows: rows[:, :1].argsort(0).astype(np.float32), [x], tf.float32)
            rank.set_shape([None, 1])
            seen = tf.concat([x, rank], 1)
        loss = tf.reduce_mean(tf.square(dense(seen, 2, "output") - 1.0))
        step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        sess.run(tf.global_variables_initializer())
        random, found = np.random.RandomState(1), []
        for size in sizes:
            sess.run(step, {x: random.randn(size, 4)})
            found.append(sess.run(tf.trainable_variables()[1]))
        return found


def test_pieces_of_other_sizes_are_checked_as_well() -> None:
    """Equal pieces, unequal ones, and one of a single row: each once, whatever the sizes of the batches."""
    with activate(options()) as activation:
        train_on_sizes(8, 8, 6, 7, 9, 3, 2, 3, 8, 7)
    said = verdicts(activation) + [
        line for r in activation.reports for line in r.lines if line.startswith("with pieces of other sizes, checked")
    ]
    assert len(said) == 4  # (4, 4), (3, 4), (1, 2), (1, 1)
    assert sum(r.trains and "batch cut" in "".join(r.lines) for r in activation.reports) == 1


def test_pieces_of_another_plan_are_checked_with_what_it_draws() -> None:
    """Two samples on three devices are not cut, but what Python returns may be: a second plan for the same fetches."""
    sizes = (4, 1, 3, 2)
    expected = train_on_sizes(*sizes, ranked=True)
    with activate(options(devices=3)) as activation:
        actual = train_on_sizes(*sizes, ranked=True)
    equal(expected, actual)
    assert len({r.number for r in activation.reports if r.trains and r.cut}) == 2


def test_a_rule_that_is_wrong_for_single_rows_is_refuted_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of larger pieces passed; the word is withdrawn before the first update on a piece of one row."""
    from whale.rewriter import lower

    original = lower.Lowering.copy_with

    def wrong(self: Any, op: Any, replica: int, inputs: Any, variant: str = "") -> str:
        """Adds nothing where a piece has several rows, and its only row once more where it has one."""
        if op.type != "BiasAddGrad" or len(self.mesh.devices) == 1 or op.name not in self.divided:
            return original(self, op, replica, inputs, variant)
        place = self.place(op.inputs[0], replica)
        rows = self.builder.element(place, self.builder.shape(place, inputs[0], "float32"), 0, "int32")
        one = self.builder.const(place, 1, "int32")
        few = self.builder.cast(place, self.builder.binary(place, "FloorDiv", one, rows, "int32"), "int32", "float32")
        factor = self.builder.binary(place, "AddV2", few, self.builder.const(place, 1.0, "float32"), "float32")
        scaled = self.builder.binary(place, "Mul", inputs[0], factor, "float32")
        return original(self, op, replica, [scaled], variant)

    expected = train_on_sizes(8, 3, 8, 3)
    monkeypatch.setattr(lower.Lowering, "copy_with", wrong)
    with activate(options("off")):
        unchecked = train_on_sizes(8, 3, 8, 3)
    np.testing.assert_allclose(unchecked[0], expected[0], rtol=1e-5)
    assert not np.allclose(unchecked[1], expected[1], rtol=1e-3), "the fault is one that matters"
    with activate(options()) as activation:
        actual = train_on_sizes(8, 3, 8, 3)
    for one, other in zip(expected, actual):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    assert any("the check before the first update failed" in r.reason for r in activation.reports)
