"""Input by tf.data: every kind of iterator, and pipelines that shuffle, pad, parse and generate."""

from __future__ import annotations

import numpy as np

from tests.numerics.case import case, record_variables
from tests.numerics.data import blobs, plane, sentences


def train_on(tf, x, y):
    """Loss and training op of a small regression on the tensors of an iterator."""
    hidden = tf.layers.dense(x, 6, tf.nn.tanh)
    loss = tf.reduce_mean(tf.square(tf.layers.dense(hidden, 1) - y))
    return loss, tf.train.GradientDescentOptimizer(0.1).minimize(loss)


@case()
def one_shot(tf, record, workdir):
    """A one-shot iterator over shuffled, repeated, uneven batches until the data end."""
    data = tf.data.Dataset.from_tensor_slices(plane(rows=31, width=4)).shuffle(31, seed=3).repeat(2).batch(7)
    x, y = tf.data.make_one_shot_iterator(data).get_next()
    loss, train = train_on(tf, x, y)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        steps = 0
        try:
            while True:
                record("loss", sess.run([loss, train])[0])
                steps += 1
        except tf.errors.OutOfRangeError:
            record("steps", steps)
        record_variables(tf, sess, record)


@case()
def initializable(tf, record, workdir):
    """An initializable iterator over fed placeholders, initialised again at each epoch."""
    features, targets = plane(rows=20, width=4)
    all_x = tf.placeholder(tf.float32, features.shape)
    all_y = tf.placeholder(tf.float32, targets.shape)
    iterator = tf.data.make_initializable_iterator(tf.data.Dataset.from_tensor_slices((all_x, all_y)).batch(7))
    x, y = iterator.get_next()
    loss, train = train_on(tf, x, y)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for epoch in range(3):
            sess.run(iterator.initializer, {all_x: features + 0.1 * epoch, all_y: targets})
            while True:
                try:
                    record("loss", sess.run([loss, train])[0])
                except tf.errors.OutOfRangeError:
                    break
        record_variables(tf, sess, record)


@case()
def reinitializable(tf, record, workdir):
    """One iterator by structure, switched between the training and the validation set."""
    features, targets = plane(rows=40, width=4)
    training = tf.data.Dataset.from_tensor_slices((features[:26], targets[:26])).batch(7)
    validation = tf.data.Dataset.from_tensor_slices((features[26:], targets[26:])).batch(14)
    types, shapes = tf.data.get_output_types(training), tf.data.get_output_shapes(training)
    iterator = tf.data.Iterator.from_structure(types, shapes)
    x, y = iterator.get_next()
    to_training, to_validation = iterator.make_initializer(training), iterator.make_initializer(validation)
    loss, train = train_on(tf, x, y)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(2):
            sess.run(to_training)
            for _ in range(4):
                record("loss", sess.run([loss, train])[0])
            sess.run(to_validation)
            record("validation", sess.run(loss))
        record_variables(tf, sess, record)


@case()
def feedable(tf, record, workdir):
    """A string handle is fed to choose between two iterators that keep their places."""
    features, targets = plane(rows=40, width=4)
    training = tf.data.Dataset.from_tensor_slices((features[:26], targets[:26])).repeat().batch(7)
    validation = tf.data.Dataset.from_tensor_slices((features[26:], targets[26:])).repeat().batch(5)
    handle = tf.placeholder(tf.string, [])
    iterator = tf.data.Iterator.from_string_handle(
        handle, tf.data.get_output_types(training), tf.data.get_output_shapes(training)
    )
    x, y = iterator.get_next()
    loss, train = train_on(tf, x, y)
    training_iterator = tf.data.make_one_shot_iterator(training)
    validation_iterator = tf.data.make_initializable_iterator(validation)
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), validation_iterator.initializer])
        handles = sess.run([training_iterator.string_handle(), validation_iterator.string_handle()])
        for step in range(10):
            record("loss", sess.run([loss, train], {handle: handles[0]})[0])
            if step % 3 == 0:
                record("validation", sess.run(loss, {handle: handles[1]}))
        record_variables(tf, sess, record)


@case()
def from_generator(tf, record, workdir):
    """Examples come from a Python generator."""
    features, targets = plane(rows=36, width=4)

    def examples():
        yield from zip(features, targets)

    data = tf.data.Dataset.from_generator(examples, (tf.float32, tf.float32), ([4], [1])).batch(10)
    x, y = tf.data.make_one_shot_iterator(data).get_next()
    loss, train = train_on(tf, x, y)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(4):
            record("loss", sess.run([loss, train])[0])
        record_variables(tf, sess, record)


@case()
def padded_batches(tf, record, workdir):
    """Sentences of different lengths padded to the longest of their batch, with a masked loss."""
    tokens, lengths = sentences(rows=29, steps=6, vocabulary=11)

    def examples():
        for row, length in zip(tokens, lengths):
            yield row[:length], length

    data = tf.data.Dataset.from_generator(examples, (tf.int32, tf.int32), ([None], []))
    data = data.padded_batch(5, ([None], [])).repeat()
    words, length = tf.data.make_one_shot_iterator(data).get_next()
    table = tf.get_variable("table", [11, 4])
    logits = tf.layers.dense(tf.nn.embedding_lookup(table, words), 11)
    mask = tf.sequence_mask(length, tf.shape(words)[1], dtype=tf.float32)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=words, logits=logits)
    loss = tf.reduce_sum(losses * mask) / tf.reduce_sum(mask)
    train = tf.train.AdamOptimizer(0.05).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(10):
            record("loss", sess.run([loss, train])[0])
        record_variables(tf, sess, record)


