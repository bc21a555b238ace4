"""Scheduled sampling: training helpers that sometimes feed the decoder its own output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from whale_tf1.ports.seq2seq.helpers import TrainingHelper, draw_ids, embedding_function

__all__ = ["ScheduledEmbeddingTrainingHelper", "ScheduledOutputTrainingHelper"]


class ScheduledEmbeddingTrainingHelper(TrainingHelper):
    """With some probability reads the embedding of an id drawn from its logits; samples are -1 where it does not."""

    def __init__(
        self,
        inputs: Any,
        sequence_length: Any,
        embedding: Any,
        sampling_probability: Any,
        time_major: bool = False,
        seed: int | None = None,
        scheduling_seed: int | None = None,
        name: str | None = None,
    ) -> None:
        self._embed = embedding_function(embedding)
        self._probability = _probability(sampling_probability)
        self._seed = seed
        self._scheduling_seed = scheduling_seed
        super().__init__(inputs, sequence_length, time_major=time_major, name=name)

    def sample(self, time: Any, outputs: Any, state: Any = None, name: str | None = None) -> Any:
        """Drawn ids, or -1."""
        chosen = _coin(self.batch_size, self._probability, self._scheduling_seed)
        return tf.where(chosen, draw_ids(outputs, self._seed), tf.fill([self.batch_size], -1))

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any = None, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        """The training inputs, with embeddings in place of those rows that were sampled."""
        finished, inputs, state = super().next_inputs(time, outputs, state, sample_ids)

        def mix() -> Any:
            embedded = self._embed(tf.maximum(sample_ids, 0))
            return tf.where(sample_ids >= 0, tf.cast(embedded, inputs.dtype), inputs)

        return finished, tf.cond(tf.reduce_all(finished), lambda: inputs, mix), state


class ScheduledOutputTrainingHelper(TrainingHelper):
    """With some probability reads (a function of) its own output; samples say where it did."""

    def __init__(
        self,
        inputs: Any,
        sequence_length: Any,
        sampling_probability: Any,
        time_major: bool = False,
        seed: int | None = None,
        next_inputs_fn: Callable[[Any], Any] | None = None,
        auxiliary_inputs: Any = None,
        name: str | None = None,
    ) -> None:
        self._probability = _probability(sampling_probability)
        self._seed = seed
        self._next_inputs_fn = next_inputs_fn
        joined = inputs
        self._auxiliary = None
        if auxiliary_inputs is not None:
            joined = tf.nest.map_structure(lambda a, b: tf.concat([a, b], axis=-1), inputs, auxiliary_inputs)
            self._auxiliary = TrainingHelper(auxiliary_inputs, sequence_length, time_major=time_major)
        super().__init__(joined, sequence_length, time_major=time_major, name=name)

    @property
    def sample_ids_dtype(self) -> Any:
        """bool: whether the row was sampled."""
        return tf.bool

    def sample(self, time: Any, outputs: Any, state: Any = None, name: str | None = None) -> Any:
        """Which rows read their own output."""
        return _coin(self.batch_size, self._probability, self._seed)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any = None, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        """The training inputs, with outputs in place of those rows that were sampled."""
        finished, inputs, state = super().next_inputs(time, outputs, state, sample_ids)
        own = outputs if self._next_inputs_fn is None else self._next_inputs_fn(outputs)
        if self._auxiliary is not None:
            _, auxiliary, _ = self._auxiliary.next_inputs(time, outputs, state, sample_ids)
            own = tf.nest.map_structure(lambda a, b: tf.concat([a, b], axis=-1), own, auxiliary)
        mixed = tf.nest.map_structure(lambda a, b: tf.where(sample_ids, a, b), own, inputs)
        return finished, mixed, state


def _probability(value: Any) -> Any:
    probability = tf.convert_to_tensor(value, name="sampling_probability")
    if probability.shape.rank not in (0, 1):
        raise ValueError(f"sampling_probability must be a scalar or a vector, not of shape {probability.shape}")
    return probability


def _coin(size: Any, probability: Any, seed: int | None) -> Any:
    return tf.random_uniform([size], dtype=probability.dtype, seed=seed) < probability
