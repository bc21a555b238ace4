"""Attention mechanisms: how a query weighs the rows of a memory."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

__all__ = ["AttentionMechanism", "BahdanauAttention", "LuongAttention", "hardmax"]


class AttentionMechanism:
    """Weights over a memory ``[batch, max time, depth]`` for a query; state is what the mechanism carries over."""

    @property
    def alignments_size(self) -> Any:
        """``max time``."""
        raise NotImplementedError

    @property
    def state_size(self) -> Any:
        """Size of the state."""
        raise NotImplementedError


class MemoryAttention(AttentionMechanism, abc.ABC):
    """A mechanism with projected memory (keys), masked beyond each sequence's length."""

    def __init__(
        self,
        memory: Any,
        memory_sequence_length: Any,
        probability_fn: Callable[[Any, Any], Any],
        query_layer: Any,
        memory_layer: Any,
        score_mask_value: float | None,
        name: str,
    ) -> None:
        with tf.name_scope(name, "AttentionMechanismInit"):
            memory = tf.convert_to_tensor(memory, name="memory")
            self._lengths = None
            if memory_sequence_length is not None:
                self._lengths = tf.convert_to_tensor(memory_sequence_length, name="memory_sequence_length")
                mask = tf.sequence_mask(self._lengths, maxlen=tf.shape(memory)[1], dtype=memory.dtype)
                rank = memory.shape.rank
                memory = memory * tf.reshape(mask, tf.concat([tf.shape(mask), [1] * (rank - 2)], axis=0))
            self._values = memory
            self._query_layer = query_layer
            self._memory_layer = memory_layer
            self._keys = memory if memory_layer is None else memory_layer(memory)
            self._probability_fn = probability_fn
            self._mask_value = -math.inf if score_mask_value is None else score_mask_value
            static = self._keys.shape[0]
            self._batch_size = tf.shape(self._keys)[0] if static is None else tf.dimension_value(static)
            length = tf.dimension_value(self._keys.shape[1])
            self._alignments_size = tf.shape(self._keys)[1] if length is None else length

    @abc.abstractmethod
    def score(self, query: Any) -> Any:
        """Unnormalised weights ``[batch, max time]``."""

    def __call__(self, query: Any, state: Any) -> tuple[Any, Any]:
        """``(alignments, next state)``, both ``[batch, max time]``."""
        scores = self.score(query)
        if self._lengths is not None:
            mask = tf.sequence_mask(self._lengths, maxlen=tf.shape(scores)[1])
            scores = tf.where(mask, scores, tf.fill(tf.shape(scores), tf.cast(self._mask_value, scores.dtype)))
        alignments = self._probability_fn(scores, state)
        return alignments, alignments

    @property
    def memory_layer(self) -> Any:
        """The layer that makes keys, or None."""
        return self._memory_layer

    @property
    def query_layer(self) -> Any:
        """The layer that projects queries, or None."""
        return self._query_layer

    @property
    def values(self) -> Any:
        """The masked memory."""
        return self._values

    @property
    def keys(self) -> Any:
        """The projected memory."""
        return self._keys

    @property
    def dtype(self) -> Any:
        """Dtype of the memory."""
        return self._values.dtype

    @property
    def batch_size(self) -> Any:
        """First dim of the memory."""
        return self._batch_size

    @property
    def alignments_size(self) -> Any:
        """Second dim of the memory."""
        return self._alignments_size

    @property
    def state_size(self) -> Any:
        """The state is the last alignments."""
        return self._alignments_size

    def initial_alignments(self, batch_size: Any, dtype: Any) -> Any:
        """Zeros."""
        return _zeros(batch_size, self._alignments_size, dtype)

    def initial_state(self, batch_size: Any, dtype: Any) -> Any:
        """The initial alignments."""
        return self.initial_alignments(batch_size, dtype)


