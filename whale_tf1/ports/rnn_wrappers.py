"""Cells around a cell: projections, embeddings, highways, windows of attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from whale_tf1.ports.rnn_linear import linear

__all__ = [
    "AttentionCellWrapper",
    "CompiledWrapper",
    "EmbeddingWrapper",
    "HighwayWrapper",
    "InputProjectionWrapper",
    "OutputProjectionWrapper",
]


class _Wrapper(tf.nn.rnn_cell.RNNCell):
    """Sizes are the inner cell's unless a subclass says otherwise."""

    def __init__(self, cell: Any, reuse: bool | None = None) -> None:
        super().__init__(_reuse=reuse)
        self._cell = cell

    @property
    def state_size(self) -> Any:
        """The inner cell's."""
        return self._cell.state_size

    @property
    def output_size(self) -> Any:
        """The inner cell's."""
        return self._cell.output_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """The inner cell's."""
        return self._cell.zero_state(batch_size, dtype)


class InputProjectionWrapper(_Wrapper):
    """A linear map before the cell."""

    def __init__(
        self,
        cell: Any,
        num_proj: int,
        activation: Callable[[Any], Any] | None = None,
        input_size: Any = None,
        reuse: bool | None = None,
    ) -> None:
        super().__init__(cell, reuse)
        self._num_proj = num_proj
        self._activation = activation

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """Projects the inputs, then runs the cell."""
        projected = linear(inputs, self._num_proj, True)
        return self._cell(projected if self._activation is None else self._activation(projected), state)


class OutputProjectionWrapper(_Wrapper):
    """A linear map after the cell."""

    def __init__(
        self, cell: Any, output_size: int, activation: Callable[[Any], Any] | None = None, reuse: bool | None = None
    ) -> None:
        super().__init__(cell, reuse)
        self._projected_size = output_size
        self._activation = activation

    @property
    def output_size(self) -> int:
        """Size of the projection."""
        return self._projected_size

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """Runs the cell, then projects its output."""
        output, state = self._cell(inputs, state)
        projected = linear(output, self._projected_size, True)
        return (projected if self._activation is None else self._activation(projected)), state


class EmbeddingWrapper(_Wrapper):
    """Looks ids up in the variable ``embedding`` before the cell."""

    def __init__(
        self,
        cell: Any,
        embedding_classes: int,
        embedding_size: int,
        initializer: Any = None,
        reuse: bool | None = None,
    ) -> None:
        if embedding_classes <= 0 or embedding_size <= 0:
            raise ValueError(f"embedding of {embedding_classes} classes in {embedding_size} dims: both must be > 0")
        super().__init__(cell, reuse)
        self._classes = embedding_classes
        self._size = embedding_size
        self._initializer = initializer

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """Embeds ids ``[batch]`` or ``[batch, 1]``, then runs the cell."""
        with tf.device("/cpu:0"):
            # Embeddings start with variance one when nobody says otherwise.
            start = self._initializer or tf.get_variable_scope().initializer
            start = start or tf.random_uniform_initializer(-(3**0.5), 3**0.5)
            dtype = tf.nest.flatten(state)[0].dtype
            table = tf.get_variable("embedding", [self._classes, self._size], initializer=start, dtype=dtype)
            embedded = tf.nn.embedding_lookup(table, tf.reshape(inputs, [-1]))
        return self._cell(embedded, state)


class HighwayWrapper(_Wrapper):
    """Mixes a cell's output with its input by a learned gate: g * input + (1 - g) * output.

    ``couple_carry_transform_gates=False`` learns both weights.
    """

    def __init__(self, cell: Any, couple_carry_transform_gates: bool = True, carry_bias_init: float = 1.0) -> None:
        super().__init__(cell)
        self._coupled = couple_carry_transform_gates
        self._carry_bias = carry_bias_init

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """Runs the cell and mixes; input and output have one width."""
        output, state = self._cell(inputs, state)
        carry = self._gate("carry", inputs, self._carry_bias)
        transform = 1 - carry if self._coupled else self._gate("transform", inputs, -self._carry_bias)
        return carry * inputs + transform * output, state

    def _gate(self, name: str, inputs: Any, bias: float) -> Any:
        width = tf.dimension_value(inputs.shape[-1])
        weight = tf.get_variable(f"{name}_w", [width, width], inputs.dtype)
        start = tf.get_variable(f"{name}_b", [width], inputs.dtype, initializer=tf.constant_initializer(bias))
        return tf.sigmoid(tf.nn.xw_plus_b(inputs, weight, start))


class CompiledWrapper(_Wrapper):
    """A cell as it is: compiling single cells is left to XLA's own switches."""

    def __init__(self, cell: Any, compile_stateful: bool = False) -> None:
        super().__init__(cell)

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """Runs the cell."""
        return self._cell(inputs, state)


class AttentionCellWrapper(_Wrapper):
    """Attends to the last ``attn_length`` outputs of the cell (Bahdanau et al., 2014, over its own past)."""

    def __init__(
        self,
        cell: Any,
        attn_length: int,
        attn_size: int | None = None,
        attn_vec_size: int | None = None,
        input_size: int | None = None,
        state_is_tuple: bool = True,
        reuse: bool | None = None,
    ) -> None:
        if attn_length <= 0:
            raise ValueError(f"attn_length must be positive, not {attn_length}")
        if not state_is_tuple:
            raise ValueError("AttentionCellWrapper keeps its state as a tuple: set state_is_tuple=True")
        super().__init__(cell, reuse)
        self._attn_length = attn_length
        self._attn_size = attn_size or cell.output_size
        self._attn_vec_size = attn_vec_size or self._attn_size
        self._input_size = input_size

    @property
    def state_size(self) -> Any:
        """Cell state, last attention, window of past outputs."""
        return (self._cell.state_size, self._attn_size, self._attn_size * self._attn_length)

    @property
    def output_size(self) -> int:
        """Size of the attention."""
        return self._attn_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """Zeros of ``state_size``."""
        return tf.nn.rnn_cell.RNNCell.zero_state(self, batch_size, dtype)

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step of the cell, then of attention."""
        cell_state, attention, window = state
        window = tf.reshape(window, [-1, self._attn_length, self._attn_size])
        width = self._input_size or tf.dimension_value(inputs.shape[1])
        output, cell_state = self._cell(linear([inputs, attention], width, True), cell_state)
        state_parts = tf.nest.flatten(cell_state)
        attention, rest = self._attend(tf.concat(state_parts, 1), window)
        with tf.variable_scope("attn_output_projection"):
            output = linear([output, attention], self._attn_size, True)
        window = tf.concat([rest, tf.expand_dims(output, 1)], 1)
        return output, (cell_state, attention, tf.reshape(window, [-1, self._attn_length * self._attn_size]))

    def _attend(self, query: Any, window: Any) -> tuple[Any, Any]:
        with tf.variable_scope("attention"):
            kernel = tf.get_variable("attn_w", [1, 1, self._attn_size, self._attn_vec_size])
            direction = tf.get_variable("attn_v", [self._attn_vec_size])
            hidden = tf.tensordot(window, kernel[0, 0], [[2], [0]])
            score = tf.reduce_sum(
                direction * tf.tanh(hidden + tf.expand_dims(linear(query, self._attn_vec_size, True), 1)), [2]
            )
            weights = tf.expand_dims(tf.nn.softmax(score), 2)
            return tf.reduce_sum(weights * window, [1]), window[:, 1:]
