"""Loops over the samples of a batch: those that every copy goes through for its own, and those that run whole."""

from __future__ import annotations

from typing import Any

from tests.sharding.ops_control import make_cell
from tests.sharding.rows import Build, Inputs, Row

SEQUENCE = (3, 4)


def _pair(tf: Any, i: Inputs) -> Any:
    made = tf.map_fn(lambda p: (p[0] * p[1] * i.w, tf.reduce_sum(p[0])), (i.x, i.y), dtype=(tf.float32, tf.float32))
    return made


def _branching(tf: Any, i: Inputs) -> Any:
    def one(pair: Any) -> Any:
        return tf.cond(pair[1] > 1, lambda: tf.tanh(pair[0]) * i.w, lambda: pair[0] + i.w)

    return tf.map_fn(one, (i.x, i.ids), dtype=tf.float32)


def _looping(tf: Any, i: Inputs) -> Any:
    def one(pair: Any) -> Any:
        step = lambda n, h: (n + 1, tf.tanh(h * i.w + pair[0]))  # noqa: E731
        return tf.while_loop(lambda n, h: n < pair[1], step, (0, pair[0]))[1]

    return tf.map_fn(one, (i.x, i.ids), dtype=tf.float32)


def _recurrent(tf: Any, i: Inputs) -> Any:
    def one(sequence: Any) -> Any:
        return tf.nn.dynamic_rnn(make_cell(tf, i.w), tf.expand_dims(sequence, 0), dtype=tf.float32)[1]

    return tf.map_fn(one, i.x)


def _attending(tf: Any, i: Inputs) -> Any:
    """Every sample looks at the whole batch."""

    def one(h: Any) -> Any:
        return tf.reduce_sum(tf.nn.sigmoid(tf.reduce_sum(i.y * h, 1))[:, None] * i.x, 0)

    return tf.map_fn(one, i.x)


def _adapted(tf: Any, i: Inputs) -> Any:
    """A gradient step for each sample, and what is then made of it."""

    def one(h: Any) -> Any:
        weights = tf.identity(i.w)
        (slope,) = tf.gradients(tf.reduce_sum(tf.square(h * weights)), [weights])
        return tf.tanh(h * (weights - 0.1 * slope))

    return tf.map_fn(one, i.x)


def _conditional(tf: Any, i: Inputs) -> Any:
    return tf.cond(i.w[0] > 0.1, lambda: tf.map_fn(lambda h: tf.tanh(h) * i.w, i.x), lambda: i.x)


def _repeated(tf: Any, i: Inputs) -> Any:
    """A loop within a loop: it runs whole."""
    step = lambda n, h: (n + 1, tf.map_fn(lambda r: tf.tanh(r) * i.w, h))  # noqa: E731
    return tf.while_loop(lambda n, h: n < 2, step, (0, i.x))[1]


def _over(body: Any, start: Any = 0, steps: Any = lambda i: i.b) -> Build:
    """A loop written by hand that carries a vector; ``body(tf, i, array, n, carried)`` makes the next one."""

    def build(tf: Any, i: Inputs) -> Any:
        array = tf.TensorArray(tf.float32, i.b, clear_after_read=False).unstack(i.x)
        step = lambda n, h: (n + 1, body(tf, i, array, n, h))  # noqa: E731
        return tf.while_loop(lambda n, h: n < steps(i), step, (start, tf.zeros([4])))[1]

    return build


def _written(value: Any) -> Build:
    """A loop written by hand that fills an array; ``value(tf, i, array, n)`` makes its elements."""

    def build(tf: Any, i: Inputs) -> Any:
        array = tf.TensorArray(tf.float32, i.b, clear_after_read=False).unstack(i.x)
        made = tf.TensorArray(tf.float32, i.b)
        step = lambda n, out: (n + 1, out.write(n, value(tf, i, array, n)))  # noqa: E731
        made = tf.while_loop(lambda n, out: n < i.b, step, (0, made))[1]
        return made.stack(), made.size()

    return build


def _backwards(tf: Any, i: Inputs) -> Any:
    array, made = tf.TensorArray(tf.float32, i.b).unstack(i.x), tf.TensorArray(tf.float32, i.b)
    step = lambda n, out: (n - 1, out.write(n, array.read(n) * i.w))  # noqa: E731
    return tf.while_loop(lambda n, out: n >= 0, step, (i.b - 1, made))[1].stack()


def _stopping(tf: Any, i: Inputs) -> Any:
    """A loop that ends with the first sample of a kind."""
    array = tf.TensorArray(tf.float32, i.b, clear_after_read=False).unstack(i.x)

    def goes_on(n: Any, h: Any) -> Any:
        return tf.logical_and(n < i.b, tf.reduce_sum(array.read(tf.minimum(n, i.b - 1))) < 0.5)

    return tf.while_loop(goes_on, lambda n, h: (n + 1, h + array.read(n)), (0, tf.zeros([4])))[1]


