"""The parts of ``tf.contrib.learn`` that are not estimators."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from whale_tf1.ports.feature_columns import real_valued_column

__all__ = [
    "ModeKeys",
    "infer_real_valued_columns_from_input",
    "infer_real_valued_columns_from_input_fn",
    "read_batch_examples",
]


class ModeKeys:
    """What a model function is called for; these values differ from ``tf.estimator.ModeKeys.PREDICT``."""

    TRAIN = "train"
    EVAL = "eval"
    INFER = "infer"


ModelFnOps = collections.namedtuple(
    "ModelFnOps", ("mode", "predictions", "loss", "train_op", "eval_metric_ops"), defaults=(None,) * 4
)


def infer_real_valued_columns_from_input(x: Any) -> list[Any]:
    """One dense column, without a name, as wide as the rows of ``x``."""
    width = int(np.prod(np.shape(x)[1:]))
    return [real_valued_column("", dimension=width)]


def infer_real_valued_columns_from_input_fn(input_fn: Any) -> list[Any]:
    """One dense column per feature that ``input_fn`` makes."""
    with tf.Graph().as_default():
        features, _ = input_fn()
        named = features if isinstance(features, dict) else {"": features}
        return [
            real_valued_column(name, dimension=int(np.prod(value.shape.as_list()[1:])))
            for name, value in sorted(named.items())
        ]


def read_batch_examples(
    file_pattern: Any,
    batch_size: int,
    reader: Any,
    randomize_input: bool = True,
    num_epochs: int | None = None,
    queue_capacity: int = 10000,
    num_threads: int = 1,
    read_batch_size: int = 1,
    parse_fn: Any = None,
    name: str | None = None,
    seed: int | None = None,
) -> Any:
    """Batches of serialized records from files, by queues ``[batch_size]``."""
    with tf.name_scope(name, "read_batch_examples"):
        files = tf.train.match_filenames_once(file_pattern)
        names = tf.train.string_input_producer(files, num_epochs=num_epochs, shuffle=randomize_input, seed=seed)
        _, record = reader().read(names)
        value = record if parse_fn is None else parse_fn(record)
        if not randomize_input:
            return tf.train.batch([value], batch_size, num_threads, queue_capacity, allow_smaller_final_batch=True)
        return tf.train.shuffle_batch(
            [value],
            batch_size,
            queue_capacity,
            min_after_dequeue=queue_capacity // 2,
            num_threads=num_threads,
            seed=seed,
            allow_smaller_final_batch=True,
        )
