"""Batch sizes that input pipelines state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from whale.annotations.capture import capture
from whale.ir.program import Program
from whale.runtime.planning.batch_size import stated_batch

DATA = np.zeros((100, 3), np.float32)


@pytest.fixture
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as made:
        yield made


def stated(graph: tf.Graph, batch: Any) -> int | None:
    return stated_batch(capture(graph, Program({})), batch.name)


def plain(dataset: Any) -> Any:
    return dataset.batch(7)


def shuffled(dataset: Any) -> Any:
    return dataset.shuffle(10).repeat().batch(7).map(lambda rows: rows * 2).prefetch(2)


def padded(dataset: Any) -> Any:
    return dataset.padded_batch(7, [None])


def fused(dataset: Any) -> Any:
    return dataset.apply(tf.data.experimental.map_and_batch(lambda row: row + 1, 7, num_parallel_calls=2))


def parallel(dataset: Any) -> Any:
    return dataset.batch(7, num_parallel_calls=2)


@pytest.mark.parametrize("iterator", [tf.data.make_one_shot_iterator, tf.data.make_initializable_iterator])
@pytest.mark.parametrize("pipeline", [plain, shuffled, padded, fused, parallel])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_a_dataset_states(graph: tf.Graph, pipeline: Any, iterator: Any) -> None:
    batch = iterator(pipeline(tf.data.Dataset.from_tensor_slices(DATA))).get_next()
    assert stated(graph, batch) == 7


def test_what_iterators_of_one_structure_state(graph: tf.Graph) -> None:
    train, test = (tf.data.Dataset.from_tensor_slices(DATA).batch(size) for size in (7, 9))
    iterator = tf.data.Iterator.from_structure(train.output_types, train.output_shapes)
    batch = iterator.get_next()
    iterator.make_initializer(train)
    assert stated(graph, batch) == 7
    iterator.make_initializer(test)
    assert stated(graph, batch) is None


def test_what_queues_state(graph: tf.Graph) -> None:
    queue = tf.FIFOQueue(10, [tf.float32], [[3]])
    assert stated(graph, queue.dequeue_many(5)) == 5
    assert stated(graph, queue.dequeue_up_to(tf.placeholder(tf.int32, []))) is None


def test_rows_that_nobody_batches(graph: tf.Graph) -> None:
    row = tf.data.make_one_shot_iterator(tf.data.Dataset.from_tensor_slices(DATA)).get_next()
    assert stated(graph, row) is None
