"""What may be fetched, and in which structures."""

from __future__ import annotations

import collections

import numpy as np

from tests.numerics.case import case, record_variables
from tests.numerics.data import batches, blobs, plane


def model(tf):
    """Placeholders, output, loss and training op of a linear model."""
    x, y = tf.placeholder(tf.float32, [None, 4], name="x"), tf.placeholder(tf.float32, [None, 1], name="y")
    output = tf.matmul(x, tf.get_variable("w", [4, 1]), name="output")
    loss = tf.reduce_mean(tf.square(output - y), name="loss")
    return x, y, output, loss, tf.train.GradientDescentOptimizer(0.1).minimize(loss)


@case()
def nested_structures(tf, record, workdir):
    """Dicts, tuples, named tuples and lists of lists, with ops (None) among them."""
    features, targets = plane(rows=20, width=4)
    x, y, output, loss, train = model(tf)
    Result = collections.namedtuple("Result", ["loss", "rest"])
    fetches = {"a": Result(loss, [output, (train, [tf.shape(x), []])]), "b": (loss, {"c": output[:2]})}
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for a, b in batches(7, features, targets):
                result = sess.run(fetches, {x: a, y: b})
                record("result", result)
                record("type", type(result["a"]).__name__)
        record_variables(tf, sess, record)


@case()
def duplicates_and_names(tf, record, workdir):
    """The same tensor fetched twice, a placeholder fetched, tensors and ops fetched by name and fed by name."""
    features, targets = plane(rows=20, width=4)
    model(tf)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for a, b in batches(7, features, targets):
                names = ["loss:0", "loss:0", "x:0", "output:0", "GradientDescent"]
                record("values", sess.run(names, {"x:0": a, "y:0": b}))
        record_variables(tf, sess, record)


@case()
def strings(tf, record, workdir):
    """String fetches: one a row, one a batch, one constant."""
    features, targets = plane(rows=20, width=4)
    x, y, _, loss, train = model(tf)
    each = tf.strings.join(["row ", tf.as_string(tf.argmax(x, 1))])
    whole = tf.strings.join([tf.as_string(tf.shape(x)[0]), " rows"])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for a, b in batches(7, features, targets):
            record("strings", sess.run([each, whole, tf.constant("constant"), train], {x: a, y: b})[:3])
            record("loss", sess.run(loss, {x: a, y: b}))
        record_variables(tf, sess, record)


@case()
def gradients_alone(tf, record, workdir):
    """Gradients are fetched without an update; the script makes the update in numpy and assigns it."""
    features, targets = plane(rows=20, width=4)
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
    w = tf.get_variable("w", [4, 1])
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - y))
    (gradient,) = tf.gradients(loss, [w])
    fed = tf.placeholder(tf.float32, [4, 1])
    train = tf.train.AdamOptimizer(0.05).apply_gradients([(fed, w)])
    whole = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for a, b in batches(7, features, targets):
            parts = [sess.run(gradient, {x: a[i : i + 3], y: b[i : i + 3]}) for i in range(0, len(a), 3)]
            record("gradients", parts)
            sess.run(train, {fed: np.mean(parts, axis=0)})
            record("loss", sess.run([loss, whole], {x: a, y: b})[0])
        record_variables(tf, sess, record)


@case()
def every_kind_of_reduction(tf, record, workdir):
    """Sums, means, extremes, norms, quantities per row and per column, sizes and positions of one batch."""
    features, targets = plane(rows=20, width=4)
    x, y, output, loss, train = model(tf)
    error = output - y
    fetches = {
        "sum": tf.reduce_sum(error),
        "mean": tf.reduce_mean(x, axis=0),
        "max": tf.reduce_max(x, axis=0),
        "min": tf.reduce_min(error),
        "norm": tf.norm(error),
        "rows": tf.reduce_sum(x, axis=1),
        "size": tf.size(x),
        "shape": tf.shape(x),
        "best": tf.argmax(error, axis=0),
        "std": tf.math.reduce_std(x, axis=0),
        "logsumexp": tf.reduce_logsumexp(error),
        "product": tf.reduce_prod(1.0 + 0.1 * error),
        "any": tf.reduce_any(error > 2.0),
        "gram": tf.matmul(x, x, transpose_a=True),
        "kernel": tf.matmul(x, x, transpose_b=True),
        "first": x[0],
        "last": x[-1, :2],
        "transposed": tf.transpose(x),
    }
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for a, b in batches(7, features, targets):
            value, _, others = sess.run([loss, train, fetches], {x: a, y: b})
            record("loss", value)
            record("fetches", others)
        record_variables(tf, sess, record)


@case()
def predictions_by_row(tf, record, workdir):
    """Class, probability, top-k and correctness of every row, in the batch's order."""
    features, labels = blobs(rows=27, width=4, classes=4)
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.int32, [None])
    logits = tf.layers.dense(x, 4)
    loss = tf.losses.sparse_softmax_cross_entropy(y, logits)
    train = tf.train.GradientDescentOptimizer(0.3).minimize(loss)
    top = tf.nn.top_k(logits, 2)
    fetches = [tf.argmax(logits, 1), tf.nn.softmax(logits), top.values, top.indices, tf.nn.in_top_k(logits, y, 1)]
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for a, b in batches(10, features, labels):
                value, _, rows = sess.run([loss, train, fetches], {x: a, y: b})
                record("loss", value)
                record("rows", rows)
        record_variables(tf, sess, record)


@case()
def run_options_and_metadata(tf, record, workdir):
    """A step under RunOptions(trace_level=FULL_TRACE) computes the same and returns step statistics."""
    features, targets = plane(rows=20, width=4)
    x, y, _, loss, train = model(tf)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for a, b in batches(7, features, targets):
            metadata = tf.RunMetadata()
            options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
            record("loss", sess.run([loss, train], {x: a, y: b}, options=options, run_metadata=metadata)[0])
            record("traced", bool(metadata.step_stats.dev_stats))
        record_variables(tf, sess, record)


@case()
def two_outputs_of_one_op(tf, record, workdir):
    """Ops with several outputs (split, unique, top_k, moments) fetched one output at a time."""
    features, targets = plane(rows=20, width=4)
    x, y, _, loss, train = model(tf)
    left, right = tf.split(x, 2, axis=1)
    mean, variance = tf.nn.moments(x, axes=[0])
    values, positions = tf.unique(tf.cast(tf.round(x[:, 0]), tf.int32))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for a, b in batches(7, features, targets):
            got = sess.run([loss, right, variance, positions, train], {x: a, y: b})
            record("got", got[:4])
            record("other", sess.run([left, mean, values], {x: a}))
        record_variables(tf, sess, record)
