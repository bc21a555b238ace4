"""Input by queues and queue runners: one filling thread each, so that the order is fixed."""

from __future__ import annotations

import numpy as np

from tests.numerics.case import case, record_variables
from tests.numerics.data import blobs, plane


def fit(tf, x, y):
    """Loss and training op of a linear model."""
    loss = tf.reduce_mean(tf.square(tf.layers.dense(x, 1) - y))
    return loss, tf.train.GradientDescentOptimizer(0.1).minimize(loss)


@case()
def slices_and_batch(tf, record, workdir):
    """slice_input_producer and tf.train.batch under a Coordinator."""
    one_x, one_y = tf.train.slice_input_producer(list(plane(rows=23, width=4)), shuffle=True, seed=2)
    x, y = tf.train.batch([one_x, one_y], batch_size=7)
    loss, train = fit(tf, x, y)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess, coordinator)
        for _ in range(10):
            value, _, rows = sess.run([loss, train, x])
            record("loss", value)
            record("rows", rows)
        coordinator.request_stop()
        coordinator.join(threads)
        record_variables(tf, sess, record)


@case()
def epochs_until_the_end(tf, record, workdir):
    """Two epochs, a smaller final batch, and the loop that ends with OutOfRange."""
    one_x, one_y = tf.train.slice_input_producer(list(plane(rows=15, width=4)), num_epochs=2, shuffle=False)
    x, y = tf.train.batch([one_x, one_y], batch_size=8, allow_smaller_final_batch=True)
    loss, train = fit(tf, x, y)
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess, coordinator)
        try:
            while not coordinator.should_stop():
                record("loss", sess.run([loss, train])[0])
        except tf.errors.OutOfRangeError:
            record("end", "out of range")
        finally:
            coordinator.request_stop()
        coordinator.join(threads)
        record_variables(tf, sess, record)


@case(fixed="the script enqueues as many as it takes: with fewer, taking waits")
def enqueued_by_hand(tf, record, workdir):
    """The script enqueues examples itself and the model dequeues batches."""
    features, targets = plane(rows=40, width=4)
    queue = tf.FIFOQueue(100, [tf.float32, tf.float32], [[4], [1]])
    fill_x = tf.placeholder(tf.float32, [None, 4])
    fill_y = tf.placeholder(tf.float32, [None, 1])
    fill = queue.enqueue_many([fill_x, fill_y])
    x, y = queue.dequeue_many(10)
    loss, train = fit(tf, x, y)
    size = queue.size()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(2):
            sess.run(fill, {fill_x: features, fill_y: targets})
            for _ in range(3):
                record("loss", sess.run([loss, train])[0])
            record("left", sess.run(size))
        record_variables(tf, sess, record)


@case()
def text_lines(tf, record, workdir):
    """A CSV file read by a queue of names, a line reader and decode_csv."""
    features, labels = blobs(rows=19, width=3, classes=3)
    path = workdir / "points.csv"
    path.write_text("".join(f"{a:.4f},{b:.4f},{c:.4f},{y}\n" for (a, b, c), y in zip(features, labels)))
    names = tf.train.string_input_producer([str(path)], shuffle=False)
    _, line = tf.TextLineReader().read(names)
    a, b, c, label = tf.decode_csv(line, [[0.0], [0.0], [0.0], [0]])
    x, y = tf.train.batch([tf.stack([a, b, c]), label], batch_size=6)
    loss = tf.losses.sparse_softmax_cross_entropy(y, tf.layers.dense(x, 3))
    train = tf.train.GradientDescentOptimizer(0.3).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess, coordinator)
        for _ in range(10):
            record("loss", sess.run([loss, train])[0])
        coordinator.request_stop()
        coordinator.join(threads)
        record_variables(tf, sess, record)


@case(
    cut=False,
    reason="the source is a scalar from a queue; the batch starts at a slice of a constant",
    fixed="the graph holds its data, and how many samples of them a step takes",
)
def position_from_a_queue(tf, record, workdir):
    """The PTB way: a queue of positions, each a slice of one constant [batch, length] array."""
    text = tf.constant(np.random.RandomState(0).randint(0, 9, (6, 41)), tf.int32)
    index = tf.train.range_input_producer(8, shuffle=False).dequeue()
    x = tf.strided_slice(text, [0, index * 5], [6, (index + 1) * 5])
    y = tf.strided_slice(text, [0, index * 5 + 1], [6, (index + 1) * 5 + 1])
    x.set_shape([6, 5])
    y.set_shape([6, 5])
    table = tf.get_variable("table", [9, 4])
    loss = tf.losses.sparse_softmax_cross_entropy(y, tf.layers.dense(tf.nn.embedding_lookup(table, x), 9))
    train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess, coordinator)
        for _ in range(10):
            record("loss", sess.run([loss, train])[0])
        coordinator.request_stop()
        coordinator.join(threads)
        record_variables(tf, sess, record)


@case()
def padding_queue(tf, record, workdir):
    """A PaddingFIFOQueue of sequences of different lengths."""
    random = np.random.RandomState(0)
    queue = tf.PaddingFIFOQueue(50, [tf.float32, tf.float32], [[None, 2], []])
    one, target = tf.placeholder(tf.float32, [None, 2]), tf.placeholder(tf.float32, [])
    put = queue.enqueue([one, target])
    x, y = queue.dequeue_many(5)
    loss = tf.reduce_mean(tf.square(tf.layers.dense(tf.reduce_sum(x, axis=1), 1)[:, 0] - y))
    train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(8):
            for _ in range(5):
                row = random.randn(random.randint(1, 5), 2)
                sess.run(put, {one: row, target: row.sum()})
            record("loss", sess.run([loss, train])[0])
        record_variables(tf, sess, record)