@case()
def record_files(tf, record, workdir):
    """TFRecord files of tf.train.Example, parsed in batches."""
    features, labels = blobs(rows=33, width=4, classes=3)
    path = str(workdir / "train.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for row, label in zip(features, labels):
            feature = {
                "x": tf.train.Feature(float_list=tf.train.FloatList(value=row)),
                "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    spec = {"x": tf.FixedLenFeature([4], tf.float32), "y": tf.FixedLenFeature([], tf.int64)}
    data = tf.data.TFRecordDataset(path).repeat().shuffle(20, seed=1).batch(13)
    data = data.map(lambda serialized: tf.parse_example(serialized, spec))
    batch = tf.data.make_one_shot_iterator(data).get_next()
    loss = tf.losses.sparse_softmax_cross_entropy(batch["y"], tf.layers.dense(batch["x"], 3))
    train = tf.train.GradientDescentOptimizer(0.3).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(10):
            value, _, labels = sess.run([loss, train, batch["y"]])
            record("loss", value)
            record("labels", labels)
        record_variables(tf, sess, record)


@case()
def parsed_in_the_graph(tf, record, workdir):
    """Serialized examples leave the iterator as strings and are parsed by the model."""
    features, labels = blobs(rows=20, width=4, classes=3)
    serialized = [
        tf.train.Example(
            features=tf.train.Features(
                feature={
                    "x": tf.train.Feature(float_list=tf.train.FloatList(value=row)),
                    "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
                }
            )
        ).SerializeToString()
        for row, label in zip(features, labels)
    ]
    strings = tf.data.make_one_shot_iterator(
        tf.data.Dataset.from_tensor_slices(np.array(serialized, dtype=object)).repeat().batch(7)
    ).get_next()
    spec = {"x": tf.FixedLenFeature([4], tf.float32), "y": tf.FixedLenFeature([], tf.int64)}
    batch = tf.parse_example(strings, spec)
    loss = tf.losses.sparse_softmax_cross_entropy(batch["y"], tf.layers.dense(batch["x"], 3))
    train = tf.train.GradientDescentOptimizer(0.3).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(10):
            record("loss", sess.run([loss, train])[0])
        record_variables(tf, sess, record)


@case()
def random_map(tf, record, workdir):
    """Data augmentation draws random numbers inside map; one pipeline feeds every device."""
    data = tf.data.Dataset.from_tensor_slices(plane(rows=24, width=4))
    data = data.map(lambda x, y: (x + tf.random_normal([4], stddev=0.1, seed=5), y)).repeat().batch(9)
    x, y = tf.data.make_one_shot_iterator(data).get_next()
    loss, train = train_on(tf, x, y)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(10):
            value, _, inputs = sess.run([loss, train, x])
            record("loss", value)
            record("inputs", inputs)
        record_variables(tf, sess, record)


@case(fixed="the graph holds its number of samples")
def dropped_remainder(tf, record, workdir):
    """A static batch size from drop_remainder, and structured elements."""
    features, targets = plane(rows=32, width=4)
    data = tf.data.Dataset.from_tensor_slices({"inputs": {"x": features}, "y": targets})
    batch = tf.data.make_one_shot_iterator(data.repeat().batch(10, drop_remainder=True)).get_next()
    loss, train = train_on(tf, batch["inputs"]["x"], batch["y"])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(10):
            record("loss", sess.run([loss, train])[0])
        record_variables(tf, sess, record)


@case()
def two_iterators(tf, record, workdir):
    """Inputs and unpaired noise come from two iterators with batches of one size."""
    features, _ = plane(rows=22, width=3)
    first = tf.data.Dataset.from_tensor_slices(features).repeat().batch(7)
    second = tf.data.Dataset.from_tensor_slices(features[::-1].copy()).repeat().batch(7)
    x = tf.data.make_one_shot_iterator(first).get_next()
    z = tf.data.make_one_shot_iterator(second).get_next()
    translated = tf.layers.dense(z, 3, name="translator")
    loss = tf.reduce_mean(tf.abs(translated - x)) + tf.reduce_mean(tf.square(translated))
    train = tf.train.AdamOptimizer(0.05).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            record("loss", sess.run([loss, train])[0])
        record_variables(tf, sess, record)


@case(cut=False, reason="the rows of a sparse tensor are not a dim of its arrays")
def sparse_features(tf, record, workdir):
    """Variable-length features parsed to a SparseTensor and summed by embedding_lookup_sparse."""
    tokens, lengths = sentences(rows=18, steps=5, vocabulary=9)
    serialized = [
        tf.train.Example(
            features=tf.train.Features(
                feature={"words": tf.train.Feature(int64_list=tf.train.Int64List(value=row[:length]))}
            )
        ).SerializeToString()
        for row, length in zip(tokens, lengths)
    ]
    data = tf.data.Dataset.from_tensor_slices((np.array(serialized, dtype=object), lengths.astype(np.float32)))
    strings, target = tf.data.make_one_shot_iterator(data.repeat().batch(5)).get_next()
    words = tf.parse_example(strings, {"words": tf.VarLenFeature(tf.int64)})["words"]
    table = tf.get_variable("table", [9, 3])
    pooled = tf.nn.embedding_lookup_sparse(table, words, None, combiner="sum")
    loss = tf.reduce_mean(tf.square(tf.layers.dense(pooled, 1)[:, 0] - target))
    train = tf.train.GradientDescentOptimizer(0.05).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(10):
            record("loss", sess.run([loss, train])[0])
        record_variables(tf, sess, record)
