"""Reductions over the batch, over other dims, and over both; what is read of their results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.sharding.rows import FED, Inputs, Row

Reduction = Callable[..., Any]


def _reductions(op: str, reduce: Callable[[Any], Reduction], prepare: Callable[[Any, Inputs], Any]) -> Iterator[Row]:
    for name, axis in (("batch", 0), ("other", 1), ("last", -1), ("all", None), ("both", [1, 0]), ("none", [])):
        for keep in (False, True):
            label = f"{op}: {name}{' kept' if keep else ''}"
            yield Row(label, lambda tf, i, a=axis, k=keep: reduce(tf)(prepare(tf, i), a, keepdims=k))
    yield Row(f"{op}: batch on dim 1", lambda tf, i: reduce(tf)(tf.transpose(prepare(tf, i)), 1))
    yield Row(f"{op}: beside the batch on dim 1", lambda tf, i: reduce(tf)(tf.transpose(prepare(tf, i)), 0))
    yield Row(f"{op}: of a vector", lambda tf, i: reduce(tf)(prepare(tf, i)[:, 0]))
    yield Row(f"{op}: after flattening", lambda tf, i: reduce(tf)(tf.reshape(prepare(tf, i), [-1])))


def _floats(tf: Any, i: Inputs) -> Any:
    return i.x


def _bools(tf: Any, i: Inputs) -> Any:
    return i.x > i.y


NUMBERS = [
    *_reductions("Sum", lambda tf: tf.reduce_sum, _floats),
    *_reductions("Mean", lambda tf: tf.reduce_mean, _floats),
    *_reductions("Max", lambda tf: tf.reduce_max, _floats),
    *_reductions("Min", lambda tf: tf.reduce_min, _floats),
    *_reductions("Prod", lambda tf: tf.reduce_prod, _floats),
    *_reductions("All", lambda tf: tf.reduce_all, _bools),
    *_reductions("Any", lambda tf: tf.reduce_any, _bools),
]

OTHERS = [
    Row("L2Loss", lambda tf, i: tf.nn.l2_loss(i.x)),
    Row("L2Loss: of a sum", lambda tf, i: tf.nn.l2_loss(tf.reduce_sum(i.x, 0))),
    Row("ArgMax", lambda tf, i: tf.argmax(i.x, 1)),
    Row("ArgMax: last", lambda tf, i: tf.argmax(i.x, -1)),
    Row("ArgMax: batch", lambda tf, i: tf.argmax(i.x, 0), whole=("ArgMax",)),
    Row("ArgMax: batch on dim 1", lambda tf, i: tf.argmax(tf.transpose(i.x), 0)),
    Row("ArgMin", lambda tf, i: tf.argmin(i.x, 1)),
    Row("Cumsum", lambda tf, i: tf.cumsum(i.x, 1)),
    Row("Cumsum: exclusive, reversed", lambda tf, i: tf.cumsum(i.x, 1, exclusive=True, reverse=True)),
    Row("Cumsum: batch", lambda tf, i: tf.cumsum(i.x, 0)),
    Row("Cumsum: batch, exclusive, reversed", lambda tf, i: tf.cumsum(i.x, 0, exclusive=True, reverse=True)),
    Row("Cumsum: batch on dim 1", lambda tf, i: tf.cumsum(tf.transpose(i.x), 1)),
    Row("Cumsum: doubled batch", lambda tf, i: tf.cumsum(tf.concat([i.x, i.y], 0), 0), modes=FED),
    Row(
        "Cumsum: doubled batch, reversed", lambda tf, i: tf.cumsum(tf.concat([i.x, i.y], 0), 0, reverse=True), modes=FED
    ),
    Row("Cumsum: batch and time merged", lambda tf, i: tf.cumsum(tf.reshape(i.x, [-1, 4]), 0), sample=(3, 4)),
    Row("Cumprod: batch", lambda tf, i: tf.cumprod(i.x, 0)),
    Row("Cumsum: of a sum", lambda tf, i: tf.cumsum(tf.reduce_sum(i.x, 0))),
    Row("Cumprod", lambda tf, i: tf.cumprod(i.x, 1)),
    Row("Sum: of integers", lambda tf, i: tf.reduce_sum(i.ids)),
    Row("Mean: of integers", lambda tf, i: tf.reduce_mean(i.ids)),
    Row("Max: of integers", lambda tf, i: tf.reduce_max(i.ids)),
    Row("Sum: of a mask", lambda tf, i: tf.reduce_sum(tf.cast(i.mask, tf.float32)) * i.w),
    Row("Sum: twice", lambda tf, i: tf.reduce_sum(tf.reduce_sum(i.x, 0))),
    Row("Sum: other then batch", lambda tf, i: tf.reduce_sum(tf.reduce_sum(i.x, 1))),
    Row("Mean: twice", lambda tf, i: tf.reduce_mean(tf.reduce_mean(i.x, 1))),
    Row("Mean: batch then other", lambda tf, i: tf.reduce_mean(tf.reduce_mean(i.x, 0))),
    Row("Max: of a sum", lambda tf, i: tf.reduce_max(tf.reduce_sum(i.x, 0))),
    Row("Mean: of three dims", lambda tf, i: tf.reduce_mean(i.x, [0, 2]), sample=(3, 4)),
    Row("Mean: of outer dims", lambda tf, i: tf.reduce_mean(i.x, [0, 1]), sample=(3, 4)),
    Row("Sum: of middle dims", lambda tf, i: tf.reduce_sum(i.x, [1], keepdims=True), sample=(3, 4)),
    Row("Mean: root of squares", lambda tf, i: tf.sqrt(tf.reduce_mean(tf.square(i.x - i.y)))),
    Row("Mean: masked", lambda tf, i: _masked_mean(tf, i)),
    Row("Mean: moments", lambda tf, i: tf.nn.moments(i.x, [0])),
    Row("Mean: moments of everything", lambda tf, i: tf.nn.moments(i.x, [0, 1])),
    Row("Mean: normalised by moments", lambda tf, i: _normalised(tf, i)),
    Row("Sum: logsumexp over the batch", lambda tf, i: tf.reduce_logsumexp(i.x, 0)),
    Row("Sum: logsumexp", lambda tf, i: tf.reduce_logsumexp(i.x, 1)),
    Row("Sum: softmax over the batch", lambda tf, i: _softmax_over_batch(tf, i)),
    Row("Sum: norm", lambda tf, i: tf.norm(i.x)),
    Row("Sum: norm of rows", lambda tf, i: i.x / tf.norm(i.x, axis=1, keepdims=True)),
    Row("Sum: of squares of sums", lambda tf, i: tf.reduce_sum(tf.square(tf.reduce_sum(i.x, 0)))),
    Row("Sum: variance of an interior dim", lambda tf, i: tf.math.reduce_std(i.x, 1)),
    Row("Mean: zero fraction", lambda tf, i: tf.nn.zero_fraction(tf.nn.relu(i.x))),
    Row("Max: of lengths as a mask", lambda tf, i: tf.sequence_mask(i.ids, 4, tf.float32) * i.x),
    Row("Max: of lengths, open", lambda tf, i: tf.sequence_mask(i.ids), gradient=False),
]


def _masked_mean(tf: Any, i: Inputs) -> Any:
    mask = tf.cast(tf.expand_dims(i.mask, 1), tf.float32)
    return tf.reduce_sum(i.x * mask) / (tf.reduce_sum(mask) + 1e-3)


def _normalised(tf: Any, i: Inputs) -> Any:
    mean, variance = tf.nn.moments(i.x, [0], keep_dims=True)
    return (i.x - mean) * tf.rsqrt(variance + 0.1)


def _softmax_over_batch(tf: Any, i: Inputs) -> Any:
    top = tf.exp(i.x - tf.stop_gradient(tf.reduce_max(i.x, 0, keepdims=True)))
    return top / tf.reduce_sum(top, 0, keepdims=True)


TABLES = {"reductions": NUMBERS, "other reductions": OTHERS}
