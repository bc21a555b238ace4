"""Sequence models over lists of tensors, one per step, as in the first versions of TensorFlow.

Letters in shapes: B sequences, D width of a state or embedding, C classes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from whale_tf1.ports.legacy_attention import attention_decoder
from whale_tf1.ports.legacy_decoder import LoopFunction, rnn_decoder
from whale_tf1.ports.rnn_wrappers import EmbeddingWrapper, OutputProjectionWrapper

__all__ = [
    "basic_rnn_seq2seq",
    "embedding_attention_decoder",
    "embedding_attention_seq2seq",
    "embedding_rnn_decoder",
    "embedding_rnn_seq2seq",
    "embedding_tied_rnn_seq2seq",
    "tied_rnn_seq2seq",
]


def basic_rnn_seq2seq(
    encoder_inputs: Sequence[Any], decoder_inputs: Sequence[Any], cell: Any, dtype: Any = tf.float32, scope: Any = None
) -> tuple[list[Any], Any]:
    """An encoder whose last state starts a decoder of the same kind, with its own variables."""
    with tf.variable_scope(scope or "basic_rnn_seq2seq"):
        _, state = tf.nn.static_rnn(copy.deepcopy(cell), encoder_inputs, dtype=dtype)
        return rnn_decoder(decoder_inputs, state, cell)


def tied_rnn_seq2seq(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    cell: Any,
    loop_function: LoopFunction | None = None,
    dtype: Any = tf.float32,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """An encoder and a decoder that share all variables."""
    with tf.variable_scope("combined_tied_rnn_seq2seq"):
        name = scope or "tied_rnn_seq2seq"
        _, state = tf.nn.static_rnn(cell, encoder_inputs, dtype=dtype, scope=name)
        tf.get_variable_scope().reuse_variables()
        return rnn_decoder(decoder_inputs, state, cell, loop_function=loop_function, scope=name)


def embedding_rnn_decoder(
    decoder_inputs: Sequence[Any],
    initial_state: Any,
    cell: Any,
    num_symbols: int,
    embedding_size: int,
    output_projection: tuple[Any, Any] | None = None,
    feed_previous: bool = False,
    update_embedding_for_previous: bool = True,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """A decoder over int32 ids ``[B]``; with ``feed_previous`` it reads the id it found most likely.

    Raises:
        ValueError: the projection ``(weights [D, C], biases [C])`` does not give ``num_symbols``.
    """
    with tf.variable_scope(scope or "embedding_rnn_decoder"):
        if output_projection is not None:
            output_projection[0].shape.assert_is_compatible_with([None, num_symbols])
            output_projection[1].shape.assert_is_compatible_with([num_symbols])
        embedding = tf.get_variable("embedding", [num_symbols, embedding_size])
        feedback = None
        if feed_previous:
            feedback = _feed_back(embedding, output_projection, update_embedding_for_previous)
        return rnn_decoder(_embed(embedding, decoder_inputs), initial_state, cell, loop_function=feedback)


def embedding_rnn_seq2seq(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    cell: Any,
    num_encoder_symbols: int,
    num_decoder_symbols: int,
    embedding_size: int,
    output_projection: tuple[Any, Any] | None = None,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """Ids in, ids out; ``feed_previous`` may be a bool tensor."""
    with tf.variable_scope(scope or "embedding_rnn_seq2seq", dtype=dtype) as opened:
        encoder = EmbeddingWrapper(
            copy.deepcopy(cell), embedding_classes=num_encoder_symbols, embedding_size=embedding_size
        )
        _, state = tf.nn.static_rnn(encoder, encoder_inputs, dtype=dtype or opened.dtype)
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, num_decoder_symbols)

        def decode(feed: bool) -> tuple[list[Any], Any]:
            return embedding_rnn_decoder(
                decoder_inputs,
                state,
                cell,
                num_decoder_symbols,
                embedding_size,
                output_projection=output_projection,
                feed_previous=feed,
            )

        return _by_feeding(decode, feed_previous)


def embedding_tied_rnn_seq2seq(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    cell: Any,
    num_symbols: int,
    embedding_size: int,
    num_decoder_symbols: int | None = None,
    output_projection: tuple[Any, Any] | None = None,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """Ids in, ids out, with one embedding and one cell for both sides."""
    with tf.variable_scope(scope or "embedding_tied_rnn_seq2seq", dtype=dtype) as opened:
        embedding = tf.get_variable("embedding", [num_symbols, embedding_size], dtype=dtype or opened.dtype)
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, num_decoder_symbols or num_symbols)

        def decode(feed: bool) -> tuple[list[Any], Any]:
            feedback = _feed_back(embedding, output_projection, True) if feed else None
            inputs, targets = _embed(embedding, encoder_inputs), _embed(embedding, decoder_inputs)
            return tied_rnn_seq2seq(inputs, targets, cell, loop_function=feedback, dtype=dtype or opened.dtype)

        return _by_feeding(decode, feed_previous)


def embedding_attention_decoder(
    decoder_inputs: Sequence[Any],
    initial_state: Any,
    attention_states: Any,
    cell: Any,
    num_symbols: int,
    embedding_size: int,
    num_heads: int = 1,
    output_size: int | None = None,
    output_projection: tuple[Any, Any] | None = None,
    feed_previous: bool = False,
    update_embedding_for_previous: bool = True,
    dtype: Any = None,
    scope: Any = None,
    initial_state_attention: bool = False,
) -> tuple[list[Any], Any]:
    """The attention decoder over int32 ids ``[B]``."""
    with tf.variable_scope(scope or "embedding_attention_decoder", dtype=dtype):
        embedding = tf.get_variable("embedding", [num_symbols, embedding_size])
        feedback = None
        if feed_previous:
            feedback = _feed_back(embedding, output_projection, update_embedding_for_previous)
        return attention_decoder(
            _embed(embedding, decoder_inputs),
            initial_state,
            attention_states,
            cell,
            output_size=output_size,
            num_heads=num_heads,
            loop_function=feedback,
            initial_state_attention=initial_state_attention,
        )


def embedding_attention_seq2seq(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    cell: Any,
    num_encoder_symbols: int,
    num_decoder_symbols: int,
    embedding_size: int,
    num_heads: int = 1,
    output_projection: tuple[Any, Any] | None = None,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
    initial_state_attention: bool = False,
) -> tuple[list[Any], Any]:
    """Ids in, ids out, the decoder attending to all encoder outputs; ``feed_previous`` may be a bool tensor."""
    with tf.variable_scope(scope or "embedding_attention_seq2seq", dtype=dtype) as opened:
        encoder = EmbeddingWrapper(
            copy.deepcopy(cell), embedding_classes=num_encoder_symbols, embedding_size=embedding_size
        )
        encoded, state = tf.nn.static_rnn(encoder, encoder_inputs, dtype=dtype or opened.dtype)
        memory = tf.stack(encoded, axis=1)
        output_size = None
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, num_decoder_symbols)
            output_size = num_decoder_symbols

        def decode(feed: bool) -> tuple[list[Any], Any]:
            return embedding_attention_decoder(
                decoder_inputs,
                state,
                memory,
                cell,
                num_decoder_symbols,
                embedding_size,
                num_heads=num_heads,
                output_size=output_size,
                output_projection=output_projection,
                feed_previous=feed,
                initial_state_attention=initial_state_attention,
            )

        return _by_feeding(decode, feed_previous)


def _feed_back(embedding: Any, projection: tuple[Any, Any] | None, update: bool) -> LoopFunction:
    def feed(previous: Any, _: int) -> Any:
        if projection is not None:
            previous = tf.nn.xw_plus_b(previous, projection[0], projection[1])
        embedded = tf.nn.embedding_lookup(embedding, tf.argmax(previous, 1))
        return embedded if update else tf.stop_gradient(embedded)

    return feed


def _embed(embedding: Any, ids: Sequence[Any]) -> list[Any]:
    return [tf.nn.embedding_lookup(embedding, value) for value in ids]


def _by_feeding(decode: Callable[[bool], tuple[list[Any], Any]], feed_previous: Any) -> tuple[list[Any], Any]:
    """Decodes once, or both ways under tf.cond when ``feed_previous`` is a tensor."""
    if isinstance(feed_previous, bool):
        return decode(feed_previous)
    structure: list[Any] = []

    def branch(feed: bool) -> list[Any]:
        with tf.variable_scope(tf.get_variable_scope(), reuse=None if feed else True):
            outputs, state = decode(feed)
        if not structure:
            structure.append(state)
        return [*outputs, *tf.nest.flatten(state)]

    results = tf.cond(feed_previous, lambda: branch(True), lambda: branch(False))
    count = len(results) - len(tf.nest.flatten(structure[0]))
    return results[:count], tf.nest.pack_sequence_as(structure[0], results[count:])
