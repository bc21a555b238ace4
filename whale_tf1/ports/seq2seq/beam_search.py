"""Beam search over an RNN cell."""

from __future__ import annotations

import collections
from typing import Any

import tensorflow.compat.v1 as tf

from whale_tf1.ports.seq2seq.decoder import Decoder
from whale_tf1.ports.seq2seq.helpers import embedding_function

__all__ = [
    "BeamSearchDecoder",
    "BeamSearchDecoderOutput",
    "BeamSearchDecoderState",
    "FinalBeamSearchDecoderOutput",
    "gather_tree",
    "tile_batch",
]

BeamSearchDecoderState = collections.namedtuple(
    "BeamSearchDecoderState", ("cell_state", "log_probs", "finished", "lengths", "accumulated_attention_probs")
)
BeamSearchDecoderOutput = collections.namedtuple("BeamSearchDecoderOutput", ("scores", "predicted_ids", "parent_ids"))
FinalBeamSearchDecoderOutput = collections.namedtuple(
    "FinalBeamSearchDecoderOutput", ("predicted_ids", "beam_search_decoder_output")
)


def tile_batch(t: Any, multiplier: int, name: str | None = None) -> Any:
    """Repeats every row of every tensor ``multiplier`` times, neighbours first: ``[a, a, b, b]``."""
    with tf.name_scope(name, "tile_batch"):
        return tf.nest.map_structure(lambda value: _tile(tf.convert_to_tensor(value), multiplier), t)


def gather_tree(step_ids: Any, parent_ids: Any, max_sequence_lengths: Any, end_token: Any) -> Any:
    """Follows parents back from the last step, so that each column is one whole hypothesis.

    Args:
        step_ids: ids ``[time, batch, beams]``.
        parent_ids: the beam that each id extends, same shape.
        max_sequence_lengths: int32 ``[batch]``, steps that count; the rest is ``end_token``.
        end_token: scalar id; what follows its first occurrence is ``end_token`` too.

    Returns:
        Ids ``[time, batch, beams]``.
    """
    step_ids = tf.convert_to_tensor(step_ids)
    steps, width = tf.shape(step_ids)[0], tf.shape(step_ids)[2]
    end = tf.cast(end_token, step_ids.dtype)
    counts = tf.reshape(tf.range(steps), [-1, 1, 1]) < tf.reshape(tf.cast(max_sequence_lengths, tf.int32), [1, -1, 1])
    counts = tf.logical_and(counts, tf.ones_like(step_ids, tf.bool))
    itself = tf.broadcast_to(tf.range(width), tf.shape(step_ids))
    parents = tf.where(counts, tf.cast(parent_ids, tf.int32), itself)
    ids = tf.where(counts, step_ids, tf.fill(tf.shape(step_ids), end))

    def back(carry: Any, step: Any) -> Any:
        beam, _ = carry
        return tf.gather(step[1], beam, batch_dims=1), tf.gather(step[0], beam, batch_dims=1)

    first = (itself[0], ids[0])
    _, traced = tf.scan(back, (ids, parents), initializer=first, reverse=True)
    over = tf.cumsum(tf.cast(tf.equal(traced, end), tf.int32), axis=0, exclusive=True) > 0
    result = tf.where(over, tf.fill(tf.shape(traced), end), traced)
    result.set_shape(step_ids.shape)
    return result


