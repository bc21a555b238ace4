"""Stacks of bidirectional layers, and two small functions around time-major tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

__all__ = [
    "best_effort_input_batch_size",
    "stack_bidirectional_dynamic_rnn",
    "stack_bidirectional_rnn",
    "transpose_batch_time",
]


def stack_bidirectional_rnn(
    cells_fw: Sequence[Any],
    cells_bw: Sequence[Any],
    inputs: Any,
    initial_states_fw: Sequence[Any] | None = None,
    initial_states_bw: Sequence[Any] | None = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[Any, Any, Any]:
    """Unrolled layers, each reading both directions of the one below.

    Returns:
        Outputs (a list over time) and the final states of both directions, one per layer.

    Raises:
        ValueError: the lists do not have one length.
    """
    rows = _rows(cells_fw, cells_bw, initial_states_fw, initial_states_bw)
    states: list[tuple[Any, Any]] = []
    with tf.variable_scope(scope or "stack_bidirectional_rnn"):
        for number, (forward, backward, state_forward, state_backward) in enumerate(rows):
            with tf.variable_scope(f"cell_{number}"):
                inputs, final_forward, final_backward = tf.nn.static_bidirectional_rnn(
                    forward,
                    backward,
                    inputs,
                    initial_state_fw=state_forward,
                    initial_state_bw=state_backward,
                    sequence_length=sequence_length,
                    dtype=dtype,
                )
            states.append((final_forward, final_backward))
    return inputs, tuple(first for first, _ in states), tuple(second for _, second in states)


def stack_bidirectional_dynamic_rnn(
    cells_fw: Sequence[Any],
    cells_bw: Sequence[Any],
    inputs: Any,
    initial_states_fw: Sequence[Any] | None = None,
    initial_states_bw: Sequence[Any] | None = None,
    dtype: Any = None,
    sequence_length: Any = None,
    parallel_iterations: int | None = None,
    time_major: bool = False,
    scope: Any = None,
    swap_memory: bool = False,
) -> tuple[Any, Any, Any]:
    """Layers in loops, each reading both directions of the one below.

    Returns:
        Outputs of the top layer, both directions joined, and the final states of both directions, one per layer.

    Raises:
        ValueError: the lists do not have one length.
    """
    rows = _rows(cells_fw, cells_bw, initial_states_fw, initial_states_bw)
    states: list[tuple[Any, Any]] = []
    with tf.variable_scope(scope or "stack_bidirectional_rnn"):
        for number, (forward, backward, state_forward, state_backward) in enumerate(rows):
            with tf.variable_scope(f"cell_{number}"):
                outputs, final = tf.nn.bidirectional_dynamic_rnn(
                    forward,
                    backward,
                    inputs,
                    initial_state_fw=state_forward,
                    initial_state_bw=state_backward,
                    sequence_length=sequence_length,
                    parallel_iterations=parallel_iterations,
                    dtype=dtype,
                    time_major=time_major,
                    swap_memory=swap_memory,
                )
            inputs = tf.concat(outputs, 2)
            states.append(final)
    return inputs, tuple(first for first, _ in states), tuple(second for _, second in states)


def transpose_batch_time(x: Any) -> Any:
    """Exchanges the first two dims; tensors of rank below two are returned as they are."""
    rank = x.shape.rank
    if rank is not None and rank < 2:
        return x
    rest = range(2, rank) if rank is not None else tf.range(2, tf.rank(x))
    order = [1, 0, *rest] if rank is not None else tf.concat([[1, 0], rest], axis=0)
    return tf.transpose(x, order)


def best_effort_input_batch_size(flat_input: Sequence[Any]) -> Any:
    """The batch size of time-major tensors: static when one of them knows it, else a tensor."""
    for value in flat_input:
        if value.shape.rank is not None and value.shape.rank >= 2:
            static = tf.dimension_value(value.shape[1])
            if static is not None:
                return static
    return tf.shape(flat_input[0])[1]


def _rows(
    cells_fw: Sequence[Any], cells_bw: Sequence[Any], states_fw: Sequence[Any] | None, states_bw: Sequence[Any] | None
) -> list[tuple[Any, Any, Any, Any]]:
    if not cells_fw or not cells_bw:
        raise ValueError("both directions need at least one cell")
    count = len(cells_fw)
    columns = [cells_fw, cells_bw, states_fw or [None] * count, states_bw or [None] * count]
    if any(not isinstance(column, (list, tuple)) or len(column) != count for column in columns):
        raise ValueError("cells and initial states of both directions must be lists of one length")
    return list(zip(*columns))
