"""Helpers choose what a decoder reads next: the training data, or what it emitted."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

__all__ = [
    "GreedyEmbeddingHelper",
    "Helper",
    "SampleEmbeddingHelper",
    "TrainingHelper",
]


class Helper(abc.ABC):
    """Samples from a step's outputs and makes the next step's inputs."""

    @property
    @abc.abstractmethod
    def batch_size(self) -> Any:
        """Number of sequences, a scalar int32."""

    @property
    @abc.abstractmethod
    def sample_ids_shape(self) -> Any:
        """Shape of one sample, without the batch dim."""

    @property
    @abc.abstractmethod
    def sample_ids_dtype(self) -> Any:
        """Dtype of a sample."""

    @abc.abstractmethod
    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        """``(finished, inputs)`` before the first step."""

    @abc.abstractmethod
    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """The samples of a step."""

    @abc.abstractmethod
    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        """``(finished, inputs, state)`` for the step after ``time``."""


class _IdHelper(Helper):
    """Helpers whose samples are scalar int32 ids."""

    @property
    def sample_ids_shape(self) -> Any:
        """A scalar per sequence."""
        return tf.TensorShape([])

    @property
    def sample_ids_dtype(self) -> Any:
        """int32."""
        return tf.int32


class TrainingHelper(_IdHelper):
    """Reads the inputs it was given, one step after another; its samples are the arg max of the outputs."""

    def __init__(self, inputs: Any, sequence_length: Any, time_major: bool = False, name: str | None = None) -> None:
        """Takes ``inputs`` ``[batch, time, ...]`` (or time-major) and the int32 vector of lengths.

        Raises:
            ValueError: ``sequence_length`` is not a vector.
        """
        with tf.name_scope(name, "TrainingHelper"):
            self._inputs = tf.nest.map_structure(tf.convert_to_tensor, inputs)
            self._sequence_length = tf.convert_to_tensor(sequence_length, name="sequence_length")
            if self._sequence_length.shape.rank != 1:
                raise ValueError(f"sequence_length must be a vector, not of shape {self._sequence_length.shape}")
            by_time = self._inputs if time_major else tf.nest.map_structure(swap_batch_and_time, self._inputs)
            self._arrays = tf.nest.map_structure(_unstack, by_time)
            self._zero_inputs = tf.nest.map_structure(lambda value: tf.zeros_like(value[0]), by_time)
            self._batch_size = tf.size(self._sequence_length)

    @property
    def inputs(self) -> Any:
        """The inputs as given."""
        return self._inputs

    @property
    def sequence_length(self) -> Any:
        """The lengths as given."""
        return self._sequence_length

    @property
    def batch_size(self) -> Any:
        """Number of lengths."""
        return self._batch_size

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        """The first inputs; sequences of length zero are finished."""
        with tf.name_scope(name, "TrainingHelperInitialize"):
            finished = tf.equal(0, self._sequence_length)
            return finished, self._read(tf.constant(0), finished)

    def sample(self, time: Any, outputs: Any, state: Any = None, name: str | None = None) -> Any:
        """Arg max of the outputs."""
        with tf.name_scope(name, "TrainingHelperSample"):
            return tf.cast(tf.argmax(outputs, axis=-1), tf.int32)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any = None, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        """The inputs of the next step, zeros after the last."""
        with tf.name_scope(name, "TrainingHelperNextInputs"):
            finished = time + 1 >= tf.cast(self._sequence_length, tf.int32)
            return finished, self._read(time + 1, finished), state

    def _read(self, time: Any, finished: Any) -> Any:
        return tf.cond(
            tf.reduce_all(finished),
            lambda: self._zero_inputs,
            lambda: tf.nest.map_structure(lambda array: array.read(time), self._arrays),
        )


class GreedyEmbeddingHelper(_IdHelper):
    """Feeds back the embedding of the most likely id until each sequence has emitted the end token."""

    def __init__(self, embedding: Any, start_tokens: Any, end_token: Any) -> None:
        """Takes an embedding matrix or function, the int32 vector of first ids, and the scalar id that ends.

        Raises:
            ValueError: ``start_tokens`` is not a vector, or ``end_token`` not a scalar.
        """
        self._embed = embedding_function(embedding)
        self._start_tokens = tf.convert_to_tensor(start_tokens, dtype=tf.int32, name="start_tokens")
        self._end_token = tf.convert_to_tensor(end_token, dtype=tf.int32, name="end_token")
        if self._start_tokens.shape.rank != 1:
            raise ValueError("start_tokens must be a vector")
        if self._end_token.shape.rank != 0:
            raise ValueError("end_token must be a scalar")
        self._start_inputs = self._embed(self._start_tokens)
        self._batch_size = tf.size(self._start_tokens)

    @property
    def batch_size(self) -> Any:
        """Number of start tokens."""
        return self._batch_size

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        """Embeddings of the start tokens; nothing is finished."""
        return tf.tile([False], [self._batch_size]), self._start_inputs

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """Arg max of the logits.

        Raises:
            TypeError: the outputs are not one tensor.
        """
        if not isinstance(outputs, tf.Tensor):
            raise TypeError(f"outputs must be one tensor of logits, not {type(outputs).__name__}")
        return tf.argmax(outputs, axis=-1, output_type=tf.int32)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        """Embeddings of the samples; what is read after all have ended does not matter."""
        finished = tf.equal(sample_ids, self._end_token)
        inputs = tf.cond(tf.reduce_all(finished), lambda: self._start_inputs, lambda: self._embed(sample_ids))
        return finished, inputs, state


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """Like the greedy helper, with ids drawn from the softmax of the logits."""

    def __init__(
        self,
        embedding: Any,
        start_tokens: Any,
        end_token: Any,
        softmax_temperature: float | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(embedding, start_tokens, end_token)
        self._temperature = softmax_temperature
        self._seed = seed

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """One draw per sequence.

        Raises:
            TypeError: the outputs are not one tensor.
        """
        if not isinstance(outputs, tf.Tensor):
            raise TypeError(f"outputs must be one tensor of logits, not {type(outputs).__name__}")
        logits = outputs if self._temperature is None else outputs / self._temperature
        return draw_ids(logits, self._seed)


def embedding_function(embedding: Any) -> Callable[[Any], Any]:
    """A function from ids to embeddings, from such a function or a matrix."""
    return embedding if callable(embedding) else lambda ids: tf.nn.embedding_lookup(embedding, ids)


def draw_ids(logits: Any, seed: int | None) -> Any:
    """One int32 id per row, drawn from the softmax of ``logits`` ``[batch, classes]``."""
    return tf.squeeze(tf.random.categorical(logits, 1, dtype=tf.int32, seed=seed), axis=1)


def swap_batch_and_time(tensor: Any) -> Any:
    """Exchanges the first two dims of a tensor of rank two or more; others are returned as they are."""
    rank = tensor.shape.rank
    if rank is None:
        return tf.transpose(tensor, tf.concat([[1, 0], tf.range(2, tf.rank(tensor))], axis=0))
    return tensor if rank < 2 else tf.transpose(tensor, [1, 0, *range(2, rank)])


def _unstack(tensor: Any) -> Any:
    array = tf.TensorArray(tensor.dtype, size=tf.shape(tensor)[0], element_shape=tensor.shape[1:])
    return array.unstack(tensor)
