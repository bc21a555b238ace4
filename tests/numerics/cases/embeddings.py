"""Embedding tables: gradients that are IndexedSlices, tied and assigned tables."""

from __future__ import annotations

import numpy as np

from tests.numerics.case import case, record_variables
from tests.numerics.data import batches, sentences


def bag(tf, table, tokens, target):
    """Squared error of a linear model over the mean of a sentence's embeddings."""
    pooled = tf.reduce_mean(tf.nn.embedding_lookup(table, tokens), axis=1)
    return tf.reduce_mean(tf.square(tf.layers.dense(pooled, 1)[:, 0] - target))


def loop(tf, record, train, loss, tokens, target, extra=()):
    """Train over uneven batches of sentences whose target is their length; extra fetches are recorded too."""
    words, lengths = sentences(rows=23, steps=4, vocabulary=10)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for a, b in batches(7, words, lengths.astype(np.float32)):
                value, _, others = sess.run([loss, train, list(extra)], {tokens: a, target: b})
                record("loss", value)
                record("extra", others)
        record_variables(tf, sess, record)


def placeholders(tf):
    """Tokens int32 [batch, 4] and targets float32 [batch]."""
    return tf.placeholder(tf.int32, [None, 4]), tf.placeholder(tf.float32, [None])


@case()
def sparse_gradient_descent(tf, record, workdir):
    """Repeated ids in one batch, a scatter update of the rows."""
    tokens, target = placeholders(tf)
    loss = bag(tf, tf.get_variable("table", [10, 3]), tokens, target)
    loop(tf, record, tf.train.GradientDescentOptimizer(0.2).minimize(loss), loss, tokens, target)


@case()
def sparse_adam(tf, record, workdir):
    """Adam's sparse update decays the moments of every row; ids out of the batch move too."""
    tokens, target = placeholders(tf)
    loss = bag(tf, tf.get_variable("table", [10, 3], use_resource=True), tokens, target)
    loop(tf, record, tf.train.AdamOptimizer(0.05).minimize(loss), loss, tokens, target)


@case()
def sparse_adagrad_and_momentum(tf, record, workdir):
    """Two tables with optimizers of their own, whose sparse updates read and write slots."""
    tokens, target = placeholders(tf)
    first, second = tf.get_variable("first", [10, 3]), tf.get_variable("second", [10, 2])
    loss = bag(tf, first, tokens, target) + bag(tf, second, tokens, 0.5 * target)
    one = tf.train.AdagradOptimizer(0.3).minimize(loss, var_list=[first])
    two = tf.train.MomentumOptimizer(0.05, 0.9).minimize(loss, var_list=[second])
    loop(tf, record, tf.group(one, two), loss, tokens, target)


@case()
def clipped_with_dense_gradients(tf, record, workdir):
    """clip_by_global_norm over IndexedSlices and dense gradients together; the norm is fetched."""
    tokens, target = placeholders(tf)
    loss = bag(tf, tf.get_variable("table", [10, 3]), tokens, target)
    optimizer = tf.train.GradientDescentOptimizer(0.3)
    gradients, variables = zip(*optimizer.compute_gradients(loss))
    clipped, norm = tf.clip_by_global_norm(gradients, 0.5)
    loop(tf, record, optimizer.apply_gradients(zip(clipped, variables)), loss, tokens, target, extra=[norm])


@case()
def fetched_slices(tf, record, workdir):
    """The IndexedSlices of a gradient fetched as such (row by row, in the batch's order) and densified."""
    tokens, target = placeholders(tf)
    table = tf.get_variable("table", [10, 3], use_resource=True)
    loss = bag(tf, table, tokens, target)
    (gradient,) = tf.gradients(loss, [table])
    dense = tf.convert_to_tensor(gradient)
    train = tf.train.GradientDescentOptimizer(0.2).apply_gradients([(gradient, table)])
    loop(tf, record, train, loss, tokens, target, extra=[gradient.values, gradient.indices, dense])


@case()
def tied_input_and_output(tf, record, workdir):
    """One table is both looked up and multiplied with: its gradient is slices plus a dense part."""
    tokens, _ = placeholders(tf)
    table = tf.get_variable("table", [10, 4])
    hidden = tf.layers.dense(tf.nn.embedding_lookup(table, tokens[:, :-1]), 4, tf.nn.tanh)
    logits = tf.tensordot(hidden, table, [[2], [1]])
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tokens[:, 1:], logits=logits)
    loss = tf.reduce_mean(losses)
    unused = tf.placeholder(tf.float32, [None])
    loop(tf, record, tf.train.AdamOptimizer(0.02).minimize(loss), loss, tokens, unused)


