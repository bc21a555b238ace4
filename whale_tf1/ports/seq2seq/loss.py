"""Weighted cross entropy of sequences of logits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

__all__ = ["sequence_loss"]

# Keeps a quotient finite when no step has weight.
_TINY = 1e-12


def sequence_loss(
    logits: Any,
    targets: Any,
    weights: Any,
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    sum_over_timesteps: bool = False,
    sum_over_batch: bool = False,
    softmax_loss_function: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Any:
    """Cross entropy of ``logits`` ``[batch, time, classes]`` against ids ``[batch, time]``.

    With weights w and entropies e: averaging over a dim gives sum(w e) / sum(w) over it; summing over a dim gives
    sum(w e) divided by how many weights over it are not zero; a dim that is neither stays.

    Returns:
        A scalar, a vector, or ``[batch, time]``.

    Raises:
        ValueError: wrong ranks, or a dim both summed and averaged.
    """
    if len(logits.shape) != 3:
        raise ValueError(f"logits must be [batch, time, classes], not of shape {logits.shape}")
    if len(targets.shape) != 2 or len(weights.shape) != 2:
        raise ValueError(f"targets and weights must be [batch, time], not {targets.shape} and {weights.shape}")
    if (average_across_timesteps and sum_over_timesteps) or (average_across_batch and sum_over_batch):
        raise ValueError("one dim cannot be both averaged and summed")
    if (average_across_batch and sum_over_timesteps) or (sum_over_batch and average_across_timesteps):
        raise ValueError("averaging one dim while summing the other is not defined")
    with tf.name_scope(name, "sequence_loss", [logits, targets, weights]):
        flat_logits = tf.reshape(logits, [-1, tf.shape(logits)[2]])
        flat_targets = tf.reshape(targets, [-1])
        if softmax_loss_function is None:
            entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=flat_targets, logits=flat_logits)
        else:
            entropy = softmax_loss_function(labels=flat_targets, logits=flat_logits)
        weighted = tf.reshape(entropy * tf.cast(tf.reshape(weights, [-1]), entropy.dtype), tf.shape(logits)[:2])
        weighted.set_shape(weights.shape)
        weights = tf.cast(weights, weighted.dtype)
        averaged = [axis for axis, wanted in enumerate((average_across_batch, average_across_timesteps)) if wanted]
        summed = [axis for axis, wanted in enumerate((sum_over_batch, sum_over_timesteps)) if wanted]
        if averaged:
            return tf.reduce_sum(weighted, averaged) / (tf.reduce_sum(weights, averaged) + _TINY)
        if summed:
            count = tf.math.count_nonzero(weights, summed, dtype=weighted.dtype)
            return tf.math.divide_no_nan(tf.reduce_sum(weighted, summed), count)
        return weighted
