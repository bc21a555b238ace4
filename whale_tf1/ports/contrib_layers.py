"""Pieces of ``tf.contrib.layers`` that tf-slim left out: encoders and embeddings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

__all__ = ["bow_encoder", "embed_sequence", "embedding_lookup_unique", "safe_embedding_lookup_sparse"]

safe_embedding_lookup_sparse = tf.nn.safe_embedding_lookup_sparse


def embed_sequence(
    ids: Any,
    vocab_size: int | None = None,
    embed_dim: int | None = None,
    unique: bool = False,
    initializer: Any = None,
    regularizer: Callable[[Any], Any] | None = None,
    trainable: bool = True,
    scope: Any = None,
    reuse: bool | None = None,
) -> Any:
    """Embeddings ``[batch, length, embed_dim]`` of int ids ``[batch, length]``.

    The variable ``embeddings`` is made in the scope ``EmbedSequence``; with ``reuse`` its shape may be left out.

    Raises:
        ValueError: ``vocab_size`` or ``embed_dim`` is missing.
    """
    if not reuse and (vocab_size is None or embed_dim is None):
        raise ValueError(f"vocab_size={vocab_size} and embed_dim={embed_dim}: both are needed to make the embeddings")
    with tf.variable_scope(scope, "EmbedSequence", [ids], reuse=reuse):
        shape = None if vocab_size is None or embed_dim is None else [vocab_size, embed_dim]
        table = tf.get_variable(
            "embeddings",
            shape,
            initializer=initializer,
            regularizer=regularizer,
            trainable=trainable,
            collections=[tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.MODEL_VARIABLES],
        )
        return (embedding_lookup_unique if unique else tf.nn.embedding_lookup)(table, ids)


def bow_encoder(
    ids: Any,
    vocab_size: int,
    embed_dim: int,
    sparse_lookup: bool = True,
    initializer: Any = None,
    regularizer: Callable[[Any], Any] | None = None,
    trainable: bool = True,
    scope: Any = None,
    reuse: bool | None = None,
) -> Any:
    """Mean embedding ``[batch, embed_dim]`` of the ids of each row, dense or a SparseTensor."""
    with tf.variable_scope(scope, "bow_encoder", [ids], reuse=reuse):
        table = tf.get_variable(
            "embeddings",
            [vocab_size, embed_dim],
            initializer=initializer,
            regularizer=regularizer,
            trainable=trainable,
            collections=[tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.MODEL_VARIABLES],
        )
        if not sparse_lookup and not isinstance(ids, tf.SparseTensor):
            return tf.reduce_mean(tf.nn.embedding_lookup(table, ids), axis=1)
        if not isinstance(ids, tf.SparseTensor):
            positions = tf.where(tf.ones_like(ids, tf.bool))
            ids = tf.SparseTensor(positions, tf.reshape(ids, [-1]), tf.shape(ids, out_type=tf.int64))
        return tf.nn.safe_embedding_lookup_sparse([table], ids, None, combiner="mean")


def embedding_lookup_unique(params: Any, ids: Any, partition_strategy: str = "mod", name: str | None = None) -> Any:
    """``tf.nn.embedding_lookup`` that looks each distinct id up once."""
    with tf.name_scope(name, "EmbeddingLookupUnique", [params, ids]):
        ids = tf.convert_to_tensor(ids)
        distinct, positions = tf.unique(tf.reshape(ids, [-1]))
        rows = tf.gather(tf.nn.embedding_lookup(params, distinct, partition_strategy), positions)
        result = tf.reshape(rows, tf.concat([tf.shape(ids), tf.shape(rows)[1:]], axis=0))
        result.set_shape(ids.shape.concatenate(rows.shape[1:]))
        return result
