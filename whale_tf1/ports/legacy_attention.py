"""The attention decoder over lists of tensors. Letters: B sequences, D width of a state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from whale_tf1.ports.legacy_decoder import LoopFunction
from whale_tf1.ports.rnn_linear import linear

__all__ = ["attention_decoder"]


def attention_decoder(
    decoder_inputs: Sequence[Any],
    initial_state: Any,
    attention_states: Any,
    cell: Any,
    output_size: int | None = None,
    num_heads: int = 1,
    loop_function: LoopFunction | None = None,
    dtype: Any = None,
    scope: Any = None,
    initial_state_attention: bool = False,
) -> tuple[list[Any], Any]:
    """A decoder that attends to ``attention_states`` ``[B, length, D]`` with its state (Vinyals et al., 2014).

    Returns:
        Outputs ``[B, output_size]``, one per input, and the last state.

    Raises:
        ValueError: no inputs, no heads, or attention states of unknown width.
    """
    if not decoder_inputs or num_heads < 1:
        raise ValueError(f"{len(decoder_inputs)} inputs and {num_heads} heads: both must be at least 1")
    width = tf.dimension_value(attention_states.shape[2])
    if width is None:
        raise ValueError(f"the width of attention_states is unknown: {attention_states.shape}")
    size: int = output_size or cell.output_size
    with tf.variable_scope(scope or "attention_decoder", dtype=dtype) as opened:
        heads = [_Head(number, attention_states, width) for number in range(num_heads)]

        def attend(state: Any) -> list[Any]:
            query = tf.concat(tf.nest.flatten(state), 1)
            return [head(query) for head in heads]

        state, outputs = initial_state, []
        attended = [tf.zeros([tf.shape(attention_states)[0], width], attention_states.dtype) for _ in heads]
        for value in attended:
            value.set_shape([None, width])
        if initial_state_attention:
            attended = attend(initial_state)
        for step, given in enumerate(decoder_inputs):
            if step > 0:
                opened.reuse_variables()
            read = given
            if loop_function is not None and outputs:
                with tf.variable_scope("loop_function", reuse=True):
                    read = loop_function(outputs[-1], step)
            joined = linear([read, *attended], tf.dimension_value(read.shape[1]), True)
            output, state = cell(joined, state)
            # The first step's query was asked before the loop when the initial state attends.
            with tf.variable_scope(opened, reuse=True if step == 0 and initial_state_attention else None):
                attended = attend(state)
            with tf.variable_scope("AttnOutputProjection"):
                outputs.append(linear([output, *attended], size, True))
    return outputs, state


class _Head:
    """One attention head over a memory: v . tanh(W memory + U query), softmax, weighted sum."""

    def __init__(self, number: int, memory: Any, width: int) -> None:
        self._number = number
        self._memory = memory
        self._width = width
        kernel = tf.get_variable(f"AttnW_{number}", [1, 1, width, width])
        self._direction = tf.get_variable(f"AttnV_{number}", [width])
        self._hidden = tf.tensordot(memory, kernel[0, 0], [[2], [0]])

    def __call__(self, query: Any) -> Any:
        """The weighted sum ``[B, D]``."""
        with tf.variable_scope(f"Attention_{self._number}"):
            projected = tf.expand_dims(linear(query, self._width, True), 1)
            weights = tf.nn.softmax(tf.reduce_sum(self._direction * tf.tanh(self._hidden + projected), [2]))
            return tf.reduce_sum(tf.expand_dims(weights, 2) * self._memory, [1])
