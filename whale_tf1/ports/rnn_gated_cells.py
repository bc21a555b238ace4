"""Recurrent cells of contrib without a memory of their own, from their equations.

Letters: x input, h output, r reset gate, u update gate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from whale_tf1.ports.rnn_cells import UnitCell
from whale_tf1.ports.rnn_linear import linear

__all__ = ["GRUBlockCell", "GRUBlockCellV2", "IndRNNCell", "SRUCell", "UGRNNCell"]


class GRUBlockCell(UnitCell):
    """The GRU (Cho et al., 2014): h = u * h + (1 - u) * tanh(W [x, r * h])."""

    def __init__(
        self,
        num_units: int | None = None,
        cell_size: int | None = None,
        reuse: bool | None = None,
        name: str = "gru_cell",
    ) -> None:
        units = num_units if num_units is not None else cell_size
        if units is None:
            raise ValueError("num_units is missing")
        super().__init__(units, reuse, name)

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step."""
        with tf.variable_scope("gates"):
            gates = linear([inputs, state], 2 * self._num_units, True, tf.ones_initializer())
        r, u = tf.split(tf.sigmoid(gates), 2, axis=1)
        with tf.variable_scope("candidate"):
            candidate = tf.tanh(linear([inputs, r * state], self._num_units, True))
        h = u * state + (1 - u) * candidate
        return h, h


class GRUBlockCellV2(GRUBlockCell):
    """The same cell under its later name."""


class UGRNNCell(UnitCell):
    """Update gate RNN (Collins et al., 2017): h = g * h + (1 - g) * c."""

    def __init__(
        self,
        num_units: int,
        initializer: Any = None,
        forget_bias: float = 1.0,
        activation: Callable[[Any], Any] = tf.tanh,
        reuse: bool | None = None,
    ) -> None:
        super().__init__(num_units, reuse)
        self._initializer = initializer
        self._forget_bias = forget_bias
        self._activation = activation

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step."""
        with tf.variable_scope(tf.get_variable_scope(), initializer=self._initializer):
            gate, candidate = tf.split(linear([inputs, state], 2 * self._num_units, True), 2, axis=1)
        keep = tf.sigmoid(gate + self._forget_bias)
        h = keep * state + (1 - keep) * self._activation(candidate)
        return h, h


class IndRNNCell(UnitCell):
    """Independent RNN (Li et al., 2018): every unit sees its own past only: h = act(W x + u * h + b)."""

    def __init__(
        self,
        num_units: int,
        activation: Callable[[Any], Any] | None = None,
        reuse: bool | None = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(num_units, reuse, name)
        self._activation = activation or tf.tanh

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step."""
        width, dtype = tf.dimension_value(inputs.shape[1]), inputs.dtype
        inward = tf.get_variable("kernel_w", [width, self._num_units], dtype)
        past = tf.get_variable(
            "kernel_u", [1, self._num_units], dtype, initializer=tf.random_uniform_initializer(-1, 1)
        )
        bias = tf.get_variable("bias", [self._num_units], dtype, initializer=tf.zeros_initializer())
        h = self._activation(tf.nn.bias_add(tf.matmul(inputs, inward) + state * past, bias))
        return h, h


class SRUCell(UnitCell):
    """Simple recurrent unit (Lei et al., 2017): the past enters by element-wise gates only."""

    def __init__(
        self,
        num_units: int,
        activation: Callable[[Any], Any] | None = None,
        reuse: bool | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(num_units, reuse, name)
        self._activation = activation or tf.tanh

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step."""
        width, dtype = tf.dimension_value(inputs.shape[1]), inputs.dtype
        kernel = tf.get_variable("kernel", [width, 4 * self._num_units], dtype)
        bias = tf.get_variable("bias", [2 * self._num_units], dtype, initializer=tf.zeros_initializer())
        x, f, r, carry = tf.split(tf.matmul(inputs, kernel), 4, axis=1)
        f, r = tf.split(tf.sigmoid(tf.concat([f, r], 1) + bias), 2, axis=1)
        c = f * state + (1 - f) * x
        return r * self._activation(c) + (1 - r) * carry, c
