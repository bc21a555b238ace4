"""The cuDNN layers against their equations in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning")

STEPS, BATCH, DEPTH, UNITS = 4, 3, 5, 2


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def gru_step(v: dict[str, np.ndarray], x: np.ndarray, state: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    (h,) = state
    r, u = np.split(sigmoid(np.concatenate([x, h], 1) @ v["gates/kernel"] + v["gates/bias"]), 2, axis=1)
    of_input = x @ v["candidate/input_projection/kernel"] + v["candidate/input_projection/bias"]
    of_state = h @ v["candidate/hidden_projection/kernel"] + v["candidate/hidden_projection/bias"]
    return (u * h + (1 - u) * np.tanh(of_input + r * of_state),)


def lstm_step(v: dict[str, np.ndarray], x: np.ndarray, state: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    h, c = state
    i, j, f, o = np.split(np.concatenate([x, h], 1) @ v["kernel"] + v["bias"], 4, axis=1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(j)
    return sigmoid(o) * np.tanh(c), c


KINDS = {
    "CudnnGRU": ("cudnn_compatible_gru_cell", gru_step, 1),
    "CudnnLSTM": ("cudnn_compatible_lstm_cell", lstm_step, 2),
}


def sequence() -> np.ndarray:
    return np.random.RandomState(0).randn(STEPS, BATCH, DEPTH).astype(np.float32)


def run(kind: str, *, lengths: Any = None, state: Any = None, time_major: bool = True, **options: Any) -> Any:
    """Outputs, last states and variables by name of a layer over ``sequence()``."""
    import tensorflow as tf1

    with tf.Graph().as_default(), tf.Session() as session:
        draw = tf.random_uniform_initializer(-1, 1, seed=3)
        layer = getattr(tf1.contrib.cudnn_rnn, kind)(2, UNITS, bias_initializer=draw, **options)
        x = sequence() if time_major else sequence().transpose(1, 0, 2)
        found = layer(tf.constant(x), initial_state=state, sequence_lengths=lengths, time_major=time_major)
        again = layer(tf.constant(x), initial_state=state, sequence_lengths=lengths, time_major=time_major)
        session.run(tf.global_variables_initializer())
        (outputs, states), second = session.run([found, again])
        np.testing.assert_array_equal(outputs, second[0])
        assert len(layer.trainable_variables) == len(tf.trainable_variables())
        return outputs, states, {v.op.name: session.run(v) for v in tf.global_variables()}


def expected(kind: str, variables: dict[str, np.ndarray], directions: int, begin: Any = None) -> Any:
    """The same by the equations."""
    cell, step, parts = KINDS[kind]
    value, last = sequence(), []
    for layer in range(2):
        outputs = []
        for direction in range(directions):
            path = f"cell_{layer}/" + (f"bidirectional_rnn/{'fb'[direction]}w/" if directions == 2 else "") + f"{cell}/"
            own = {name.split(path)[1]: v for name, v in variables.items() if path in name}
            number = layer * directions + direction
            zero = np.zeros([BATCH, UNITS], np.float32)
            state = tuple(zero if begin is None else begin[part][number] for part in range(parts))
            found = []
            for x in value[::-1] if direction else value:
                state = step(own, x, state)
                found.append(state[0])
            outputs.append(np.stack(found[::-1] if direction else found))
            last.append(state)
        value = np.concatenate(outputs, 2)
    return value, tuple(np.stack(part) for part in zip(*last))


@pytest.mark.parametrize("direction", ["unidirectional", "bidirectional"])
@pytest.mark.parametrize("kind", KINDS)
def test_outputs_and_states_are_those_of_the_equations(kind: str, direction: str) -> None:
    directions = 2 if direction == "bidirectional" else 1
    draw = np.random.RandomState(1)
    begin = tuple(draw.randn(2 * directions, BATCH, UNITS).astype(np.float32) for _ in range(KINDS[kind][2]))
    outputs, states, variables = run(kind, direction=direction, state=begin)
    wanted, last = expected(kind, variables, directions, begin)
    np.testing.assert_allclose(outputs, wanted, atol=1e-5)
    np.testing.assert_allclose(states, last, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_batch_major_input_and_lengths(kind: str) -> None:
    outputs, states, variables = run(kind, time_major=False, lengths=[4, 2, 3])
    wanted, _ = expected(kind, variables, 1)
    for row, length in enumerate([4, 2, 3]):
        np.testing.assert_allclose(outputs[row, :length], wanted[:length, row], atol=1e-5)
        np.testing.assert_array_equal(outputs[row, length:], 0)
        np.testing.assert_allclose(states[0][1, row], wanted[length - 1, row], atol=1e-5)


def test_variables_have_the_names_of_the_compatible_cells() -> None:
    names = run("CudnnLSTM")[2]
    assert set(names) == {
        f"cudnn_lstm/rnn/multi_rnn_cell/cell_{layer}/cudnn_compatible_lstm_cell/{part}"
        for layer in range(2)
        for part in ("kernel", "bias")
    }


def test_wrong_arguments_are_told() -> None:
    import tensorflow as tf1

    with pytest.raises(ValueError, match="direction is 'both'"):
        tf1.contrib.cudnn_rnn.CudnnGRU(1, 2, direction="both")
    with pytest.raises(ValueError, match="input_mode is 'skip_input'"):
        tf1.contrib.cudnn_rnn.CudnnGRU(1, 2, input_mode="skip_input")
