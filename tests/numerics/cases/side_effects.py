"""Ops that do something besides computing: py_func, Assert, Print, files, and custom gradients."""

from __future__ import annotations

import numpy as np

from tests.numerics.case import case, record_variables
from tests.numerics.data import batches, plane


def loop(tf, record, x, y, loss, train, fetches=(), rows=20):
    """Three rounds of batches of 7, 7 and 6."""
    features, targets = plane(rows=rows, width=4)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for a, b in batches(7, features, targets):
                value, _, others = sess.run([loss, train, list(fetches)], {x: a, y: b})
                record("loss", value)
                record("fetched", others)
        record_variables(tf, sess, record)


def placeholders(tf):
    """Features [batch, 4] and targets [batch, 1]."""
    return tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])


@case()
def py_func_of_the_batch(tf, record, workdir):
    """A Python function sees the whole batch, once a step, and its result rejoins the rows."""
    x, y = placeholders(tf)
    calls = []

    def ranked(values):
        calls.append(len(values))
        return np.argsort(np.argsort(values[:, 0])).astype(np.float32)[:, None]

    rank = tf.py_func(ranked, [x], tf.float32)
    rank.set_shape([None, 1])
    loss = tf.reduce_mean(tf.square(tf.layers.dense(tf.concat([x, rank], 1), 1) - y))
    loop(tf, record, x, y, loss, tf.train.GradientDescentOptimizer(0.01).minimize(loss), [rank])
    record("calls", calls)


@case()
def py_func_learning_rate(tf, record, workdir):
    """The learning rate comes from a Python function with a memory: one call a step."""
    x, y = placeholders(tf)
    steps = []

    def rate():
        steps.append(1)
        return np.float32(0.1 / len(steps))

    now = tf.py_func(rate, [], tf.float32)
    now.set_shape([])
    loss = tf.reduce_mean(tf.square(tf.layers.dense(x, 1) - y))
    loop(tf, record, x, y, loss, tf.train.GradientDescentOptimizer(now).minimize(loss), [now])


@case()
def assertions(tf, record, workdir):
    """Assert and check ops on the whole batch hold the step; one that fails raises as on one device."""
    features, targets = plane(rows=20, width=4)
    x, y = placeholders(tf)
    checks = [
        tf.assert_less(tf.abs(x), 50.0, message="too large"),
        tf.Assert(tf.reduce_max(x) > tf.reduce_mean(x), [tf.shape(x)]),
        tf.assert_equal(tf.shape(x)[0], tf.shape(y)[0]),
    ]
    with tf.control_dependencies(checks):
        output = tf.layers.dense(tf.identity(x), 1)
    loss = tf.check_numerics(tf.reduce_mean(tf.square(output - y)), "loss")
    train = tf.train.GradientDescentOptimizer(0.05).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step, (a, b) in enumerate(batches(7, features, targets)):
            record("loss", sess.run([loss, train], {x: a, y: b})[0])
            try:
                sess.run(train, {x: a + (100.0 if step == 1 else 0.0), y: b})
                record("raised", "nothing")
            except tf.errors.InvalidArgumentError as error:
                record("raised", "too large" in error.message)
        record_variables(tf, sess, record)


@case()
def printing(tf, record, workdir):
    """tf.Print on the way of the loss and tf.print in the control dependencies do not change the numbers."""
    x, y = placeholders(tf)
    path = f"file://{workdir / 'log.txt'}"
    w = tf.get_variable("w", [4, 1])
    output = tf.matmul(x, w)
    loss = tf.reduce_mean(tf.square(output - y))
    with tf.control_dependencies([tf.print("loss", loss, "rows", tf.shape(x)[0], output_stream=path)]):
        noted = tf.identity(loss)
    noted = tf.Print(noted, [tf.shape(x)], message="", first_n=0)
    loop(tf, record, x, y, noted, tf.train.GradientDescentOptimizer(0.05).minimize(noted))
    lines = (workdir / "log.txt").read_text().splitlines()
    record("rows", [line.split()[-1] for line in lines])


