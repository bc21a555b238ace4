"""LSTM cells of contrib, from their equations.

Letters: x input, h output, c memory, i/f/o input, forget and output gate, j new memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from whale_tf1.ports.rnn_linear import linear

__all__ = ["CoupledInputForgetGateLSTMCell", "LSTMBlockCell", "LayerNormBasicLSTMCell", "NASCell", "PhasedLSTMCell"]

LSTMStateTuple = tf.nn.rnn_cell.LSTMStateTuple


class UnitCell(tf.nn.rnn_cell.RNNCell):
    """A cell whose output, and state unless it is an LSTM, are vectors of ``num_units``."""

    def __init__(self, num_units: int, reuse: bool | None = None, name: str | None = None) -> None:
        super().__init__(_reuse=reuse, name=name)
        self._num_units = num_units

    @property
    def state_size(self) -> Any:
        """``num_units``."""
        return self._num_units

    @property
    def output_size(self) -> int:
        """``num_units``."""
        return self._num_units


class _LSTM(UnitCell):
    @property
    def state_size(self) -> Any:
        """Memory and output."""
        return LSTMStateTuple(self._num_units, self._num_units)


class LSTMBlockCell(_LSTM):
    """The basic LSTM with optional peepholes; ``cell_clip`` bounds the memory when positive."""

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: float | None = None,
        use_peephole: bool = False,
        dtype: Any = None,
        reuse: bool | None = None,
        name: str = "lstm_cell",
    ) -> None:
        super().__init__(num_units, reuse, name)
        self._forget_bias = forget_bias
        self._clip = cell_clip
        self._peephole = use_peephole

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step; variables ``kernel`` and ``bias`` hold i, j, f, o side by side."""
        c, h = state
        i, j, f, o = tf.split(linear([inputs, h], 4 * self._num_units, True), 4, axis=1)
        if self._peephole:
            i += c * self._diagonal("w_i_diag", c)
            f += c * self._diagonal("w_f_diag", c)
        c = tf.sigmoid(i) * tf.tanh(j) + tf.sigmoid(f + self._forget_bias) * c
        if self._clip is not None and self._clip > 0:
            c = tf.clip_by_value(c, -self._clip, self._clip)
        if self._peephole:
            o += c * self._diagonal("w_o_diag", c)
        h = tf.sigmoid(o) * tf.tanh(c)
        return h, LSTMStateTuple(c, h)

    def _diagonal(self, name: str, like: Any) -> Any:
        return tf.get_variable(name, [self._num_units], dtype=like.dtype)


class LayerNormBasicLSTMCell(_LSTM):
    """LSTM with layer normalisation of every gate and of the memory (Ba et al., 2016), and recurrent dropout."""

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        input_size: Any = None,
        activation: Callable[[Any], Any] = tf.tanh,
        layer_norm: bool = True,
        norm_gain: float = 1.0,
        norm_shift: float = 0.0,
        dropout_keep_prob: Any = 1.0,
        dropout_prob_seed: int | None = None,
        reuse: bool | None = None,
    ) -> None:
        super().__init__(num_units, reuse)
        self._forget_bias = forget_bias
        self._activation = activation
        self._layer_norm = layer_norm
        self._gain = norm_gain
        self._shift = norm_shift
        self._keep_prob = dropout_keep_prob
        self._seed = dropout_prob_seed

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step."""
        c, h = state
        gates = tf.split(linear([inputs, h], 4 * self._num_units, not self._layer_norm), 4, axis=1)
        i, j, f, o = (self._norm(name, gate) for name, gate in zip(("input", "transform", "forget", "output"), gates))
        new = self._activation(j)
        if not isinstance(self._keep_prob, float) or self._keep_prob < 1:
            new = tf.nn.dropout(new, keep_prob=self._keep_prob, seed=self._seed)
        c = self._norm("state", c * tf.sigmoid(f + self._forget_bias) + tf.sigmoid(i) * new)
        h = self._activation(c) * tf.sigmoid(o)
        return h, LSTMStateTuple(c, h)

    def _norm(self, name: str, value: Any) -> Any:
        if not self._layer_norm:
            return value
        with tf.variable_scope(name):
            gain = tf.get_variable(
                "gamma", [self._num_units], value.dtype, initializer=tf.constant_initializer(self._gain)
            )
            shift = tf.get_variable(
                "beta", [self._num_units], value.dtype, initializer=tf.constant_initializer(self._shift)
            )
        mean, variance = tf.nn.moments(value, [1], keep_dims=True)
        return tf.nn.batch_normalization(value, mean, variance, shift, gain, 1e-12)


class CoupledInputForgetGateLSTMCell(_LSTM):
    """LSTM whose input gate is one minus its forget gate (Greff et al., 2015)."""

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        initializer: Any = None,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Callable[[Any], Any] = tf.tanh,
        reuse: bool | None = None,
    ) -> None:
        if not state_is_tuple:
            raise ValueError("the state is a tuple: set state_is_tuple=True")
        super().__init__(num_units, reuse)
        self._peepholes = use_peepholes
        self._initializer = initializer
        self._forget_bias = forget_bias
        self._activation = activation

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step."""
        c, h = state
        with tf.variable_scope(tf.get_variable_scope(), initializer=self._initializer):
            j, f, o = tf.split(linear([inputs, h], 3 * self._num_units, True), 3, axis=1)
            if self._peepholes:
                f += c * tf.get_variable("w_f_diag", [self._num_units], dtype=c.dtype)
            keep = tf.sigmoid(f + self._forget_bias)
            c = keep * c + (1 - keep) * self._activation(j)
            if self._peepholes:
                o += c * tf.get_variable("w_o_diag", [self._num_units], dtype=c.dtype)
        h = tf.sigmoid(o) * self._activation(c)
        return h, LSTMStateTuple(c, h)


