"""The decoding loop, and the decoder that runs an RNN cell under a helper."""

from __future__ import annotations

import abc
import collections
import contextlib
from typing import Any

import tensorflow.compat.v1 as tf

from whale_tf1.ports.seq2seq.helpers import Helper, swap_batch_and_time

__all__ = ["BasicDecoder", "BasicDecoderOutput", "Decoder", "dynamic_decode"]

BasicDecoderOutput = collections.namedtuple("BasicDecoderOutput", ("rnn_output", "sample_id"))


class Decoder(abc.ABC):
    """One step of decoding: what ``dynamic_decode`` repeats until every sequence is finished."""

    @property
    @abc.abstractmethod
    def batch_size(self) -> Any:
        """Number of sequences, a scalar."""

    @property
    @abc.abstractmethod
    def output_size(self) -> Any:
        """Structure of sizes of one step's outputs, without the batch dim."""

    @property
    @abc.abstractmethod
    def output_dtype(self) -> Any:
        """Structure of dtypes of one step's outputs."""

    @abc.abstractmethod
    def initialize(self, name: str | None = None) -> tuple[Any, Any, Any]:
        """``(finished, inputs, state)`` before the first step."""

    @abc.abstractmethod
    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> tuple[Any, Any, Any, Any]:
        """``(outputs, next state, next inputs, finished)`` of one step."""

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Any) -> tuple[Any, Any]:
        """``(outputs, state)`` after the last step, from time-major outputs.

        Raises:
            NotImplementedError: the decoder leaves them as they are.
        """
        raise NotImplementedError

    @property
    def tracks_own_finished(self) -> bool:
        """Whether ``step`` reports finished sequences itself, because it reorders them."""
        return False


class BasicDecoder(Decoder):
    """An RNN cell whose next inputs a helper chooses."""

    def __init__(self, cell: Any, helper: Helper, initial_state: Any, output_layer: Any = None) -> None:
        if not isinstance(helper, Helper):
            raise TypeError(f"helper must be a seq2seq Helper, not {type(helper).__name__}")
        if output_layer is not None and not callable(output_layer):
            raise TypeError(f"output_layer must be a layer, not {type(output_layer).__name__}")
        self._cell = cell
        self._helper = helper
        self._initial_state = initial_state
        self._output_layer = output_layer

    @property
    def batch_size(self) -> Any:
        """Number of sequences, as the helper knows it."""
        return self._helper.batch_size

    @property
    def output_size(self) -> Any:
        """Sizes of the (projected) cell output and of a sample."""
        return BasicDecoderOutput(projected_size(self._cell, self._output_layer), self._helper.sample_ids_shape)

    @property
    def output_dtype(self) -> Any:
        """The dtype of the state for cell outputs, the helper's for samples."""
        dtype = tf.nest.flatten(self._initial_state)[0].dtype
        size = projected_size(self._cell, self._output_layer)
        return BasicDecoderOutput(tf.nest.map_structure(lambda _: dtype, size), self._helper.sample_ids_dtype)

    def initialize(self, name: str | None = None) -> tuple[Any, Any, Any]:
        """The helper's first inputs with the initial state."""
        return (*self._helper.initialize(), self._initial_state)

    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> tuple[Any, Any, Any, Any]:
        """Cell, output layer, sample, next inputs."""
        with tf.name_scope(name, "BasicDecoderStep"):
            output, state = self._cell(inputs, state)
            if self._output_layer is not None:
                output = self._output_layer(output)
            samples = self._helper.sample(time=time, outputs=output, state=state)
            finished, next_inputs, next_state = self._helper.next_inputs(
                time=time, outputs=output, state=state, sample_ids=samples
            )
        return BasicDecoderOutput(output, samples), next_state, next_inputs, finished


def projected_size(cell: Any, output_layer: Any) -> Any:
    """Size of a cell's output after an optional layer, without the batch dim."""
    if output_layer is None:
        return cell.output_size
    return tf.nest.map_structure(
        lambda size: output_layer.compute_output_shape(tf.TensorShape([None]).concatenate(size))[1:], cell.output_size
    )


