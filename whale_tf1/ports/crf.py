"""Linear-chain conditional random fields.

Letters: B sequences, T steps, K tags. A tag sequence y scores sum_t unary[t, y_t] + sum_t transition[y_t, y_{t+1}];
its probability is the exponential of that over the sum for all K ** T sequences.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

__all__ = [
    "crf_binary_score",
    "crf_decode",
    "crf_log_likelihood",
    "crf_log_norm",
    "crf_multitag_sequence_score",
    "crf_sequence_score",
    "crf_unary_score",
    "viterbi_decode",
]


def crf_unary_score(tag_indices: Any, sequence_lengths: Any, inputs: Any) -> Any:
    """Sum of the unary scores of given tags ``[B, T]`` under ``inputs`` ``[B, T, K]``: ``[B]``."""
    scores = tf.gather(inputs, tag_indices, batch_dims=2)
    return tf.reduce_sum(scores * _mask(sequence_lengths, inputs), axis=1)


def crf_binary_score(tag_indices: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """Sum of the transition scores of given tags ``[B, T]``: ``[B]``."""
    pairs = tf.stack([tag_indices[:, :-1], tag_indices[:, 1:]], axis=2)
    scores = tf.gather_nd(transition_params, pairs)
    # A step beyond the first that counts has one transition into it.
    mask = tf.sequence_mask(sequence_lengths, maxlen=tf.shape(tag_indices)[1], dtype=scores.dtype)[:, 1:]
    return tf.reduce_sum(scores * mask, axis=1)


def crf_sequence_score(inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """Score of given tags: ``[B]``; zero for empty sequences."""
    unary = crf_unary_score(tag_indices, sequence_lengths, inputs)
    return unary + crf_binary_score(tag_indices, sequence_lengths, transition_params)


def crf_multitag_sequence_score(inputs: Any, tag_bitmap: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """Log of the sum over all tag sequences that ``tag_bitmap`` ``[B, T, K]`` allows: ``[B]``."""
    forbidden = tf.fill(tf.shape(inputs), tf.cast(-np.inf, inputs.dtype))
    return crf_log_norm(tf.where(tf.cast(tag_bitmap, tf.bool), inputs, forbidden), sequence_lengths, transition_params)


def crf_log_norm(inputs: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """Log of the sum over all tag sequences: ``[B]``; zero for empty sequences."""

    def forward(alphas: Any, step: Any) -> Any:
        unary, time = step
        extended = tf.reduce_logsumexp(tf.expand_dims(alphas, 2) + transition_params, axis=1) + unary
        return tf.where(time < lengths, extended, alphas)

    lengths = tf.cast(sequence_lengths, tf.int32)
    by_time = tf.transpose(inputs, [1, 0, 2])
    times = tf.range(1, tf.shape(by_time)[0])
    alphas = tf.foldl(forward, (by_time[1:], times), initializer=by_time[0])
    norm = tf.reduce_logsumexp(alphas, axis=1)
    return tf.where(lengths > 0, norm, tf.zeros_like(norm))


def crf_log_likelihood(
    inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any = None
) -> tuple[Any, Any]:
    """Log probability of given tags.

    Args:
        inputs: unary scores ``[B, T, K]``; K is static.
        tag_indices: tags ``[B, T]``.
        sequence_lengths: ``[B]``.
        transition_params: ``[K, K]``; by default the variable ``transitions``.

    Returns:
        ``[B]`` log likelihoods and the transition scores.
    """
    tags = tf.dimension_value(inputs.shape[2])
    if transition_params is None:
        transition_params = tf.get_variable("transitions", [tags, tags])
    lengths = tf.cast(sequence_lengths, tf.int32)
    score = crf_sequence_score(inputs, tag_indices, lengths, transition_params)
    return score - crf_log_norm(inputs, lengths, transition_params), transition_params


def crf_decode(potentials: Any, transition_params: Any, sequence_length: Any) -> tuple[Any, Any]:
    """The best tags of ``potentials`` ``[B, T, K]``: int32 ``[B, T]`` (zero beyond the length) and scores ``[B]``."""
    lengths = tf.cast(sequence_length, tf.int32)
    by_time = tf.transpose(potentials, [1, 0, 2])
    steps = tf.shape(by_time)[0]
    itself = tf.broadcast_to(tf.range(tf.shape(potentials)[2]), tf.shape(by_time[0]))

    def forward(carry: Any, step: Any) -> Any:
        best, _ = carry
        unary, time = step
        paths = tf.expand_dims(best, 2) + transition_params
        counts = tf.logical_and(time > 0, time < lengths)
        extended = tf.where(counts, tf.reduce_max(paths, axis=1) + unary, best)
        return extended, tf.where(counts, tf.argmax(paths, axis=1, output_type=tf.int32), itself)

    best, origins = tf.scan(forward, (by_time, tf.range(steps)), initializer=(by_time[0], itself))
    last = tf.argmax(best[-1], axis=1, output_type=tf.int32)

    def backward(tag: Any, origin: Any) -> Any:
        return tf.gather(origin, tag, batch_dims=1)

    # origins[t] says where step t came from, so tags[t - 1] = origins[t][tags[t]].
    earlier = tf.scan(backward, origins, initializer=last, reverse=True)
    tags = tf.transpose(tf.concat([earlier[1:], [last]], axis=0))
    tags *= tf.sequence_mask(lengths, maxlen=steps, dtype=tf.int32)
    tags.set_shape(potentials.shape[:2])
    return tags, tf.reduce_max(best[-1], axis=1)


def viterbi_decode(score: Any, transition_params: Any) -> tuple[list[int], float]:
    """The best tags of one sequence, in numpy.

    Args:
        score: unary scores ``[T, K]``.
        transition_params: ``[K, K]``.

    Returns:
        The tags and their score.
    """
    score = np.asarray(score)
    best = score[0].copy()
    origins = np.zeros(score.shape, dtype=np.int32)
    for time in range(1, len(score)):
        paths = best[:, None] + transition_params
        origins[time] = paths.argmax(axis=0)
        best = paths.max(axis=0) + score[time]
    tags = [int(best.argmax())]
    for time in range(len(score) - 1, 0, -1):
        tags.append(int(origins[time, tags[-1]]))
    return tags[::-1], best.max()


def _mask(sequence_lengths: Any, inputs: Any) -> Any:
    return tf.sequence_mask(sequence_lengths, maxlen=tf.shape(inputs)[1], dtype=inputs.dtype)
