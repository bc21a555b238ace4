"""Cells that run a whole time-major sequence at once."""

from __future__ import annotations

import abc
from typing import Any

import tensorflow.compat.v1 as tf

__all__ = ["FusedRNNCell", "FusedRNNCellAdaptor", "LSTMBlockFusedCell", "LSTMBlockWrapper", "TimeReversedFusedRNN"]


class FusedRNNCell(abc.ABC):
    """From time-major inputs ``[time, batch, depth]`` to ``(outputs, final state)``."""

    @abc.abstractmethod
    def __call__(
        self, inputs: Any, initial_state: Any = None, dtype: Any = None, sequence_length: Any = None, scope: Any = None
    ) -> tuple[Any, Any]:
        """Runs the sequence."""


class FusedRNNCellAdaptor(FusedRNNCell):
    """An ordinary cell, run by a loop or unrolled."""

    def __init__(self, cell: Any, use_dynamic_rnn: bool = False) -> None:
        self._cell = cell
        self._dynamic = use_dynamic_rnn

    def __call__(
        self, inputs: Any, initial_state: Any = None, dtype: Any = None, sequence_length: Any = None, scope: Any = None
    ) -> tuple[Any, Any]:
        """Runs the cell over the sequence; a list of inputs gives a list of outputs."""
        as_list = isinstance(inputs, list)
        arguments = {"initial_state": initial_state, "dtype": dtype, "sequence_length": sequence_length, "scope": scope}
        if self._dynamic:
            stacked = tf.stack(inputs) if as_list else inputs
            outputs, state = tf.nn.dynamic_rnn(self._cell, stacked, time_major=True, **arguments)
            return (tf.unstack(outputs) if as_list else outputs), state
        outputs, state = tf.nn.static_rnn(self._cell, inputs if as_list else tf.unstack(inputs), **arguments)
        return (outputs if as_list else tf.stack(outputs)), state


class TimeReversedFusedRNN(FusedRNNCell):
    """Runs another fused cell over the reversed sequence, and reverses its outputs back."""

    def __init__(self, cell: FusedRNNCell) -> None:
        self._cell = cell

    def __call__(
        self, inputs: Any, initial_state: Any = None, dtype: Any = None, sequence_length: Any = None, scope: Any = None
    ) -> tuple[Any, Any]:
        """Each sequence is reversed within its own length."""
        outputs, state = self._cell(
            _reverse(inputs, sequence_length), initial_state, dtype, sequence_length=sequence_length, scope=scope
        )
        return _reverse(outputs, sequence_length), state


class LSTMBlockWrapper(FusedRNNCell):
    """A fused LSTM: what subclasses share."""

    @property
    @abc.abstractmethod
    def num_units(self) -> int:
        """Number of units."""


class LSTMBlockFusedCell(LSTMBlockWrapper):
    """An LSTM whose whole sequence is one TensorFlow op (BlockLSTM)."""

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: float | None = None,
        use_peephole: bool = False,
        reuse: bool | None = None,
        dtype: Any = None,
        name: str = "lstm_fused_cell",
    ) -> None:
        self._num_units = num_units
        self._forget_bias = forget_bias
        # The op clips when the number is positive.
        self._clip = cell_clip if cell_clip is not None else -1.0
        self._peephole = use_peephole
        self._reuse = reuse
        self._name = name
        self._scope: Any = None

    @property
    def num_units(self) -> int:
        """Number of units."""
        return self._num_units

    def __call__(
        self, inputs: Any, initial_state: Any = None, dtype: Any = None, sequence_length: Any = None, scope: Any = None
    ) -> tuple[Any, Any]:
        """Runs the sequence; outputs and state of a sequence stop changing after its length.

        A second call uses the variables of the first.
        """
        as_list = isinstance(inputs, list)
        x = tf.stack(inputs) if as_list else tf.convert_to_tensor(inputs)
        if self._scope is not None:
            with tf.variable_scope(self._scope, reuse=True):
                outputs, state = self._run(x, initial_state, sequence_length)
        else:
            with tf.variable_scope(scope, default_name=self._name, reuse=self._reuse) as opened:
                self._scope = opened
                outputs, state = self._run(x, initial_state, sequence_length)
        return (tf.unstack(outputs) if as_list else outputs), state

    def _run(self, x: Any, initial_state: Any, sequence_length: Any) -> tuple[Any, Any]:
        steps, batch, units = tf.shape(x)[0], tf.shape(x)[1], self._num_units
        depth = tf.dimension_value(x.shape[2])
        kernel = tf.get_variable("kernel", [depth + units, 4 * units], x.dtype)
        bias = tf.get_variable("bias", [4 * units], x.dtype, initializer=tf.zeros_initializer())
        diagonals = [tf.zeros([units], x.dtype)] * 3
        if self._peephole:
            diagonals = [tf.get_variable(f"w_{gate}_diag", [units], x.dtype) for gate in "ifo"]
        if initial_state is None:
            zeros = tf.zeros(tf.stack([batch, units]), x.dtype)
            initial_state = (zeros, zeros)
        c, h = initial_state
        longest = tf.cast(steps if sequence_length is None else tf.reduce_max(sequence_length), tf.int64)
        _, cells, _, _, _, _, outputs = tf.raw_ops.BlockLSTM(
            seq_len_max=longest,
            x=x,
            cs_prev=c,
            h_prev=h,
            w=kernel,
            wci=diagonals[0],
            wcf=diagonals[1],
            wco=diagonals[2],
            b=bias,
            forget_bias=self._forget_bias,
            cell_clip=self._clip,
            use_peephole=self._peephole,
        )
        if sequence_length is None:
            return outputs, tf.nn.rnn_cell.LSTMStateTuple(cells[-1], outputs[-1])
        lengths = tf.cast(sequence_length, tf.int32)
        mask = tf.transpose(tf.sequence_mask(lengths, maxlen=steps, dtype=x.dtype))
        final = tf.nn.rnn_cell.LSTMStateTuple(_at(cells, c, lengths), _at(outputs, h, lengths))
        return outputs * tf.expand_dims(mask, 2), final


def _at(values: Any, first: Any, lengths: Any) -> Any:
    """The value after ``lengths`` steps of each row, from values after 1, 2, ... steps."""
    everything = tf.concat([tf.expand_dims(first, 0), values], axis=0)
    return tf.gather_nd(everything, tf.stack([lengths, tf.range(tf.shape(lengths)[0])], axis=1))


def _reverse(inputs: Any, sequence_length: Any) -> Any:
    if isinstance(inputs, list):
        return tf.unstack(_reverse(tf.stack(inputs), sequence_length))
    if sequence_length is None:
        return tf.reverse(inputs, [0])
    return tf.reverse_sequence(inputs, sequence_length, seq_axis=0, batch_axis=1)