OWN = [
    Row("map", lambda tf, i: tf.map_fn(lambda h: tf.tanh(h) * i.w, i.x)),
    Row("map: twice", lambda tf, i: tf.map_fn(tf.tanh, tf.map_fn(lambda h: h * i.w, i.x) * i.y)),
    Row("map: of pairs", _pair),
    Row("map: with a conditional", _branching),
    Row("map: with a loop of each sample's length", _looping),
    Row(
        "map: within a map", lambda tf, i: tf.map_fn(lambda h: tf.map_fn(lambda r: tf.tanh(r) * i.w, h), i.x), SEQUENCE
    ),
    Row("map: with an rnn", _recurrent, SEQUENCE),
    Row("map: of images", lambda tf, i: tf.map_fn(lambda h: tf.image.flip_left_right(h[:, :, None]), i.x), SEQUENCE),
    Row("map: reads the batch", _attending),
    Row("map: reads a mean", lambda tf, i: tf.map_fn(lambda h: tf.tanh(h - tf.reduce_mean(i.x, 0)), i.x)),
    Row("map: inner gradients", _adapted),
    Row("map: looks up rows", lambda tf, i: tf.map_fn(lambda k: tf.gather(i.square, k), i.ids, dtype=tf.float32) * i.y),
    Row(
        "map: numbers of samples",
        lambda tf, i: tf.map_fn(lambda p: p[0] * tf.to_float(p[1]), (i.x, tf.range(i.b)), dtype=tf.float32),
    ),
    Row(
        "map: beside a whole tensor",
        lambda tf, i: tf.map_fn(lambda p: p[0] * p[1], (i.x, tf.ones([i.b, 4]) * i.w), dtype=tf.float32),
    ),
    Row(
        "map: pieces of sequences",
        lambda tf, i: tf.map_fn(
            lambda p: tf.reduce_sum(p[0][: p[1]], 0), (i.x, tf.minimum(i.ids, 3)), dtype=tf.float32
        ),
        SEQUENCE,
    ),
    Row("map: in a conditional", _conditional),
    Row("fold: a sum", lambda tf, i: tf.foldl(lambda a, h: a + tf.tanh(h * i.w), i.x, tf.zeros([4]))),
    Row("while: a sum", _over(lambda tf, i, array, n, h: h + array.read(n) * i.w)),
    Row("while: a sum of the same", _over(lambda tf, i, array, n, h: h + (i.w + 0.0 * array.read(n)))),
    Row("while: an array", _written(lambda tf, i, array, n: array.read(n) * i.w)),
]

SCATTER = ("TensorArrayScatterV3",)

VECTORIZED = [
    Row("vectorized_map", lambda tf, i: tf.vectorized_map(lambda h: tf.tanh(h) * i.w, i.x)),
    Row(
        "vectorized_map: a product", lambda tf, i: tf.vectorized_map(lambda h: tf.tanh(h @ i.square)[1], i.x), SEQUENCE
    ),
    Row("vectorized_map: a mean", lambda tf, i: tf.vectorized_map(lambda h: tf.reduce_mean(h * i.w, 0), i.x), SEQUENCE),
    Row(
        "vectorized_map: over what was computed",
        lambda tf, i: tf.vectorized_map(lambda h: tf.nn.softmax(h) * h[:1], tf.tanh(i.x * i.w)),
        SEQUENCE,
    ),
]

WHOLE = [
    Row("map: in a loop", _repeated, whole=SCATTER),
    Row("map: of two batches", lambda tf, i: tf.map_fn(lambda h: h * i.w, tf.concat([i.x, i.y], 0)), whole=SCATTER),
    Row("map: prints", lambda tf, i: tf.map_fn(lambda h: tf.Print(h, [h], first_n=0), i.x), whole=SCATTER),
    Row(
        "map: elements of open size",
        lambda tf, i: tf.map_fn(lambda h: tf.pad(h, [[0, tf.size(tf.where(i.w > 0.1))]]), i.x),
        whole=SCATTER,
    ),
    Row("fold", lambda tf, i: tf.foldl(lambda a, h: tf.tanh(a + h), i.x), whole=SCATTER),
    Row("fold: a sum from ones", lambda tf, i: tf.foldl(lambda a, h: a + tf.tanh(h), i.x, tf.ones([4])), whole=SCATTER),
    Row("scan", lambda tf, i: tf.scan(lambda a, h: tf.tanh(a + h), i.x, tf.zeros([4])), whole=SCATTER),
    Row("while: a maximum", _over(lambda tf, i, array, n, h: tf.maximum(h, array.read(n) * i.w)), whole=SCATTER),
    Row(
        "while: all but the last",
        _over(lambda tf, i, array, n, h: h + array.read(n), 0, lambda i: i.b - 1),
        whole=SCATTER,
    ),
    Row("while: all but the first", _over(lambda tf, i, array, n, h: h + array.read(n), 1), whole=SCATTER),
    Row("while: running sums", _over(lambda tf, i, array, n, h: h + tf.tanh(h + array.read(n))), whole=SCATTER),
    Row(
        "while: counts the samples",
        _written(lambda tf, i, array, n: array.read(n) * tf.to_float(n)),
        whole=SCATTER,
    ),
    Row(
        "while: reads the next",
        _written(lambda tf, i, array, n: array.read(n) * array.read(tf.minimum(n + 1, i.b - 1))),
        whole=SCATTER,
    ),
    Row("while: until a sample says so", _stopping, whole=SCATTER),
    Row("while: backwards", _backwards, whole=SCATTER),
]

TABLES = {"loops over samples": [*OWN, *WHOLE], "vectorized maps": VECTORIZED}
