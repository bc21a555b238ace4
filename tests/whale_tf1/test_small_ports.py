"""data, lookup, image, nn, learn, mnist and feature columns."""

from __future__ import annotations

import gzip
import pathlib

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from whale.errors import SetupError
from whale.installed import has_module

pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning")


def elements(dataset: tf.data.Dataset) -> list[list[int]]:
    iterator = tf.data.make_one_shot_iterator(dataset).get_next()
    found = []
    with tf.Session() as session:
        while True:
            try:
                found.append(session.run(iterator).tolist())
            except tf.errors.OutOfRangeError:
                return found


def test_dataset_transformations() -> None:
    from tensorflow.contrib import data

    with tf.Graph().as_default():
        numbers = tf.data.Dataset.range(5)
        assert elements(numbers.apply(data.batch_and_drop_remainder(2))) == [[0, 1], [2, 3]]
        assert elements(numbers.apply(data.sliding_window_batch(3, 2))) == [[0, 1, 2], [2, 3, 4]]
        ragged = numbers.map(lambda n: tf.fill([n], n))
        assert elements(ragged.apply(data.padded_batch_and_drop_remainder(2, [None])))[1] == [[2, 2, 0], [3, 3, 3]]
        assert elements(numbers.apply(data.map_and_batch(lambda n: n * 2, 5))) == [[0, 2, 4, 6, 8]]
        pinned = numbers.batch(5).apply(data.assert_element_shape([5]))
        assert tf.data.get_output_shapes(pinned).as_list() == [5]
        pairs = tf.data.Dataset.zip((numbers, numbers)).batch(5).apply(data.assert_element_shape(([5], [None])))
        assert tf.data.get_output_shapes(pairs)[0].as_list() == [5]
        reducer = data.Reducer(lambda _: np.int64(0), lambda total, n: total + n, lambda total: total)
        with tf.Session() as session:
            assert session.run(data.reduce_dataset(numbers, reducer)) == 10


def test_threads_of_a_dataset() -> None:
    from tensorflow.contrib.data.python.ops import threadpool

    with tf.Graph().as_default():
        pool = threadpool.PrivateThreadPool(3, display_name="input", max_intra_op_parallelism=2)
        numbers = threadpool.override_threadpool(tf.data.Dataset.range(5).map(lambda n: n + 1).batch(5), pool)
        assert numbers.options().threading.private_threadpool_size == 3
        assert numbers.options().threading.max_intra_op_parallelism == 2
        assert elements(numbers) == [[1, 2, 3, 4, 5]]


def test_lookup_tables(tmp_path: pathlib.Path) -> None:
    from tensorflow.contrib import lookup

    path = tmp_path / "words"
    path.write_text("a\nb\n")
    with tf.Graph().as_default(), tf.Session() as session:
        words = tf.constant(["b", "a", "x"])
        file_table = lookup.string_to_index_table_from_file(str(path))
        results = [
            lookup.index_table_from_file(str(path)).lookup(words),
            file_table.lookup(words),
            lookup.string_to_index(words, ["a", "b"]),
            lookup.index_to_string(tf.constant([1, 0, 9], tf.int64), ["a", "b"]),
            lookup.HashTable(lookup.KeyValueTensorInitializer(["a", "b"], [5, 6]), -1).lookup(words),
        ]
        session.run(tf.tables_initializer())
        found = session.run(results)
    assert [value.tolist() for value in found[:3]] == [[1, 0, -1]] * 3
    assert found[3].tolist() == [b"b", b"a", b"UNK"]
    assert found[4].tolist() == [6, 5, -1]


