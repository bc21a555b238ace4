"""The layers of contrib's ``cudnn_rnn``, computed by loops over ordinary cells: they run on every device.

Variables have the names and shapes that checkpoints of the cuDNN layers hold, which are those of the compatible cells.

Letters: x input, h output, r reset gate, u update gate.
"""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from whale_tf1.ports.rnn_cells import UnitCell

__all__ = ["CudnnCompatibleGRUCell", "CudnnCompatibleLSTMCell", "CudnnGRU", "CudnnLSTM"]

_DIRECTIONS = {"unidirectional": 1, "bidirectional": 2}


class CudnnCompatibleGRUCell(UnitCell):
    """The GRU of cuDNN: c = tanh(W x + b + r * (R h + d)), h = u * h + (1 - u) * c."""

    def __init__(
        self, num_units: int, reuse: bool | None = None, kernel_initializer: Any = None, bias_initializer: Any = None
    ) -> None:
        super().__init__(num_units, reuse, "cudnn_compatible_gru_cell")
        self._kernel_initializer = kernel_initializer
        self._bias_initializer = bias_initializer or tf.zeros_initializer()

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step."""
        with tf.variable_scope("gates"):
            gates = self._linear(tf.concat([inputs, state], 1), 2 * self._num_units)
        r, u = tf.split(tf.sigmoid(gates), 2, axis=1)
        with tf.variable_scope("candidate/input_projection"):
            of_input = self._linear(inputs, self._num_units)
        with tf.variable_scope("candidate/hidden_projection"):
            of_state = self._linear(state, self._num_units)
        h = u * state + (1 - u) * tf.tanh(of_input + r * of_state)
        return h, h

    def _linear(self, value: Any, units: int) -> Any:
        shape = [int(value.shape[-1]), units]
        kernel = tf.get_variable("kernel", shape, value.dtype, initializer=self._kernel_initializer)
        bias = tf.get_variable("bias", [units], value.dtype, initializer=self._bias_initializer)
        return tf.nn.bias_add(tf.matmul(value, kernel), bias)


class CudnnCompatibleLSTMCell(UnitCell):
    """The LSTM of cuDNN: no forget bias but the variable's; gates in the order input, candidate, forget, output."""

    def __init__(
        self, num_units: int, reuse: bool | None = None, kernel_initializer: Any = None, bias_initializer: Any = None
    ) -> None:
        super().__init__(num_units, reuse, "cudnn_compatible_lstm_cell")
        self._kernel_initializer = kernel_initializer
        self._bias_initializer = bias_initializer or tf.zeros_initializer()

    @property
    def state_size(self) -> Any:
        """Sizes of c and h."""
        return tf.nn.rnn_cell.LSTMStateTuple(self._num_units, self._num_units)

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step."""
        c, h = state
        both = tf.concat([inputs, h], 1)
        shape = [int(both.shape[-1]), 4 * self._num_units]
        kernel = tf.get_variable("kernel", shape, both.dtype, initializer=self._kernel_initializer)
        bias = tf.get_variable("bias", shape[1:], both.dtype, initializer=self._bias_initializer)
        i, j, f, o = tf.split(tf.nn.bias_add(tf.matmul(both, kernel), bias), 4, axis=1)
        c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(j)
        h = tf.sigmoid(o) * tf.tanh(c)
        return h, tf.nn.rnn_cell.LSTMStateTuple(c, h)


class _CudnnRNN:
    """Layers one above the other over time-major sequences; every call uses the same variables."""

    _cell: Any
    _default_name = ""

    def __init__(
        self,
        num_layers: int,
        num_units: int,
        input_mode: str = "linear_input",
        direction: str = "unidirectional",
        dropout: float = 0.0,
        seed: int | None = None,
        dtype: Any = tf.float32,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        name: str | None = None,
    ) -> None:
        """Arguments as in contrib.

        Raises:
            ValueError: a direction or input mode that there is not.
        """
        if direction not in _DIRECTIONS:
            raise ValueError(f"direction is {direction!r}, and can be {' or '.join(_DIRECTIONS)}")
        if input_mode not in ("linear_input", "auto_select"):
            raise ValueError(f"input_mode is {input_mode!r}: the port has 'linear_input' alone")
        self.num_layers, self.num_units, self.direction, self.dtype = num_layers, num_units, direction, dtype
        self.num_dirs = _DIRECTIONS[direction]
        self.input_mode = input_mode
        self._dropout, self._seed, self._name = dropout, seed, name
        self._initializers = kernel_initializer or tf.glorot_uniform_initializer(), bias_initializer
        self._scope: Any = None

    def __call__(
        self,
        inputs: Any,
        initial_state: Any = None,
        sequence_lengths: Any = None,
        time_major: bool = True,
        training: bool = True,
    ) -> tuple[Any, Any]:
        """Runs the sequence.

        Args:
            inputs: float [time, batch, depth], or [batch, time, depth] where not ``time_major``.
            initial_state: a tuple of [layers * directions, batch, units], or None for zeros; as the result.
            sequence_lengths: int [batch]; None where all are as long as the input.
            time_major: the order of dims of inputs and outputs.
            training: whether there is dropout between layers.

        Returns:
            Outputs with units * directions in the last dim, and the last states: ``(h, c)`` of an LSTM, ``(h,)`` of a
            GRU, each [layers * directions, batch, units].
        """
        inputs = tf.convert_to_tensor(inputs, self.dtype)
        value = inputs if time_major else tf.transpose(inputs, [1, 0, 2])
        begin = None if initial_state is None else [tf.unstack(part) for part in initial_state]
        scope = tf.variable_scope(self._name, self._default_name) if self._scope is None else self._again()
        last: list[Any] = []
        with scope as entered:
            self._scope = entered
            for layer in range(self.num_layers):
                if layer and self._dropout and training:
                    value = tf.nn.dropout(value, rate=self._dropout, seed=self._seed)
                value, states = self._layer(layer, value, begin, sequence_lengths)
                last += states
        states = tuple(tf.stack(part) for part in zip(*last))
        return (value if time_major else tf.transpose(value, [1, 0, 2])), states

    @property
    def trainable_variables(self) -> list[Any]:
        """The variables, once it was called."""
        return [] if self._scope is None else self._scope.trainable_variables()

    variables = trainable_weights = weights = trainable_variables

    def _again(self) -> Any:
        return tf.variable_scope(self._scope, reuse=True, auxiliary_name_scope=False)

    def _layer(self, layer: int, value: Any, begin: Any, lengths: Any) -> tuple[Any, list[tuple[Any, ...]]]:
        """One layer in its directions: outputs, and the last states by direction."""
        outputs: list[Any] = []
        states: list[tuple[Any, ...]] = []
        for direction in range(self.num_dirs):
            kernel, bias = self._initializers
            cell = self._cell(self.num_units, kernel_initializer=kernel, bias_initializer=bias)
            state = None if begin is None else self._state([part[layer * self.num_dirs + direction] for part in begin])
            backwards = direction == 1
            with tf.variable_scope(self._path(layer, direction)):
                turned = _turned(value, lengths) if backwards else value
                found, end = tf.nn.dynamic_rnn(
                    cell, turned, lengths, state, self.dtype, time_major=True, scope=tf.get_variable_scope()
                )
            outputs.append(_turned(found, lengths) if backwards else found)
            states.append(self._parts(end))
        return (outputs[0] if self.num_dirs == 1 else tf.concat(outputs, 2)), states

    def _path(self, layer: int, direction: int) -> str:
        if self.num_dirs == 1:
            return f"rnn/multi_rnn_cell/cell_{layer}"
        return f"stack_bidirectional_rnn/cell_{layer}/bidirectional_rnn/{('fw', 'bw')[direction]}"

    def _state(self, parts: list[Any]) -> Any:
        """A cell's state from the parts ``(h, c)`` or ``(h,)``."""
        return parts[0] if len(parts) == 1 else tf.nn.rnn_cell.LSTMStateTuple(parts[1], parts[0])

    def _parts(self, state: Any) -> tuple[Any, ...]:
        """The parts of a cell's state."""
        return (state.h, state.c) if isinstance(state, tf.nn.rnn_cell.LSTMStateTuple) else (state,)


class CudnnGRU(_CudnnRNN):
    """GRU layers."""

    _cell = CudnnCompatibleGRUCell
    _default_name = "cudnn_gru"


class CudnnLSTM(_CudnnRNN):
    """LSTM layers."""

    _cell = CudnnCompatibleLSTMCell
    _default_name = "cudnn_lstm"


def _turned(value: Any, lengths: Any) -> Any:
    """A time-major sequence back to front."""
    return tf.reverse(value, [0]) if lengths is None else tf.reverse_sequence(value, lengths, 0, 1)
