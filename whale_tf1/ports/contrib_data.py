"""Functions of ``tf.contrib.data`` that became arguments and methods of Dataset."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

__all__ = [
    "PrivateThreadPool",
    "assert_element_shape",
    "batch_and_drop_remainder",
    "override_threadpool",
    "padded_batch_and_drop_remainder",
    "read_batch_features",
    "reduce_dataset",
    "sliding_window_batch",
    "sloppy_interleave",
]

Transform = Callable[[tf.data.Dataset], tf.data.Dataset]


def batch_and_drop_remainder(batch_size: Any) -> Transform:
    """Full batches only."""
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def padded_batch_and_drop_remainder(batch_size: Any, padded_shapes: Any, padding_values: Any = None) -> Transform:
    """Full padded batches only."""
    return lambda dataset: dataset.padded_batch(batch_size, padded_shapes, padding_values, drop_remainder=True)


def sloppy_interleave(map_func: Callable[..., Any], cycle_length: int, block_length: int = 1) -> Transform:
    """Interleaving that does not wait for a slow input: the order is not deterministic."""
    return tf.data.experimental.parallel_interleave(map_func, cycle_length, block_length, sloppy=True)


def sliding_window_batch(
    window_size: int, stride: int | None = None, window_shift: int | None = None, window_stride: int = 1
) -> Transform:
    """Batches of neighbours that overlap; ``stride`` is the older name of ``window_shift``.

    Raises:
        ValueError: both names are used.
    """
    if stride is not None and window_shift is not None:
        raise ValueError("give stride or window_shift, not both")
    shift = window_shift or stride or 1

    def batch(*parts: Any) -> Any:
        whole = _element(parts)
        if isinstance(whole, tuple):
            return tf.data.Dataset.zip(tuple(part.batch(window_size) for part in whole))
        return whole.batch(window_size)

    return lambda dataset: dataset.window(window_size, shift, window_stride, drop_remainder=True).flat_map(batch)


def assert_element_shape(expected_shapes: Any) -> Transform:
    """Gives elements a static shape, checked against the one they have.

    Raises:
        ValueError: (when applied) the shapes contradict each other.
    """

    def pin(*parts: Any) -> Any:
        whole = _element(parts)

        def one(tensor: Any, shape: Any) -> Any:
            checked = tf.ensure_shape(tensor, shape)
            checked.set_shape(shape)
            return checked

        flat_shapes = [tf.TensorShape(shape) for shape in _flatten_shapes(expected_shapes, whole)]
        flat = [one(tensor, shape) for tensor, shape in zip(tf.nest.flatten(whole), flat_shapes)]
        return tf.nest.pack_sequence_as(whole, flat)

    return lambda dataset: dataset.map(pin)


def reduce_dataset(dataset: Any, reducer: Any) -> Any:
    """One value from all elements, by a ``Reducer``."""
    folded = dataset.reduce(reducer.init_func(tf.constant(0, tf.int64)), reducer.reduce_func)
    return reducer.finalize_func(folded)


@dataclasses.dataclass(frozen=True)
class PrivateThreadPool:
    """Threads that belong to one dataset."""

    num_threads: int
    """Number of threads."""
    display_name: str | None = None
    """Its name in logs; TensorFlow 2 names these threads itself."""
    max_intra_op_parallelism: int = 1
    """Threads that one op of the dataset may use."""


def override_threadpool(dataset: Any, thread_pool: PrivateThreadPool) -> Any:
    """The dataset, its elements made by the threads of the pool."""
    options = tf.data.Options()
    options.threading.private_threadpool_size = thread_pool.num_threads
    options.threading.max_intra_op_parallelism = thread_pool.max_intra_op_parallelism
    return dataset.with_options(options)


def read_batch_features(
    file_pattern: Any,
    batch_size: int,
    features: Any,
    reader: Any = tf.data.TFRecordDataset,
    reader_args: Any = None,
    randomize_input: bool = True,
    num_epochs: int | None = None,
    capacity: int = 10000,
) -> Any:
    """The next batch of parsed Examples from files."""
    dataset = tf.data.experimental.make_batched_features_dataset(
        file_pattern,
        batch_size,
        features,
        reader=reader,
        reader_args=reader_args,
        shuffle=randomize_input,
        num_epochs=num_epochs,
        shuffle_buffer_size=capacity,
    )
    return tf.data.make_one_shot_iterator(dataset).get_next()


def _element(parts: tuple[Any, ...]) -> Any:
    """An element as it was before the dataset passed a tuple of several as separate arguments."""
    return parts if len(parts) != 1 else parts[0]


def _flatten_shapes(shapes: Any, like: Any) -> list[Any]:
    """Shapes in the order of the tensors of ``like``; a shape itself may be written as a list."""
    if not isinstance(like, (tuple, dict)):
        return [shapes]
    if isinstance(like, dict):
        return [shape for key in sorted(like) for shape in _flatten_shapes(shapes[key], like[key])]
    return [shape for part, inner in zip(shapes, like) for shape in _flatten_shapes(part, inner)]