def dynamic_decode(
    decoder: Decoder,
    output_time_major: bool = False,
    impute_finished: bool = False,
    maximum_iterations: Any = None,
    parallel_iterations: int = 32,
    swap_memory: bool = False,
    scope: Any = None,
) -> tuple[Any, Any, Any]:
    """Steps a decoder until every sequence is finished.

    Args:
        decoder: what one step does.
        output_time_major: outputs are ``[time, batch, ...]`` rather than ``[batch, time, ...]``.
        impute_finished: finished sequences emit zeros and keep their state.
        maximum_iterations: largest number of steps, a scalar; without it only the decoder decides.
        parallel_iterations: as in ``tf.while_loop``.
        swap_memory: as in ``tf.while_loop``.
        scope: variable scope, by default ``decoder``.

    Returns:
        Outputs, final state, and the int32 number of steps of each sequence.

    Raises:
        TypeError: ``decoder`` is not a Decoder.
        ValueError: ``maximum_iterations`` is not a scalar.
    """
    if not isinstance(decoder, Decoder):
        raise TypeError(f"decoder must be a seq2seq Decoder, not {type(decoder).__name__}")
    with tf.variable_scope(scope, "decoder"):
        limit = None
        if maximum_iterations is not None:
            limit = tf.convert_to_tensor(maximum_iterations, dtype=tf.int32, name="maximum_iterations")
            if limit.shape.rank != 0:
                raise ValueError("maximum_iterations must be a scalar")
        finished, inputs, state = decoder.initialize()
        if limit is not None:
            finished = tf.logical_or(finished, limit <= 0)
        zeros = _zero_outputs(decoder)
        arrays = tf.nest.map_structure(
            lambda dtype: tf.TensorArray(dtype=dtype, size=0, dynamic_size=True), decoder.output_dtype
        )

        def proceed(time: Any, arrays: Any, state: Any, inputs: Any, finished: Any, lengths: Any) -> Any:
            del time, arrays, state, inputs, lengths
            return tf.logical_not(tf.reduce_all(finished))

        def body(time: Any, arrays: Any, state: Any, inputs: Any, finished: Any, lengths: Any) -> Any:
            outputs, next_state, next_inputs, now_finished = decoder.step(time, inputs, state)
            if not decoder.tracks_own_finished:
                now_finished = tf.logical_or(now_finished, finished)
            if limit is not None:
                now_finished = tf.logical_or(now_finished, time + 1 >= limit)
            lengths = tf.where(finished, lengths, tf.fill(tf.shape(lengths), time + 1))
            tf.nest.assert_same_structure(state, next_state)
            if impute_finished:
                outputs = tf.nest.map_structure(lambda new, zero: tf.where(finished, zero, new), outputs, zeros)
                next_state = tf.nest.map_structure(lambda new, old: _keep(finished, new, old), next_state, state)
            arrays = tf.nest.map_structure(lambda array, value: array.write(time, value), arrays, outputs)
            return time + 1, arrays, next_state, next_inputs, now_finished, lengths

        first = (tf.constant(0), arrays, state, inputs, finished, tf.zeros_like(finished, dtype=tf.int32))
        _, arrays, state, _, _, lengths = tf.while_loop(
            proceed,
            body,
            loop_vars=first,
            parallel_iterations=parallel_iterations,
            maximum_iterations=limit,
            swap_memory=swap_memory,
        )
        outputs = tf.nest.map_structure(lambda array: array.stack(), arrays)
        outputs = tf.nest.map_structure(_set_step_shape, outputs, zeros)
        with contextlib.suppress(NotImplementedError):  # raised by a decoder that has nothing to add
            outputs, state = decoder.finalize(outputs, state, lengths)
        if not output_time_major:
            outputs = tf.nest.map_structure(swap_batch_and_time, outputs)
    return outputs, state, lengths


def _zero_outputs(decoder: Decoder) -> Any:
    def zeros(size: Any, dtype: Any) -> Any:
        if isinstance(size, tf.Tensor):
            return tf.zeros(tf.concat([[decoder.batch_size], tf.cast(size, tf.int32)], axis=0), dtype)
        shape = tf.TensorShape(size).as_list()
        static = tf.get_static_value(tf.convert_to_tensor(decoder.batch_size))
        value = tf.zeros([decoder.batch_size, *shape], dtype)
        value.set_shape([None if static is None else int(static), *shape])
        return value

    return tf.nest.map_structure(zeros, decoder.output_size, decoder.output_dtype)


def _keep(finished: Any, new: Any, old: Any) -> Any:
    """The old state of finished sequences; scalars and arrays are shared by the batch and go on."""
    if isinstance(old, tf.TensorArray) or new.shape.rank == 0:
        return new
    new.set_shape(old.shape)
    return tf.where(finished, old, new)


def _set_step_shape(stacked: Any, zero: Any) -> Any:
    if zero.shape.rank is not None:
        stacked.set_shape(tf.TensorShape([None]).concatenate(zero.shape))
    return stacked