def test_image_transforms() -> None:
    from tensorflow.contrib import image

    picture = np.arange(12, dtype=np.float32).reshape(3, 4)
    square = np.arange(9, dtype=np.float32).reshape(3, 3)
    with tf.Graph().as_default(), tf.Session() as session:
        turned = session.run(image.rotate(tf.constant(square), np.pi / 2))
        half = session.run(image.rotate(tf.constant(picture), np.pi))
        moved = session.run(image.translate(tf.constant(picture)[None, :, :, None], [1.0, 0.0]))[0, :, :, 0]
        twice = image.compose_transforms(*[image.translations_to_projective_transforms([1.0, 0.0])] * 2)
        further = session.run(image.transform(tf.constant(picture), twice))
    np.testing.assert_array_equal(turned, np.rot90(square))
    np.testing.assert_array_equal(half, picture[::-1, ::-1])
    np.testing.assert_array_equal(moved[:, 1:], picture[:, :-1])
    assert not moved[:, 0].any()
    np.testing.assert_array_equal(further[:, 2:], picture[:, :-2])


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    from tensorflow.contrib.nn import alpha_dropout

    values = np.random.RandomState(0).randn(200000).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        found = session.run(alpha_dropout(tf.constant(values), 0.8, seed=1))
        same = session.run(alpha_dropout(tf.constant(values), 1.0))
    assert found.mean() == pytest.approx(0, abs=0.02) and found.var() == pytest.approx(1, abs=0.02)
    np.testing.assert_array_equal(same, values)


def write_idx(path: pathlib.Path, array: np.ndarray) -> None:
    header = np.array([{1: 2049, 3: 2051}[array.ndim], *array.shape], ">u4").tobytes()
    path.write_bytes(gzip.compress(header + array.astype(np.uint8).tobytes()))


def test_mnist_files_are_read_and_given_out_in_batches(tmp_path: pathlib.Path) -> None:
    from tensorflow.examples.tutorials.mnist import input_data

    for part, count in (("train", 10), ("t10k", 4)):
        pixels = np.arange(count)[:, None, None] + np.zeros((count, 28, 28))
        write_idx(tmp_path / f"{part}-images-idx3-ubyte.gz", pixels)
        write_idx(tmp_path / f"{part}-labels-idx1-ubyte.gz", np.arange(count))
    sets = input_data.read_data_sets(str(tmp_path), one_hot=True, validation_size=3, seed=0)
    assert [part.num_examples for part in sets] == [7, 3, 4]
    assert sets.test.images.shape == (4, 784) and sets.test.images[3, 0] == pytest.approx(3 / 255)
    seen = []
    for _ in range(2):
        images, labels = sets.train.next_batch(5)
        seen += labels.argmax(axis=1).tolist()
        np.testing.assert_allclose(images[:, 0] * 255, labels.argmax(axis=1), atol=1e-4)
    assert sorted(seen[:7]) == list(range(3, 10)) and sets.train.epochs_completed == 1


def test_missing_mnist_files_are_named(tmp_path: pathlib.Path) -> None:
    from tensorflow.examples.tutorials.mnist import input_data

    with pytest.raises(SetupError, match=r"train-images-idx3-ubyte\.gz") as caught:
        input_data.read_data_sets(str(tmp_path))
    assert "t10k-labels-idx1-ubyte.gz" in str(caught.value)
    (tmp_path / "train-images-idx3-ubyte").write_bytes(b"something else")
    with pytest.raises(SetupError, match="not a file of the MNIST"):
        input_data.read_data_sets(str(tmp_path))


def test_vocabulary_processor(tmp_path: pathlib.Path) -> None:
    from tensorflow.contrib import learn

    processor = learn.preprocessing.VocabularyProcessor(4)
    rows = np.array(list(processor.fit_transform(["the cat sat", "the dog sat on the mat"])))
    assert rows.tolist() == [[1, 2, 3, 0], [1, 4, 3, 5]]
    assert len(processor.vocabulary_) == 7
    processor.save(str(tmp_path / "words"))
    again = learn.preprocessing.VocabularyProcessor.restore(str(tmp_path / "words"))
    assert [row.tolist() for row in again.transform(["a dog"])] == [[0, 4, 0, 0]]
    assert next(iter(again.reverse([[1, 4]]))) == "the dog"
    rare = learn.preprocessing.VocabularyProcessor(3, min_frequency=1)
    assert np.array(list(rare.fit_transform(["a a b", "a c c"]))).tolist() == [[1, 1, 0], [1, 2, 2]]


def test_feature_columns_under_their_first_names() -> None:
    from tensorflow.contrib import layers

    with tf.Graph().as_default(), tf.Session() as session:
        features = {"x": tf.constant([[1.0], [5.0]]), "word": tf.constant([["a"], ["b"]])}
        number = layers.real_valued_column("x")
        word = layers.sparse_column_with_keys("word", ["a", "b"])
        width = layers.input_from_feature_columns(
            features, [number, layers.bucketized_column(number, [3.0]), layers.one_hot_column(word)]
        )
        session.run(tf.tables_initializer())
        assert session.run(width).tolist() == [[1, 0, 1, 1, 0], [0, 1, 0, 1, 5]] or width.shape[1] == 5