class NASCell(_LSTM):
    """The cell found by architecture search (Zoph and Le, 2016)."""

    def __init__(
        self, num_units: int, num_proj: int | None = None, use_bias: bool = False, reuse: bool | None = None
    ) -> None:
        if num_proj is not None:
            raise ValueError("num_proj is not supported: put an OutputProjectionWrapper around the cell")
        super().__init__(num_units, reuse)
        self._use_bias = use_bias

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step: a binary tree of eight gated sums of input and output."""
        c, h = state
        width, dtype = tf.dimension_value(inputs.shape[1]), inputs.dtype
        past = tf.get_variable("recurrent_kernel", [self._num_units, 8 * self._num_units], dtype)
        inward = tf.get_variable("kernel", [width, 8 * self._num_units], dtype)
        m = tf.matmul(h, past)
        if self._use_bias:
            start = tf.zeros_initializer()
            m = tf.nn.bias_add(m, tf.get_variable("bias", [8 * self._num_units], dtype, initializer=start))
        m = tf.split(m, 8, axis=1)
        x = tf.split(tf.matmul(inputs, inward), 8, axis=1)
        first = [
            tf.sigmoid(x[0] + m[0]),
            tf.nn.relu(x[1] + m[1]),
            tf.sigmoid(x[2] + m[2]),
            tf.nn.relu(x[3] * m[3]),
            tf.tanh(x[4] + m[4]),
            tf.sigmoid(x[5] + m[5]),
            tf.tanh(x[6] + m[6]),
            tf.sigmoid(x[7] + m[7]),
        ]
        second = [
            tf.tanh(first[0] * first[1]),
            tf.tanh(first[2] + first[3]),
            tf.tanh(first[4] * first[5]),
            tf.sigmoid(first[6] + first[7]),
        ]
        second[0] = tf.tanh(second[0] + c)
        c = second[0] * second[1]
        h = tf.tanh(c * tf.tanh(second[2] + second[3]))
        return h, LSTMStateTuple(c, h)


class PhasedLSTMCell(_LSTM):
    """LSTM that is open for a learned part of each period (Neil et al., 2016); inputs are ``(time, x)``."""

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        leak: float = 0.001,
        ratio_on: float = 0.1,
        trainable_ratio_on: bool = True,
        period_init_min: float = 1.0,
        period_init_max: float = 1000.0,
        reuse: bool | None = None,
    ) -> None:
        if use_peepholes:
            raise ValueError("use_peepholes is not supported")
        super().__init__(num_units, reuse)
        self._leak = leak
        self._ratio_on = ratio_on
        self._trainable_ratio = trainable_ratio_on
        self._periods = (period_init_min, period_init_max)

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step at the times ``[batch, 1]``."""
        time, x = inputs
        c, h = state
        with tf.variable_scope("mask_gates"):
            i, f = tf.split(tf.sigmoid(linear([x, h], 2 * self._num_units, True)), 2, axis=1)
        with tf.variable_scope("new_input"):
            new = tf.tanh(linear([x, h], self._num_units, True))
        with tf.variable_scope("output_gate"):
            o = tf.sigmoid(linear([x, h], self._num_units, True))
        fresh_c = f * c + i * new
        fresh_h = o * tf.tanh(fresh_c)
        openness = self._openness(tf.cast(time, x.dtype), x.dtype)
        c = openness * fresh_c + (1 - openness) * c
        h = openness * fresh_h + (1 - openness) * h
        return h, LSTMStateTuple(c, h)

    def _openness(self, time: Any, dtype: Any) -> Any:
        low, high = (math.log(value) for value in self._periods)
        units = self._num_units

        # Initializers, not tensors: the cell is called inside of a loop, where variables cannot start from its tensors.
        def any_period(shape: Any, dtype: Any = dtype, partition_info: Any = None) -> Any:
            return tf.exp(tf.random_uniform(shape, low, high, dtype))

        period = tf.get_variable("period", [units], dtype, initializer=any_period)

        def any_shift(shape: Any, dtype: Any = dtype, partition_info: Any = None) -> Any:
            return period.initialized_value() * tf.random_uniform(shape, dtype=dtype)

        shift = tf.get_variable("phase", [units], dtype, initializer=any_shift)
        start = tf.constant_initializer(self._ratio_on)
        ratio = tf.get_variable("ratio_on", [units], dtype, initializer=start, trainable=self._trainable_ratio)
        phase = tf.floormod(time - shift, period) / period
        rising, falling = 2 * phase / ratio, 2 - 2 * phase / ratio
        leaking = self._leak * phase
        return tf.where(phase < ratio / 2, rising, tf.where(phase < ratio, falling, leaking))