class LuongAttention(MemoryAttention):
    """Multiplicative score: query times key, optionally scaled by a learned number."""

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        scale: bool = False,
        probability_fn: Callable[[Any], Any] | None = None,
        score_mask_value: float | None = None,
        dtype: Any = None,
        name: str = "LuongAttention",
    ) -> None:
        self._scale = scale
        super().__init__(
            memory,
            memory_sequence_length,
            normalizer(probability_fn),
            None,
            projection(num_units, "memory_layer", dtype),
            score_mask_value,
            name,
        )

    def score(self, query: Any) -> Any:
        """Query ``[batch, units]`` against every key."""
        with tf.variable_scope(None, "luong_attention", [query]):
            return luong_score(query, self._keys, self._scale)


class BahdanauAttention(MemoryAttention):
    """Additive score: v . tanh(key + projected query), optionally with v of learned length."""

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        normalize: bool = False,
        probability_fn: Callable[[Any], Any] | None = None,
        score_mask_value: float | None = None,
        dtype: Any = None,
        name: str = "BahdanauAttention",
    ) -> None:
        self._num_units = num_units
        self._normalize = normalize
        super().__init__(
            memory,
            memory_sequence_length,
            normalizer(probability_fn),
            projection(num_units, "query_layer", dtype),
            projection(num_units, "memory_layer", dtype),
            score_mask_value,
            name,
        )

    def score(self, query: Any) -> Any:
        """Query ``[batch, depth]`` against every key."""
        with tf.variable_scope(None, "bahdanau_attention", [query]):
            return bahdanau_score(self._query_layer(query), self._keys, self._num_units, self._normalize)


def luong_score(query: Any, keys: Any, scale: bool) -> Any:
    """``[batch, max time]`` products of ``query`` ``[batch, units]`` and ``keys`` ``[batch, max time, units]``.

    Raises:
        ValueError: query and keys differ in depth.
    """
    if tf.dimension_value(query.shape[-1]) != tf.dimension_value(keys.shape[-1]):
        raise ValueError(
            f"a query of depth {query.shape[-1]} cannot meet keys of depth {keys.shape[-1]}: "
            "set num_units of the attention to the cell's output size"
        )
    score = tf.squeeze(tf.matmul(tf.expand_dims(query, 1), keys, transpose_b=True), axis=1)
    if scale:
        score *= tf.get_variable("attention_g", dtype=query.dtype, initializer=tf.ones_initializer(), shape=())
    return score


def bahdanau_score(query: Any, keys: Any, num_units: int, normalize: bool) -> Any:
    """``[batch, max time]`` scores of a projected query ``[batch, units]``; with weight normalisation if asked."""
    dtype = query.dtype
    direction = tf.get_variable("attention_v", [num_units], dtype=dtype)
    joint = keys + tf.expand_dims(query, 1)
    if normalize:
        start = tf.constant_initializer(math.sqrt(1.0 / num_units))
        gain = tf.get_variable("attention_g", dtype=dtype, initializer=start, shape=())
        joint += tf.get_variable("attention_b", [num_units], dtype=dtype, initializer=tf.zeros_initializer())
        direction = gain * direction * tf.rsqrt(tf.reduce_sum(tf.square(direction)))
    return tf.reduce_sum(direction * tf.tanh(joint), axis=2)


def hardmax(logits: Any, name: str | None = None) -> Any:
    """One-hot of the arg max over the last dim."""
    with tf.name_scope(name, "Hardmax", [logits]):
        logits = tf.convert_to_tensor(logits)
        depth = tf.dimension_value(logits.shape[-1]) or tf.shape(logits)[-1]
        return tf.one_hot(tf.argmax(logits, -1), depth, dtype=logits.dtype)


def projection(num_units: int, name: str, dtype: Any) -> Any:
    """A dense layer without bias."""
    return tf.layers.Dense(num_units, use_bias=False, name=name, dtype=dtype or tf.float32)


def normalizer(probability_fn: Callable[[Any], Any] | None) -> Callable[[Any, Any], Any]:
    """Turns scores into weights without regard to the state; a softmax by default."""
    function = probability_fn or tf.nn.softmax
    return lambda score, _: function(score)


def _zeros(batch_size: Any, size: Any, dtype: Any) -> Any:
    value = tf.zeros(tf.stack([batch_size, size]), dtype)
    value.set_shape([tf.get_static_value(tf.convert_to_tensor(batch_size)), size if isinstance(size, int) else None])
    return value