@case()
def assigned_from_a_placeholder(tf, record, workdir):
    """A pretrained table is assigned from a placeholder before training, and again in its midst."""
    tokens, target = placeholders(tf)
    table = tf.Variable(tf.constant(0.0, shape=[10, 3]), trainable=True, name="table")
    pretrained = tf.placeholder(tf.float32, [10, 3])
    put = table.assign(pretrained)
    loss = bag(tf, table, tokens, target)
    train = tf.train.GradientDescentOptimizer(0.2).minimize(loss)
    words, lengths = sentences(rows=21, steps=4, vocabulary=10)
    random = np.random.RandomState(4)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(2):
            sess.run(put, {pretrained: random.randn(10, 3)})
            for a, b in batches(5, words, lengths):
                record("loss", sess.run([loss, train], {tokens: a, target: b})[0])
        record_variables(tf, sess, record)


@case(cut=False, reason="the rows of a sparse tensor are not a dim of its arrays")
def weighted_sparse_lookup(tf, record, workdir):
    """embedding_lookup_sparse with weights, made in the graph from a dense batch."""
    tokens, target = placeholders(tf)
    table = tf.get_variable("table", [10, 3])
    present = tf.where(tokens > 0)
    ids = tf.SparseTensor(present, tf.gather_nd(tokens, present), tf.shape(tokens, out_type=tf.int64))
    weights = tf.SparseTensor(present, 0.1 * tf.cast(ids.values, tf.float32), ids.dense_shape)
    pooled = tf.nn.embedding_lookup_sparse(table, ids, weights, combiner="mean")
    loss = tf.reduce_mean(tf.square(tf.layers.dense(pooled, 1)[:, 0] - target))
    loop(tf, record, tf.train.GradientDescentOptimizer(0.1).minimize(loss), loss, tokens, target)


@case()
def one_hot_in_place_of_lookup(tf, record, workdir):
    """Small vocabularies as one_hot times a matrix, beside positions that no batch row owns."""
    tokens, target = placeholders(tf)
    words = tf.tensordot(tf.one_hot(tokens, 10), tf.get_variable("words", [10, 3]), [[2], [0]])
    positions = tf.nn.embedding_lookup(tf.get_variable("positions", [6, 3]), tf.range(tf.shape(tokens)[1]))
    hidden = tf.nn.tanh(words + positions[None])
    loss = tf.reduce_mean(tf.square(tf.layers.dense(tf.layers.flatten(hidden), 1)[:, 0] - target))
    loop(tf, record, tf.train.AdagradOptimizer(0.1).minimize(loss), loss, tokens, target)


@case()
def large_table_beside_few_samples(tf, record, workdir):
    """A table much larger than the rest of the work: what a step touches of it counts, and the batch is cut."""
    tokens, target = placeholders(tf)
    loss = bag(tf, tf.get_variable("table", [20000, 3]), tokens, target)
    loop(tf, record, tf.train.AdamOptimizer(0.05).minimize(loss), loss, tokens, target)


@case(fixed="the graph holds its number of samples")
def sampled_classes_of_a_large_vocabulary(tf, record, workdir):
    """Noise contrastive estimation: the sampler is whole, products with the rows that it picks are not."""
    center, context = tf.placeholder(tf.int32, [24]), tf.placeholder(tf.int32, [24, 1])
    table, weights = (tf.get_variable(name, [5000, 16]) for name in ("table", "weights"))
    rows = tf.nn.embedding_lookup(table, center)
    biases = tf.get_variable("biases", [5000], initializer=tf.zeros_initializer())
    loss = tf.reduce_mean(tf.nn.nce_loss(weights, biases, context, rows, 8, 5000))
    train = tf.train.GradientDescentOptimizer(0.3).minimize(loss)
    rng = np.random.default_rng(3)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            feeds = {center: rng.integers(0, 5000, 24), context: rng.integers(0, 5000, (24, 1))}
            record("loss", sess.run([loss, train], feeds)[0])
        record_variables(tf, sess, record)