class BeamSearchDecoder(Decoder):
    """Keeps the ``beam_width`` best hypotheses of each sequence.

    The initial state must have been tiled by ``tile_batch``. Scores are log probabilities divided by
    ((5 + length) / 6) ** length_penalty_weight.
    """

    def __init__(
        self,
        cell: Any,
        embedding: Any,
        start_tokens: Any,
        end_token: Any,
        initial_state: Any,
        beam_width: int,
        output_layer: Any = None,
        length_penalty_weight: float = 0.0,
        coverage_penalty_weight: float = 0.0,
        reorder_tensor_arrays: bool = True,
    ) -> None:
        """Takes the cell, an embedding matrix or function, first ids ``[batch]`` and the id that ends.

        Raises:
            ValueError: ``start_tokens`` is not a vector, or ``end_token`` not a scalar.
        """
        self._cell = cell
        self._output_layer = output_layer
        self._embed = embedding_function(embedding)
        self._start_tokens = tf.convert_to_tensor(start_tokens, dtype=tf.int32, name="start_tokens")
        self._end_token = tf.convert_to_tensor(end_token, dtype=tf.int32, name="end_token")
        if self._start_tokens.shape.rank != 1:
            raise ValueError("start_tokens must be a vector")
        if self._end_token.shape.rank != 0:
            raise ValueError("end_token must be a scalar")
        self._width = beam_width
        self._length_weight = length_penalty_weight
        self._coverage_weight = coverage_penalty_weight
        self._reorder = reorder_tensor_arrays
        self._batch_size = tf.size(self._start_tokens)
        self._initial_cell_state = tf.nest.map_structure(self._split, initial_state)
        self._start_inputs = self._embed(tf.tile(tf.expand_dims(self._start_tokens, 1), [1, beam_width]))

    @property
    def batch_size(self) -> Any:
        """Number of sequences, beams not counted."""
        return self._batch_size

    @property
    def tracks_own_finished(self) -> bool:
        """Beams change places, so the decoder follows them itself."""
        return True

    @property
    def output_size(self) -> BeamSearchDecoderOutput:
        """``[beams]`` each."""
        beams = tf.TensorShape([self._width])
        return BeamSearchDecoderOutput(beams, beams, beams)

    @property
    def output_dtype(self) -> BeamSearchDecoderOutput:
        """Float scores, int32 ids."""
        return BeamSearchDecoderOutput(self._dtype, tf.int32, tf.int32)

    @property
    def _dtype(self) -> Any:
        return tf.nest.flatten(self._initial_cell_state)[0].dtype

    def initialize(self, name: str | None = None) -> tuple[Any, Any, BeamSearchDecoderState]:
        """One live hypothesis a sequence: the other beams start with probability zero, and finished."""
        first = tf.one_hot(
            tf.zeros([self._batch_size], tf.int32), self._width, on_value=True, off_value=False, dtype=tf.bool
        )
        shape = tf.shape(first)
        log_probs = tf.where(
            first, tf.zeros(shape, self._dtype), tf.fill(shape, self._dtype.as_numpy_dtype(-float("inf")))
        )
        attended: Any = ()
        if self._coverage_weight:
            alignments = self._alignments(self._initial_cell_state)
            attended = tf.zeros_like(alignments)
        finished = tf.logical_not(first)
        state = BeamSearchDecoderState(
            self._initial_cell_state, log_probs, finished, tf.zeros(shape, tf.int64), attended
        )
        return finished, self._start_inputs, state

    def step(
        self, time: Any, inputs: Any, state: BeamSearchDecoderState, name: str | None = None
    ) -> tuple[Any, Any, Any, Any]:
        """Extends every hypothesis by every id and keeps the best."""
        with tf.name_scope(name, "BeamSearchDecoderStep"):
            flat_inputs = tf.nest.map_structure(self._merge, inputs)
            output, cell_state = self._cell(flat_inputs, tf.nest.map_structure(self._merge, state.cell_state))
            if self._output_layer is not None:
                output = self._output_layer(output)
            logits = self._split(output)
            cell_state = tf.nest.map_structure(self._split, cell_state)
            outputs, next_state = self._choose(logits, cell_state, state)
            inputs = tf.cond(
                tf.reduce_all(next_state.finished),
                lambda: self._start_inputs,
                lambda: self._embed(outputs.predicted_ids),
            )
        return outputs, next_state, inputs, next_state.finished

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Any) -> tuple[Any, Any]:
        """Whole hypotheses, best first, from the steps' ids and parents."""
        longest = tf.cast(tf.reduce_max(final_state.lengths, axis=1), tf.int32)
        ids = gather_tree(outputs.predicted_ids, outputs.parent_ids, longest, self._end_token)
        if self._reorder:
            cell_state = tf.nest.map_structure(
                lambda value: self._follow(value, outputs.parent_ids, longest), final_state.cell_state
            )
            final_state = final_state._replace(cell_state=cell_state)
        return FinalBeamSearchDecoderOutput(ids, outputs), final_state

    def _choose(self, logits: Any, cell_state: Any, state: BeamSearchDecoderState) -> tuple[Any, Any]:
        """The best extensions. Letters: B sequences, K beams, V ids; ``logits`` is [B, K, V]."""
        vocabulary = tf.dimension_value(logits.shape[-1]) or tf.shape(logits)[-1]
        is_end = tf.one_hot(self._end_token, vocabulary, on_value=True, off_value=False, dtype=tf.bool)
        # A finished hypothesis can only go on with the end token, at no cost.
        rest = tf.where(is_end, tf.zeros([vocabulary], logits.dtype), tf.fill([vocabulary], logits.dtype.min))
        finished = tf.expand_dims(state.finished, 2)
        step = tf.where_v2(finished, rest, tf.nn.log_softmax(logits))
        total = tf.expand_dims(state.log_probs, 2) + step
        # The end token itself does not make a hypothesis longer.
        grows = tf.logical_and(tf.logical_not(finished), tf.logical_not(is_end))
        lengths = tf.expand_dims(state.lengths, 2) + tf.cast(grows, tf.int64)
        scores = total / self._length_penalty(lengths, total.dtype)
        attended = state.accumulated_attention_probs
        if self._coverage_weight:
            moved = tf.cast(tf.logical_not(finished), logits.dtype)
            attended += moved * self._alignments(cell_state)
            scores += tf.expand_dims(self._coverage_weight * _coverage(attended), 2)
        best, flat = tf.math.top_k(tf.reshape(scores, [self._batch_size, -1]), k=self._width)
        ids, parents = flat % vocabulary, flat // vocabulary

        def pick(value: Any) -> Any:
            return tf.gather(value, parents, batch_dims=1)

        was_finished = pick(state.finished)
        next_state = BeamSearchDecoderState(
            cell_state=tf.nest.map_structure(lambda v: pick(v) if self._has_beams(v) else v, cell_state),
            log_probs=tf.gather(tf.reshape(total, [self._batch_size, -1]), flat, batch_dims=1),
            finished=tf.logical_or(was_finished, tf.equal(ids, self._end_token)),
            lengths=pick(state.lengths) + tf.cast(tf.logical_not(was_finished), tf.int64),
            accumulated_attention_probs=pick(attended) if self._coverage_weight else (),
        )
        return BeamSearchDecoderOutput(best, ids, parents), next_state

    def _length_penalty(self, lengths: Any, dtype: Any) -> Any:
        if isinstance(self._length_weight, (int, float)) and not self._length_weight:
            return tf.ones([], dtype)
        return ((5.0 + tf.cast(lengths, dtype)) / 6.0) ** tf.cast(self._length_weight, dtype)

    def _alignments(self, cell_state: Any) -> Any:
        alignments = getattr(cell_state, "alignments", None)
        if alignments is None or isinstance(alignments, tuple):
            raise ValueError("coverage_penalty_weight needs a cell that is an AttentionWrapper with one mechanism")
        return alignments

    def _follow(self, value: Any, parent_ids: Any, longest: Any) -> Any:
        """Reorders a TensorArray of steps ``[B * K, ...]`` as the hypotheses were; other values are returned."""
        if not isinstance(value, tf.TensorArray):
            return value
        stacked = value.stack()
        shape = tf.shape(stacked)
        by_beam = tf.reshape(stacked, tf.concat([[shape[0], self._batch_size, self._width], shape[2:]], axis=0))
        itself = tf.broadcast_to(tf.range(self._width), tf.shape(parent_ids))
        beams = gather_tree(itself, parent_ids, longest, self._width + 1)
        known = tf.where(beams < self._width, beams, itself)
        return tf.reshape(tf.gather(by_beam, known, batch_dims=2), shape)

    def _has_beams(self, value: Any) -> bool:
        return not isinstance(value, tf.TensorArray) and value.shape.rank != 0

    def _split(self, value: Any) -> Any:
        """[B * K, ...] to [B, K, ...]; scalars and arrays belong to no beam and stay."""
        if not self._has_beams(value):
            return value
        split = tf.reshape(value, tf.concat([[self._batch_size, self._width], tf.shape(value)[1:]], axis=0))
        split.set_shape(tf.TensorShape([None, self._width]).concatenate(value.shape[1:]))
        return split

    def _merge(self, value: Any) -> Any:
        """[B, K, ...] to [B * K, ...]."""
        if not self._has_beams(value):
            return value
        merged = tf.reshape(value, tf.concat([[self._batch_size * self._width], tf.shape(value)[2:]], axis=0))
        merged.set_shape(tf.TensorShape([None]).concatenate(value.shape[2:]))
        return merged


def _coverage(attended: Any) -> Any:
    """Sum over the memory of the log of attention received, at most one each: ``[B, K]``."""
    return tf.reduce_sum(tf.log(tf.minimum(attended, tf.ones_like(attended))), axis=2)


def _tile(value: Any, multiplier: int) -> Any:
    rank = value.shape.rank
    if rank is None or rank < 1:
        raise ValueError(f"tile_batch needs tensors with a batch dim, not of shape {value.shape}")
    tiled = tf.tile(tf.expand_dims(value, 1), [1, multiplier] + [1] * (rank - 1))
    tiled = tf.reshape(tiled, tf.concat([[tf.shape(value)[0] * multiplier], tf.shape(value)[1:]], axis=0))
    static = tf.dimension_value(value.shape[0])
    tiled.set_shape(tf.TensorShape([None if static is None else static * multiplier]).concatenate(value.shape[1:]))
    return tiled
