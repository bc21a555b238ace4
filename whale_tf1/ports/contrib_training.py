"""Batches of sequences of similar lengths, by queues."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

__all__ = ["bucket", "bucket_by_sequence_length"]


def bucket(
    tensors: Any,
    which_bucket: Any,
    batch_size: int | Sequence[int],
    num_buckets: int,
    num_threads: int = 1,
    capacity: int = 32,
    bucket_capacities: Sequence[int] | None = None,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    keep_input: Any = True,
    shared_name: str | None = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Collects examples in a queue for each bucket, and hands out whole batches of one.

    Args:
        tensors: one example: a list or a dict of tensors.
        which_bucket: int32 scalar: its bucket.
        batch_size: of every bucket, or of each.
        num_buckets: number of buckets.
        num_threads: threads that read examples.
        capacity: batches that may wait, and examples that may wait in a bucket.
        bucket_capacities: the latter for each bucket.
        shapes: of the tensors; None: as the graph knows them.
        dynamic_pad: whether open dims are padded to the longest of a batch.
        allow_smaller_final_batch: whether what is left at the end is handed out too.
        keep_input: bool scalar: whether the example is kept.
        shared_name: of the queue of batches.
        name: of the ops.

    Returns:
        The bucket of a batch, and the batch in the form of ``tensors``.
    """
    values, in_form = _listed(tensors)
    with tf.name_scope(name, "bucket"):
        example = [tf.convert_to_tensor(value) for value in values]
        which = tf.cast(which_bucket, tf.int32)
        sizes = [batch_size] * num_buckets if isinstance(batch_size, int) else list(batch_size)
        rooms = bucket_capacities or [capacity] * num_buckets
        types = [value.dtype.base_dtype for value in example]
        own = [tf.TensorShape(shape) for shape in shapes] if shapes is not None else [value.shape for value in example]
        kind = tf.PaddingFIFOQueue if dynamic_pad else tf.FIFOQueue
        queues = [kind(room, types, own, name=f"bucket_queue_{at}") for at, room in enumerate(rooms)]
        batches = tf.PaddingFIFOQueue(
            capacity,
            [tf.int32, *types],
            [tf.TensorShape([]), *(tf.TensorShape([None]).concatenate(shape) for shape in own)],
            shared_name=shared_name,
            name="top_queue",
        )
        entering = [
            tf.cond(
                tf.logical_and(tf.convert_to_tensor(keep_input), tf.equal(which, at)),
                lambda queue=queue: tf.group(queue.enqueue(example)),
                tf.no_op,
            )
            for at, queue in enumerate(queues)
        ]
        ends = (tf.errors.OutOfRangeError, tf.errors.CancelledError)
        _run(queues[0], [tf.group(*entering)] * num_threads, [queue.close() for queue in queues], ends)
        handing = []
        for at, (queue, size) in enumerate(zip(queues, sizes)):
            taken = queue.dequeue_up_to(size) if allow_smaller_final_batch else queue.dequeue_many(size)
            rows = taken if isinstance(taken, (list, tuple)) else [taken]
            handing.append(batches.enqueue([tf.constant(at), *rows]))
        _run(batches, handing, [batches.close()], ends)
        bucket_of, *found = batches.dequeue()
        fixed = None if allow_smaller_final_batch or len(set(sizes)) > 1 else sizes[0]
        for value, shape in zip(found, own):
            value.set_shape(tf.TensorShape([fixed]).concatenate(shape))
    return bucket_of, in_form(found)


def bucket_by_sequence_length(
    input_length: Any,
    tensors: Any,
    batch_size: int | Sequence[int],
    bucket_boundaries: Sequence[int],
    num_threads: int = 1,
    capacity: int = 32,
    bucket_capacities: Sequence[int] | None = None,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    keep_input: Any = True,
    shared_name: str | None = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """``bucket`` by the lengths of sequences: a bucket holds lengths from one boundary up to below the next.

    Args:
        input_length: int scalar: the length of the example.
        bucket_boundaries: in ascending order; there is one bucket more.

    The others are those of ``bucket``.

    Returns:
        The lengths in a batch, and the batch in the form of ``tensors``.
    """
    length = tf.cast(input_length, tf.int32)
    which = tf.reduce_sum(tf.cast(length >= tf.constant(list(bucket_boundaries), tf.int32), tf.int32))
    values, in_form = _listed(tensors)
    own = None if shapes is None else [[], *shapes]
    _, found = bucket(
        [length, *values],
        which,
        batch_size,
        len(bucket_boundaries) + 1,
        num_threads,
        capacity,
        bucket_capacities,
        own,
        dynamic_pad,
        allow_smaller_final_batch,
        keep_input,
        shared_name,
        name,
    )
    lengths, *rest = found
    return lengths, in_form(rest)


def _listed(tensors: Any) -> tuple[list[Any], Callable[[Sequence[Any]], Any]]:
    """The tensors of an example as a list, and the function that puts such a list back into their form."""
    if not isinstance(tensors, dict):
        return list(tensors), list
    keys = sorted(tensors)
    return [tensors[key] for key in keys], lambda values: dict(zip(keys, values))


def _run(queue: Any, enqueuing: Sequence[Any], closing: Sequence[Any], ends: Any) -> None:
    """Has threads fill a queue, and close what they fill at the end of the data."""
    close = tf.group(*closing)
    tf.train.add_queue_runner(
        tf.train.QueueRunner(queue, enqueuing, close_op=close, cancel_op=close, queue_closed_exception_types=ends)
    )