@pytest.mark.skipif(not has_module("tf_slim"), reason="tf-slim is not installed")
@pytest.mark.parametrize("weighted", [False, True])
def test_the_correlation_of_all_values_seen(weighted: bool) -> None:
    import tensorflow as tf1

    draw = np.random.RandomState(4)
    labels = draw.rand(3, 8).astype(np.float32)
    predictions = labels + draw.rand(3, 8).astype(np.float32)
    weights = np.arange(8, dtype=np.float32) if weighted else None
    with tf.Graph().as_default(), tf.Session() as session:
        p, y = tf.placeholder(tf.float32, [8]), tf.placeholder(tf.float32, [8])
        value, update = tf1.contrib.metrics.streaming_pearson_correlation(p, y, weights)
        session.run(tf.local_variables_initializer())
        for seen in range(3):
            updated = session.run(update, {p: predictions[seen], y: labels[seen]})
        found = session.run(value)
    covariance = np.cov(predictions.ravel(), labels.ravel(), aweights=None if weights is None else np.tile(weights, 3))
    expected = covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])
    np.testing.assert_allclose([found, updated], [expected, expected], rtol=1e-4)


@pytest.mark.parametrize("as_dict", [False, True])
def test_sequences_of_similar_lengths_come_in_one_batch(as_dict: bool) -> None:
    import tensorflow as tf1

    lengths = np.array([1, 5, 2, 6, 1, 7, 5, 2], np.int32)
    with tf.Graph().as_default(), tf.Session() as session:
        (length,) = tf.train.slice_input_producer([tf.constant(lengths)], num_epochs=1, shuffle=False)
        sequence = tf.range(length)
        given = {"s": sequence} if as_dict else [sequence]
        found, batch = tf1.contrib.training.bucket_by_sequence_length(
            length, given, 2, [4], dynamic_pad=True, allow_smaller_final_batch=True
        )
        padded = batch["s"] if as_dict else batch[0]
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        seen: list[int] = []
        with pytest.raises(tf.errors.OutOfRangeError):
            while True:
                sizes, rows = session.run([found, padded])
                assert len({size >= 4 for size in sizes}) == 1 and rows.shape == (len(sizes), max(sizes))
                assert all(row[:size].tolist() == list(range(size)) for row, size in zip(rows, sizes))
                seen += sizes.tolist()
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=20)
    assert sorted(seen) == sorted(lengths.tolist())


def test_epl_memory_profiler(tmp_path: pathlib.Path) -> None:
    from epl.profiler.memory_profiler_hook import MemoryProfilerHook

    with pytest.raises(ValueError, match="save_steps is 6, above max_steps"):
        MemoryProfilerHook(save_steps=6)
    with tf.Graph().as_default():
        with pytest.raises(RuntimeError, match="needs a global step"):
            MemoryProfilerHook().begin()
        step = tf.train.get_or_create_global_step()
        x = tf.random.uniform([64, 1024])
        train = tf.group(step.assign_add(1), tf.reduce_sum(tf.matmul(x, x, transpose_b=True)))
        hook = MemoryProfilerHook(save_steps=2, max_steps=5, output_dir=str(tmp_path / "out"), dump_metadata=True)
        with tf.train.MonitoredSession(hooks=[hook]) as session:
            for _ in range(8):
                session.run(train)
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    cpu = "job-localhost-replica-0-task-0-device-CPU-0.csv"
    assert names == [f"profile_step_{n}_{cpu}" for n in (3, 5)] + [f"run_metadata_{n}.bin" for n in (3, 5)]
    rows = [row.split(",") for row in (tmp_path / "out" / names[0]).read_text().split()]
    assert rows[0] == ["time", "name", "allocated_bytes", "held_bytes"]
    assert max(int(row[3]) for row in rows[1:]) >= 64 * 1024 * 4
    total = 0
    for _, _, size, held in rows[1:]:
        total += int(size)
        assert int(held) == total
