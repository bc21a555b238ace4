"""Feature columns under their first names, made of ``tf.feature_column``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

__all__ = [
    "bucketized_column",
    "crossed_column",
    "embedding_column",
    "input_from_feature_columns",
    "one_hot_column",
    "parse_feature_columns_from_examples",
    "real_valued_column",
    "sparse_column_with_hash_bucket",
    "sparse_column_with_integerized_feature",
    "sparse_column_with_keys",
    "sparse_column_with_vocabulary_file",
    "weighted_sparse_column",
]


def real_valued_column(
    column_name: str,
    dimension: int = 1,
    default_value: Any = None,
    dtype: Any = tf.float32,
    normalizer: Callable[[Any], Any] | None = None,
) -> Any:
    """A dense column of ``dimension`` numbers."""
    return tf.feature_column.numeric_column(column_name, (dimension,), default_value, dtype, normalizer)


def bucketized_column(source_column: Any, boundaries: Sequence[float]) -> Any:
    """A dense column cut into ranges."""
    return tf.feature_column.bucketized_column(source_column, list(boundaries))


def crossed_column(columns: Iterable[Any], hash_bucket_size: int, combiner: str = "sum", **unused: Any) -> Any:
    """The cross of several columns, hashed; the weights of one example are always summed."""
    return tf.feature_column.crossed_column(list(columns), hash_bucket_size)


def embedding_column(
    sparse_id_column: Any,
    dimension: int,
    combiner: str = "mean",
    initializer: Any = None,
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
) -> Any:
    """Embeddings of a sparse column."""
    return tf.feature_column.embedding_column(
        sparse_id_column, dimension, combiner, initializer, ckpt_to_load_from, tensor_name_in_ckpt, max_norm, trainable
    )


def one_hot_column(sparse_id_column: Any) -> Any:
    """One (or multi) hot vectors of a sparse column."""
    return tf.feature_column.indicator_column(sparse_id_column)


def sparse_column_with_hash_bucket(
    column_name: str, hash_bucket_size: int, combiner: str = "sum", dtype: Any = tf.string, hash_keys: Any = None
) -> Any:
    """Strings or integers, hashed into buckets."""
    return tf.feature_column.categorical_column_with_hash_bucket(column_name, hash_bucket_size, dtype)


def sparse_column_with_integerized_feature(
    column_name: str, bucket_size: int, combiner: str = "sum", dtype: Any = tf.int64
) -> Any:
    """Integers from 0 to ``bucket_size`` - 1."""
    return tf.feature_column.categorical_column_with_identity(column_name, bucket_size)


def sparse_column_with_keys(
    column_name: str, keys: Sequence[Any], default_value: int = -1, combiner: str = "sum", dtype: Any = tf.string
) -> Any:
    """The values of a list, by their position."""
    return tf.feature_column.categorical_column_with_vocabulary_list(column_name, list(keys), dtype, default_value)


def sparse_column_with_vocabulary_file(
    column_name: str,
    vocabulary_file: str,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    combiner: str = "sum",
    dtype: Any = tf.string,
) -> Any:
    """The lines of a file, by their number."""
    return tf.feature_column.categorical_column_with_vocabulary_file(
        column_name,
        vocabulary_file,
        vocab_size,
        num_oov_buckets=num_oov_buckets,
        default_value=None if num_oov_buckets else default_value,
        dtype=dtype,
    )


def weighted_sparse_column(sparse_id_column: Any, weight_column_name: str, dtype: Any = tf.float32) -> Any:
    """A sparse column whose entries carry weights from another feature."""
    return tf.feature_column.weighted_categorical_column(sparse_id_column, weight_column_name, dtype)


def input_from_feature_columns(
    columns_to_tensors: dict[Any, Any], feature_columns: Iterable[Any], *unused: Any, **ignored: Any
) -> Any:
    """The input layer ``[batch, width]`` of dense columns."""
    return tf.feature_column.input_layer(columns_to_tensors, list(feature_columns))


def parse_feature_columns_from_examples(
    serialized: Any, feature_columns: Iterable[Any], name: str | None = None, example_names: Any = None
) -> dict[str, Any]:
    """Parses serialized Examples into the features that the columns read."""
    spec = tf.feature_column.make_parse_example_spec(list(feature_columns))
    return tf.parse_example(serialized, spec, name=name, example_names=example_names)
