"""Ports of RNN cells against their equations in numpy, and the loops around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning")

BATCH, STEPS, DEPTH, UNITS = 2, 3, 4, 5


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def inputs(steps: int = STEPS) -> np.ndarray:
    return np.random.RandomState(0).randn(BATCH, steps, DEPTH).astype(np.float32)


def run_cell(make: Callable[[Any], Any]) -> tuple[np.ndarray, Any, dict[str, np.ndarray]]:
    """Outputs, last state and variables (by the last part of their name) of a cell over ``inputs()``."""
    import tensorflow as tf1

    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(3)
        outputs, state = tf.nn.dynamic_rnn(make(tf1.contrib.rnn), tf.constant(inputs()), dtype=tf.float32)
        session.run(tf.global_variables_initializer())
        for variable in tf.global_variables():
            if "bias" in variable.op.name or "diag" in variable.op.name:
                session.run(tf.assign(variable, tf.random_uniform(variable.shape, -1, 1, seed=7)))
        found, last = session.run([outputs, state])
        variables = {v.op.name.split("/", 2)[-1]: session.run(v) for v in tf.global_variables()}
    return found, last, variables


@pytest.mark.parametrize("peephole", [False, True])
def test_lstm_block_cell(peephole: bool) -> None:
    found, last, v = run_cell(lambda rnn: rnn.LSTMBlockCell(UNITS, use_peephole=peephole))
    c = h = np.zeros((BATCH, UNITS))
    for time in range(STEPS):
        i, j, f, o = np.split(np.concatenate([inputs()[:, time], h], 1) @ v["kernel"] + v["bias"], 4, axis=1)
        if peephole:
            i, f = i + c * v["w_i_diag"], f + c * v["w_f_diag"]
        c = sigmoid(i) * np.tanh(j) + sigmoid(f + 1) * c
        if peephole:
            o = o + c * v["w_o_diag"]
        h = sigmoid(o) * np.tanh(c)
        np.testing.assert_allclose(found[:, time], h, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(last.c, c, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("peephole", [False, True])
def test_the_fused_lstm_equals_the_cell(peephole: bool) -> None:
    from tensorflow.contrib import rnn

    lengths = np.array([3, 1], np.int32)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(3)
        by_time = tf.constant(inputs().transpose(1, 0, 2))
        fused = rnn.LSTMBlockFusedCell(UNITS, use_peephole=peephole)
        outputs, state = fused(by_time, dtype=tf.float32, sequence_length=lengths)
        whole, _ = fused(by_time, dtype=tf.float32)
        backwards, _ = rnn.TimeReversedFusedRNN(fused)(by_time, dtype=tf.float32)
        with tf.variable_scope("lstm_fused_cell", reuse=True):
            cell = rnn.LSTMBlockCell(UNITS, use_peephole=peephole)
            cell_state, expected = cell.zero_state(BATCH, tf.float32), []
            kernel, bias = tf.get_variable("kernel"), tf.get_variable("bias")
        with tf.variable_scope("cell"):
            for time in range(STEPS):
                output, cell_state = cell(by_time[time], cell_state)
                expected.append(output)
        named = {v.op.name: v for v in tf.global_variables()}
        session.run(tf.global_variables_initializer())
        session.run(tf.assign(named["cell/lstm_cell/kernel"], kernel))
        session.run(tf.assign(named["cell/lstm_cell/bias"], bias))
        for gate in "ifo" if peephole else "":
            source, target = (named[f"{scope}/w_{gate}_diag"] for scope in ("lstm_fused_cell", "cell/lstm_cell"))
            session.run(tf.assign(target, source))
        cut, last, full, steps, reverse = session.run([outputs, state, whole, expected, backwards])
        gradient = session.run(tf.gradients(tf.reduce_sum(outputs), kernel))[0]
    np.testing.assert_allclose(full, steps, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(cut[:, 0], np.array(steps)[:, 0], rtol=1e-4, atol=1e-6)
    assert not cut[1:, 1].any()
    np.testing.assert_allclose(last.h[1], steps[0][1], rtol=1e-4, atol=1e-6)
    assert reverse.shape == full.shape and np.abs(reverse - full).max() > 1e-3
    assert np.abs(gradient).max() > 0


def test_gru_block_cell() -> None:
    found, _, v = run_cell(lambda rnn: rnn.GRUBlockCellV2(UNITS))
    h = np.zeros((BATCH, UNITS))
    for time in range(STEPS):
        x = inputs()[:, time]
        gates = sigmoid(np.concatenate([x, h], 1) @ v["gates/kernel"] + v["gates/bias"])
        r, u = np.split(gates, 2, axis=1)
        candidate = np.tanh(np.concatenate([x, r * h], 1) @ v["candidate/kernel"] + v["candidate/bias"])
        h = u * h + (1 - u) * candidate
        np.testing.assert_allclose(found[:, time], h, rtol=1e-4, atol=1e-6)


def test_layer_norm_lstm() -> None:
    found, _, v = run_cell(lambda rnn: rnn.LayerNormBasicLSTMCell(UNITS, forget_bias=0.5))

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        scaled = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-12)
        return scaled * v[f"{name}/gamma"] + v[f"{name}/beta"]

    c = h = np.zeros((BATCH, UNITS))
    for time in range(STEPS):
        i, j, f, o = np.split(np.concatenate([inputs()[:, time], h], 1) @ v["kernel"], 4, axis=1)
        i, j, f, o = norm(i, "input"), norm(j, "transform"), norm(f, "forget"), norm(o, "output")
        c = norm(c * sigmoid(f + 0.5) + sigmoid(i) * np.tanh(j), "state")
        h = np.tanh(c) * sigmoid(o)
        np.testing.assert_allclose(found[:, time], h, rtol=1e-3, atol=1e-5)


def test_one_dim_conv_lstm_equals_an_lstm_when_the_kernel_has_one_tap() -> None:
    from tensorflow.contrib import rnn

    with tf.Graph().as_default(), tf.Session() as session:
        cell = rnn.Conv1DLSTMCell(input_shape=[STEPS, DEPTH], output_channels=UNITS, kernel_shape=[1])
        output, state = cell(tf.constant(inputs()), cell.zero_state(BATCH, tf.float32))
        session.run(tf.global_variables_initializer())
        found, last = session.run([output, state])
        kernel = session.run(tf.global_variables()[0])[0]
    i, j, f, o = np.split(inputs() @ kernel[:DEPTH], 4, axis=-1)
    del f
    c = sigmoid(i) * np.tanh(j)
    np.testing.assert_allclose(last.c, c, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found, np.tanh(c) * sigmoid(o), rtol=1e-4, atol=1e-6)


CELLS: dict[str, Callable[[Any], Any]] = {
    "input projection": lambda rnn: rnn.InputProjectionWrapper(rnn.GRUCell(UNITS), 3),
    "output projection": lambda rnn: rnn.OutputProjectionWrapper(rnn.BasicLSTMCell(UNITS), UNITS),
    "attention": lambda rnn: rnn.AttentionCellWrapper(rnn.BasicLSTMCell(UNITS), attn_length=2),
    "highway": lambda rnn: rnn.HighwayWrapper(rnn.BasicRNNCell(DEPTH)),
    "coupled": lambda rnn: rnn.CoupledInputForgetGateLSTMCell(UNITS, use_peepholes=True),
    "update gate": lambda rnn: rnn.UGRNNCell(UNITS),
    "independent": lambda rnn: rnn.IndRNNCell(UNITS),
    "simple": lambda rnn: rnn.SRUCell(UNITS),
    "searched": lambda rnn: rnn.NASCell(UNITS, use_bias=True),
    "compiled": lambda rnn: rnn.CompiledWrapper(rnn.GRUCell(UNITS)),
    "stacked": lambda rnn: rnn.MultiRNNCell([rnn.DropoutWrapper(rnn.LSTMCell(UNITS)), rnn.LSTMBlockCell(UNITS)]),
}


@pytest.mark.parametrize("name", CELLS)
def test_cells_run_in_a_loop_and_have_gradients(name: str) -> None:
    import tensorflow as tf1

    with tf.Graph().as_default(), tf.Session() as session:
        cell = CELLS[name](tf1.contrib.rnn)
        outputs, _ = tf.nn.dynamic_rnn(cell, tf.constant(inputs()), dtype=tf.float32, sequence_length=[3, 2])
        gradients = tf.gradients(tf.reduce_sum(outputs), tf.trainable_variables())
        assert gradients and None not in gradients
        session.run(tf.global_variables_initializer())
        values, found = session.run([gradients, outputs])
    assert found.shape == (BATCH, STEPS, cell.output_size)
    assert all(np.isfinite(np.asarray(value)).all() for value in values)


def test_phased_lstm_opens_and_closes() -> None:
    from tensorflow.contrib import rnn

    times = np.arange(STEPS, dtype=np.float32).reshape(1, STEPS, 1).repeat(BATCH, 0)
    with tf.Graph().as_default(), tf.Session() as session:
        cell = rnn.PhasedLSTMCell(UNITS)
        outputs, _ = tf.nn.dynamic_rnn(cell, (tf.constant(times), tf.constant(inputs())), dtype=tf.float32)
        session.run(tf.global_variables_initializer())
        assert np.isfinite(session.run(outputs)).all()


def test_stacked_bidirectional_layers() -> None:
    from tensorflow.contrib import rnn

    with tf.Graph().as_default(), tf.Session() as session:
        cells = [[rnn.GRUCell(UNITS) for _ in range(2)] for _ in range(4)]
        loop, forward, backward = rnn.stack_bidirectional_dynamic_rnn(
            cells[0], cells[1], tf.constant(inputs()), dtype=tf.float32, scope="loop"
        )
        unrolled, _, _ = rnn.stack_bidirectional_rnn(
            cells[2], cells[3], tf.unstack(tf.constant(inputs()), axis=1), dtype=tf.float32, scope="unrolled"
        )
        assert len(forward) == len(backward) == 2
        session.run(tf.global_variables_initializer())
        first, second = session.run([loop, unrolled])
        with pytest.raises(ValueError, match="one length"):
            rnn.stack_bidirectional_dynamic_rnn(cells[0], cells[1][:1], tf.constant(inputs()), dtype=tf.float32)
    assert first.shape == (BATCH, STEPS, 2 * UNITS) and len(second) == STEPS


def test_linear_is_a_sum_of_products() -> None:
    from tensorflow.contrib.rnn.python.ops.core_rnn_cell import _Linear, _linear

    a, b = np.ones((2, 3), np.float32), np.full((2, 1), 2, np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.variable_scope("once"):
            product = _linear([tf.constant(a), tf.constant(b)], 4, True)
        with tf.variable_scope("kept"):
            layer = _Linear([tf.constant(a)], 4, False)
            twice = layer([tf.constant(a)]) + layer([tf.constant(a)])
        session.run(tf.global_variables_initializer())
        found, doubled = session.run([product, twice])
        v = {variable.op.name: session.run(variable) for variable in tf.global_variables()}
        with pytest.raises(ValueError, match="known width"):
            _linear([tf.placeholder(tf.float32, [None, None])], 4, True)
    np.testing.assert_allclose(found, np.concatenate([a, b], 1) @ v["once/kernel"], rtol=1e-5)
    np.testing.assert_allclose(doubled, 2 * a @ v["kept/kernel"], rtol=1e-5)
