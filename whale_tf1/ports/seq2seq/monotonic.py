"""Monotonic attention (Raffel et al., 2017): the attended position moves only forward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from whale_tf1.ports.seq2seq.attention import MemoryAttention, bahdanau_score, luong_score, projection

__all__ = [
    "BahdanauMonotonicAttention",
    "LuongMonotonicAttention",
    "monotonic_attention",
    "monotonic_probability_fn",
    "safe_cumprod",
]


def safe_cumprod(x: Any, *args: Any, **kwargs: Any) -> Any:
    """Cumulative product of numbers in [0, 1] as the exponential of a sum, so that gradients stay finite."""
    with tf.name_scope(None, "SafeCumprod", [x]):
        x = tf.convert_to_tensor(x)
        tiny = np.finfo(x.dtype.as_numpy_dtype).tiny
        return tf.exp(tf.cumsum(tf.log(tf.clip_by_value(x, tiny, 1)), *args, **kwargs))


def monotonic_attention(p_choose_i: Any, previous_attention: Any, mode: str) -> Any:
    """Distribution over positions after one more step.

    A scan starts where the last step stopped, and stops at position j with probability ``p_choose_i[:, j]``:
    a_j = p_j sum_{k <= j} previous_k prod_{k <= l < j} (1 - p_l).

    Args:
        p_choose_i: probabilities ``[batch, length]``.
        previous_attention: distribution after the last step, the same shape.
        mode: ``recursive`` (exact, a scan), ``parallel`` (closed form, for probabilities away from 0 and 1) or
            ``hard`` (probabilities are 0 or 1).

    Raises:
        ValueError: an unknown mode.
    """
    chosen = tf.convert_to_tensor(p_choose_i)
    previous = tf.convert_to_tensor(previous_attention)
    if mode == "recursive":
        passed = tf.concat([tf.ones_like(chosen[:, :1]), 1 - chosen[:, :-1]], axis=1)
        steps = (tf.transpose(passed), tf.transpose(previous))
        reached = tf.scan(lambda mass, step: step[0] * mass + step[1], steps, tf.zeros_like(chosen[:, 0]))
        return chosen * tf.transpose(reached)
    if mode == "parallel":
        passed = safe_cumprod(1 - chosen, axis=1, exclusive=True)
        return chosen * passed * tf.cumsum(previous / tf.clip_by_value(passed, 1e-10, 1.0), axis=1)
    if mode == "hard":
        chosen *= tf.cumsum(previous, axis=1)
        return chosen * tf.cumprod(1 - chosen, axis=1, exclusive=True)
    raise ValueError(f"mode must be 'recursive', 'parallel' or 'hard', not {mode!r}")


def monotonic_probability_fn(
    score: Any, previous_alignments: Any, sigmoid_noise: float, mode: str, seed: int | None = None
) -> Any:
    """Monotonic alignments from scores, with noise that drives probabilities to 0 or 1 in training."""
    if sigmoid_noise > 0:
        score += sigmoid_noise * tf.random_normal(tf.shape(score), dtype=score.dtype, seed=seed)
    chosen = tf.cast(score > 0, score.dtype) if mode == "hard" else tf.sigmoid(score)
    return monotonic_attention(chosen, previous_alignments, mode)


class _MonotonicAttention(MemoryAttention):
    """Starts at the first position."""

    def initial_alignments(self, batch_size: Any, dtype: Any) -> Any:
        """All weight on position zero."""
        return tf.one_hot(tf.zeros(tf.stack([batch_size]), tf.int32), self._alignments_size, dtype=dtype)


class BahdanauMonotonicAttention(_MonotonicAttention):
    """Monotonic attention with the additive score and a learned bias."""

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        normalize: bool = False,
        score_mask_value: float | None = None,
        sigmoid_noise: float = 0.0,
        sigmoid_noise_seed: int | None = None,
        score_bias_init: float = 0.0,
        mode: str = "parallel",
        dtype: Any = None,
        name: str = "BahdanauMonotonicAttention",
    ) -> None:
        self._num_units = num_units
        self._normalize = normalize
        self._score_bias_init = score_bias_init
        super().__init__(
            memory,
            memory_sequence_length,
            _normalizer(sigmoid_noise, mode, sigmoid_noise_seed),
            projection(num_units, "query_layer", dtype),
            projection(num_units, "memory_layer", dtype),
            score_mask_value,
            name,
        )

    def score(self, query: Any) -> Any:
        """Additive score plus bias."""
        with tf.variable_scope(None, "bahdanau_monotonic_attention", [query]):
            score = bahdanau_score(self._query_layer(query), self._keys, self._num_units, self._normalize)
            return score + _bias(score.dtype, self._score_bias_init)


class LuongMonotonicAttention(_MonotonicAttention):
    """Monotonic attention with the multiplicative score and a learned bias."""

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        scale: bool = False,
        score_mask_value: float | None = None,
        sigmoid_noise: float = 0.0,
        sigmoid_noise_seed: int | None = None,
        score_bias_init: float = 0.0,
        mode: str = "parallel",
        dtype: Any = None,
        name: str = "LuongMonotonicAttention",
    ) -> None:
        self._scale = scale
        self._score_bias_init = score_bias_init
        super().__init__(
            memory,
            memory_sequence_length,
            _normalizer(sigmoid_noise, mode, sigmoid_noise_seed),
            None,
            projection(num_units, "memory_layer", dtype),
            score_mask_value,
            name,
        )

    def score(self, query: Any) -> Any:
        """Multiplicative score plus bias."""
        with tf.variable_scope(None, "luong_monotonic_attention", [query]):
            score = luong_score(query, self._keys, self._scale)
            return score + _bias(score.dtype, self._score_bias_init)


def _normalizer(noise: float, mode: str, seed: int | None) -> Callable[[Any, Any], Any]:
    return lambda score, previous: monotonic_probability_fn(score, previous, noise, mode, seed)


def _bias(dtype: Any, start: float) -> Any:
    initializer = tf.constant_initializer(start)
    return tf.get_variable("attention_score_bias", shape=(), dtype=dtype, initializer=initializer)
