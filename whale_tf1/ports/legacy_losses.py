"""Losses over lists of tensors, one per step, and models for several lengths. Letters: B sequences, C classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

__all__ = ["model_with_buckets", "sequence_loss", "sequence_loss_by_example"]

# Keeps a quotient finite when no step has weight.
_TINY = 1e-12


def sequence_loss_by_example(
    logits: Sequence[Any],
    targets: Sequence[Any],
    weights: Sequence[Any],
    average_across_timesteps: bool = True,
    softmax_loss_function: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Any:
    """Weighted cross entropy per sequence ``[B]``, from one ``[B, C]``, ``[B]``, ``[B]`` per step.

    Raises:
        ValueError: the lists do not have one length.
    """
    if not len(logits) == len(targets) == len(weights):
        raise ValueError(
            f"{len(logits)} logits, {len(targets)} targets and {len(weights)} weights: one number of steps"
        )
    function = softmax_loss_function or tf.nn.sparse_softmax_cross_entropy_with_logits
    with tf.name_scope(name, "sequence_loss_by_example", [*logits, *targets, *weights]):
        losses = [
            function(labels=target, logits=logit) * weight for logit, target, weight in zip(logits, targets, weights)
        ]
        total = tf.add_n(losses)
        return total / (tf.add_n(list(weights)) + _TINY) if average_across_timesteps else total


def sequence_loss(
    logits: Sequence[Any],
    targets: Sequence[Any],
    weights: Sequence[Any],
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    softmax_loss_function: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Any:
    """The sum over the batch of ``sequence_loss_by_example``, divided by the batch size unless told otherwise."""
    with tf.name_scope(name, "sequence_loss", [*logits, *targets, *weights]):
        losses = sequence_loss_by_example(
            logits, targets, weights, average_across_timesteps, softmax_loss_function=softmax_loss_function
        )
        total = tf.reduce_sum(losses)
        return total / tf.cast(tf.shape(targets[0])[0], total.dtype) if average_across_batch else total


def model_with_buckets(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    targets: Sequence[Any],
    weights: Sequence[Any],
    buckets: Sequence[tuple[int, int]],
    seq2seq: Callable[[Any, Any], tuple[Any, Any]],
    softmax_loss_function: Callable[..., Any] | None = None,
    per_example_loss: bool = False,
    name: str | None = None,
) -> tuple[list[Any], list[Any]]:
    """One model per bucket ``(encoder steps, decoder steps)``, all with the same variables.

    Returns:
        Outputs and loss of each bucket.

    Raises:
        ValueError: the largest bucket is longer than the lists.
    """
    longest = buckets[-1]
    if len(encoder_inputs) < longest[0] or len(targets) < longest[1] or len(weights) < longest[1]:
        raise ValueError(f"the last bucket {longest} is longer than the inputs, targets or weights")
    outputs, losses = [], []
    loss = sequence_loss_by_example if per_example_loss else sequence_loss
    with tf.name_scope(name, "model_with_buckets", [*encoder_inputs, *decoder_inputs, *targets, *weights]):
        for number, (source, target) in enumerate(buckets):
            with tf.variable_scope(tf.get_variable_scope(), reuse=True if number > 0 else None):
                output, _ = seq2seq(encoder_inputs[:source], decoder_inputs[:target])
                outputs.append(output)
                losses.append(
                    loss(output, targets[:target], weights[:target], softmax_loss_function=softmax_loss_function)
                )
    return outputs, losses