@case()
def files_written(tf, record, workdir):
    """A file holds what the last step saw: written once, from the whole batch."""
    x, y = placeholders(tf)
    path = str(workdir / "last")
    text = tf.strings.reduce_join(tf.as_string(tf.argmax(x, axis=1)), axis=0)
    loss = tf.reduce_mean(tf.square(tf.layers.dense(x, 1) - y))
    with tf.control_dependencies([tf.io.write_file(path, text)]):
        train = tf.train.GradientDescentOptimizer(0.05).minimize(loss)
    loop(tf, record, x, y, loss, train, [text])
    record("file", (workdir / "last").read_text())


@case()
def custom_gradients(tf, record, workdir):
    """tf.custom_gradient, gradient_override_map and a gradient reversed by stop_gradient."""
    x, y = placeholders(tf)
    name = f"Damped{id(tf.get_default_graph())}"

    @tf.RegisterGradient(name)
    def _damped(op, gradient):
        return 0.5 * gradient * (1.0 - tf.square(op.outputs[0]))

    @tf.custom_gradient
    def rounded(value):
        return tf.round(value * 4.0) / 4.0, lambda gradient: gradient

    with tf.get_default_graph().gradient_override_map({"Tanh": name}):
        hidden = tf.tanh(tf.layers.dense(x, 5))
    hidden = rounded(hidden)
    reversed_gradient = 2.0 * tf.stop_gradient(hidden) - hidden
    loss = tf.reduce_mean(tf.square(tf.layers.dense(hidden, 1) - y))
    loss += 0.1 * tf.reduce_mean(tf.square(tf.layers.dense(reversed_gradient, 1)))
    loop(tf, record, x, y, loss, tf.train.GradientDescentOptimizer(0.05).minimize(loss), [hidden])


@case()
def summaries_of_the_batch(tf, record, workdir):
    """merge_all fetched beside the step: scalars, histograms and images speak of the whole batch."""
    x, y = placeholders(tf)
    output = tf.layers.dense(x, 1)
    loss = tf.reduce_mean(tf.square(output - y))
    tf.summary.scalar("loss", loss)
    tf.summary.scalar("largest", tf.reduce_max(x))
    tf.summary.histogram("inputs", x)
    merged = tf.summary.merge_all()
    train = tf.train.GradientDescentOptimizer(0.05).minimize(loss)
    features, targets = plane(rows=20, width=4)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        writer = tf.summary.FileWriter(str(workdir), sess.graph)
        for step, (a, b) in enumerate(batches(7, features, targets)):
            text, _ = sess.run([merged, train], {x: a, y: b})
            writer.add_summary(text, step)
            for value in tf.Summary.FromString(text).value:
                record(value.tag, np.float32(value.simple_value))
                record("counts", list(value.histo.bucket))
        writer.close()
        record_variables(tf, sess, record)


@case()
def summaries_of_images(tf, record, workdir):
    """Histograms, images, sounds and tensors of what is cut, and histograms of gradients: one text for the batch."""
    x = tf.placeholder(tf.float32, [None, 6, 6, 3])
    hidden = tf.layers.conv2d(x, 3, 3, activation=tf.nn.relu, padding="same")
    loss = tf.reduce_mean(tf.square(hidden - 1.0))
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    gradients = optimizer.compute_gradients(loss)
    tf.summary.histogram("hidden", hidden)
    tf.summary.image("pixels", x, max_outputs=2)
    tf.summary.image("maps", hidden, max_outputs=10)
    tf.summary.audio("sound", tf.reshape(x, [-1, 108, 1]), 8000, max_outputs=4)
    tf.summary.tensor_summary("corner", hidden[:, 0, 0])
    for gradient, variable in gradients:
        tf.summary.histogram(variable.op.name, gradient)
    fetches = [tf.summary.merge_all(), optimizer.apply_gradients(gradients)]
    random = np.random.RandomState(0)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for size in (8, 7, 5, 1):
            text = sess.run(fetches, {x: random.randn(size, 6, 6, 3)})[0]
            for value in tf.Summary.FromString(text).value:
                kind = value.WhichOneof("value")
                if kind == "histo":
                    record(value.tag, [value.histo.num, value.histo.sum, value.histo.sum_squares, *value.histo.bucket])
                elif kind == "image":
                    record(value.tag, tf.io.decode_png(value.image.encoded_image_string).eval())
                elif kind == "audio":
                    record(value.tag, list(value.audio.encoded_audio_string))
                else:
                    record(value.tag, tf.make_ndarray(value.tensor))
        record_variables(tf, sess, record)
