"""Transformers and the gathering ops that models use on their rows."""

from __future__ import annotations

import numpy as np

from tests.numerics.case import case, record_variables
from tests.numerics.data import batches, blobs, sentences


@case()
def encoder(tf, record, workdir):
    """A transformer block as BERT writes it: dynamic reshapes, additive mask, layer norm, GELU, pooler."""
    tokens, lengths = sentences(rows=20, steps=5, vocabulary=9)
    x, length, y = (
        tf.placeholder(tf.int32, [None, 5]),
        tf.placeholder(tf.int32, [None]),
        tf.placeholder(tf.int32, [None]),
    )
    rows, heads, size = tf.shape(x)[0], 2, 3
    hidden = tf.nn.embedding_lookup(tf.get_variable("table", [9, 6]), x) + tf.get_variable("positions", [5, 6])[None]
    bias = (1.0 - tf.sequence_mask(length, 5, dtype=tf.float32))[:, None, None, :] * -10000.0

    def norm(value, name):
        mean, variance = tf.nn.moments(value, [-1], keep_dims=True)
        gain = tf.get_variable(name, [6], initializer=tf.ones_initializer())
        return gain * (value - mean) * tf.rsqrt(variance + 1e-6)

    def split_heads(value, bias=True):
        projected = tf.layers.dense(value, 6, use_bias=bias)
        return tf.transpose(tf.reshape(projected, [rows, 5, heads, size]), [0, 2, 1, 3])

    # Softmax does not see a bias of the keys: its gradient is rounding noise, which Adam would blow up.
    q, k, v = split_heads(hidden), split_heads(hidden, bias=False), split_heads(hidden)
    scores = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / 3.0**0.5 + bias)
    context = tf.reshape(tf.transpose(tf.matmul(scores, v), [0, 2, 1, 3]), [rows, 5, 6])
    hidden = norm(hidden + tf.layers.dense(context, 6), "norm1")
    inner = tf.layers.dense(hidden, 8)
    gelu = inner * 0.5 * (1.0 + tf.erf(inner / tf.sqrt(2.0)))
    hidden = norm(hidden + tf.layers.dense(gelu, 6), "norm2")
    pooled = tf.layers.dense(tf.squeeze(hidden[:, 0:1, :], axis=1), 6, tf.tanh)
    loss = tf.losses.sparse_softmax_cross_entropy(y, tf.layers.dense(pooled, 2))
    train = tf.train.AdamOptimizer(0.01).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for a, b in batches(7, tokens, lengths):
                record("loss", sess.run([loss, train], {x: a, length: b, y: a[:, 0] % 2})[0])
        record_variables(tf, sess, record)


@case()
def causal_decoder(tf, record, workdir):
    """GPT's way: einsum projections, a causal mask from ranges, tied logits, per-token losses fetched."""
    tokens, _ = sentences(rows=20, steps=6, vocabulary=9)
    x = tf.placeholder(tf.int32, [None, None])
    steps = tf.shape(x)[1] - 1
    table = tf.get_variable("table", [9, 4])
    hidden = tf.gather(table, x[:, :-1])
    q, k, v = tf.unstack(tf.einsum("btd,dce->cbte", hidden, tf.get_variable("qkv", [4, 3, 4])), num=3)
    causal = tf.range(steps)[:, None] >= tf.range(steps)[None, :]
    mask = tf.cast(causal, tf.float32)[None]
    scores = tf.einsum("bte,bse->bts", q, k) * mask - 1e9 * (1.0 - mask)
    hidden += tf.einsum("bts,bse->bte", tf.nn.softmax(scores), v)
    logits = tf.reshape(tf.matmul(tf.reshape(hidden, [-1, 4]), table, transpose_b=True), [-1, steps, 9])
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=x[:, 1:], logits=logits)
    loss = tf.reduce_mean(losses)
    train = tf.train.AdamOptimizer(0.02).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(3):
            for (batch,) in batches(7, tokens):
                value, each, _ = sess.run([loss, losses, train], {x: batch[:, : 4 + step]})
                record("loss", value)
                record("losses", each)
        record_variables(tf, sess, record)


@case()
def gathers_and_segments(tf, record, workdir):
    """gather_nd by row numbers, segment sums over fed ids, where, top-k masks, sorting of each row."""
    features, labels = blobs(rows=23, width=4, classes=3)
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.int32, [None])
    logits = tf.layers.dense(x, 3)
    picked = tf.gather_nd(logits, tf.stack([tf.range(tf.shape(x)[0]), y], axis=1))
    totals = tf.math.unsorted_segment_sum(logits, y, 3)
    counts = tf.math.unsorted_segment_sum(tf.ones_like(y, tf.float32), y, 3)
    means = totals / tf.maximum(counts, 1.0)[:, None]
    spread = tf.reduce_sum(tf.square(logits - tf.gather(means, y)), axis=1)
    ordered = tf.sort(logits, axis=1)
    margin = tf.where(picked > ordered[:, 1], tf.zeros_like(picked), ordered[:, 2] - picked)
    loss = tf.reduce_mean(margin) + 0.1 * tf.reduce_mean(spread) - 0.1 * tf.reduce_mean(picked)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for a, b in batches(7, features, labels):
                value, got, _ = sess.run([loss, [means, ordered], train], {x: a, y: b})
                record("loss", value)
                record("got", got)
        record_variables(tf, sess, record)


@case()
def experts(tf, record, workdir):
    """A mixture of experts: dynamic_partition sends rows to experts, dynamic_stitch brings them back in order."""
    features, targets = blobs(rows=23, width=4, classes=2)
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None])
    gate = tf.nn.softmax(tf.layers.dense(x, 2))
    choice = tf.argmax(gate, axis=1, output_type=tf.int32)
    parts = tf.dynamic_partition(x, choice, 2)
    places = tf.dynamic_partition(tf.range(tf.shape(x)[0]), choice, 2)
    outputs = [tf.layers.dense(part, 1, name=f"expert{i}") for i, part in enumerate(parts)]
    joined = tf.dynamic_stitch(places, outputs)[:, 0] * tf.reduce_max(gate, axis=1)
    load = tf.reduce_mean(gate, axis=0)
    loss = tf.reduce_mean(tf.square(joined - y)) + 0.1 * tf.reduce_sum(tf.square(load))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for a, b in batches(7, features, targets.astype(np.float32)):
                value, got, _ = sess.run([loss, [joined, choice], train], {x: a, y: b})
                record("loss", value)
                record("got", got)
        record_variables(tf, sess, record)


@case()
def cut_to_the_longest(tf, record, workdir):
    """Sentences are fed padded to a fixed length and cut to the longest of the batch."""
    random = np.random.RandomState(0)
    x, lengths = tf.placeholder(tf.int32, [None, 9]), tf.placeholder(tf.int32, [None])
    longest = tf.reduce_max(lengths)
    words = tf.nn.embedding_lookup(tf.get_variable("table", [11, 4]), x[:, :longest])
    scores = tf.matmul(words, words, transpose_b=True)
    scores += tf.log(tf.sequence_mask(lengths, longest, tf.float32) + 1e-9)[:, None, :]
    read = tf.matmul(tf.nn.softmax(scores), words)
    loss = tf.reduce_mean(tf.square(tf.reduce_max(read, 1) - 0.5))
    train = tf.train.AdamOptimizer(0.02).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for size in (8, 5, 7, 2, 8):
            feed = {x: random.randint(0, 11, (size, 9)), lengths: random.randint(1, 9, size)}
            record("loss", sess.run([loss, train], feed)[0])
        record_variables(tf, sess, record)
