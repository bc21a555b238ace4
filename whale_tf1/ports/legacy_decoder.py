"""The plain decoder over lists of tensors. Letters: B sequences, D width of an input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

__all__ = ["rnn_decoder"]

LoopFunction = Callable[[Any, int], Any]
"""From the previous output and the step to the next input."""


def rnn_decoder(
    decoder_inputs: Sequence[Any],
    initial_state: Any,
    cell: Any,
    loop_function: LoopFunction | None = None,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """Runs a cell over ``[B, D]`` inputs; a loop function replaces all inputs after the first.

    Returns:
        Outputs, one per input, and the last state.
    """
    state, outputs = initial_state, []
    with tf.variable_scope(scope or "rnn_decoder") as opened:
        for step, given in enumerate(decoder_inputs):
            read = given
            if loop_function is not None and outputs:
                with tf.variable_scope("loop_function", reuse=True):
                    read = loop_function(outputs[-1], step)
            if step > 0:
                opened.reuse_variables()
            output, state = cell(read, state)
            outputs.append(output)
    return outputs, state
