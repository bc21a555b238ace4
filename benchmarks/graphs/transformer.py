"""Transformers as TF1 code for one device: GPT and BERT, with the batch size left open.

Dims in the docstrings: n sequences, s tokens in each, h hidden size, a attention heads, v words.
"""

from __future__ import annotations

import math

import tensorflow.compat.v1 as tf

from benchmarks.graphs.sizes import Transformer


def training_step(model: Transformer) -> tf.Operation:
    """Builds loss and update in the default graph; returns the op that trains."""
    tokens = tf.placeholder(tf.int32, [None, model.sequence], "tokens")
    with tf.variable_scope("embeddings"):
        table = _weight("words", [model.vocabulary, model.hidden])
        positions = _weight("positions", [model.sequence, model.hidden])
        x = tf.reshape(tf.nn.embedding_lookup(table, tokens) + positions, [-1, model.hidden])
        x = _dropout(x if model.causal else _norm(x, "norm"), model)
    for layer in range(model.layers):
        with tf.variable_scope(f"layer_{layer}"):
            x = _layer(x, model)
    loss = _loss(x, table, tokens, model)
    return tf.train.AdamOptimizer(1e-4).minimize(loss)


def _layer(x: tf.Tensor, model: Transformer) -> tf.Tensor:
    """[n * s, h] to [n * s, h]."""
    if model.causal:
        x = x + _attention(_norm(x, "norm_1"), model)
        return x + _feed_forward(_norm(x, "norm_2"), model)
    x = _norm(x + _attention(x, model), "norm_1")
    return _norm(x + _feed_forward(x, model), "norm_2")


def _attention(x: tf.Tensor, model: Transformer) -> tf.Tensor:
    size = model.hidden // model.heads
    with tf.variable_scope("attention"):
        projected = tf.reshape(_dense(x, 3 * model.hidden, "input"), [-1, model.sequence, 3, model.heads, size])
        query, key, value = tf.unstack(tf.transpose(projected, [2, 0, 3, 1, 4]), 3)
        scores = tf.matmul(query, key, transpose_b=True) * (1 / math.sqrt(size)) + _mask(model)
        context = tf.matmul(_dropout(tf.nn.softmax(scores), model), value)
        context = tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [-1, model.hidden])
        return _dropout(_dense(context, model.hidden, "output"), model)


def _mask(model: Transformer) -> tf.Tensor:
    """What is added to scores: fed, [s, s] for GPT and [n, 1, 1, s] for BERT."""
    graph = tf.get_default_graph()
    try:
        return graph.get_tensor_by_name("mask:0")
    except KeyError:
        size = model.sequence
        with tf.name_scope(None), tf.control_dependencies(None):
            return tf.placeholder(tf.float32, [size, size] if model.causal else [None, 1, 1, size], "mask")


def _feed_forward(x: tf.Tensor, model: Transformer) -> tf.Tensor:
    with tf.variable_scope("feed_forward"):
        wide = _gelu(_dense(x, 4 * model.hidden, "input"))
        return _dropout(_dense(wide, model.hidden, "output"), model)


def _loss(x: tf.Tensor, table: tf.Tensor, tokens: tf.Tensor, model: Transformer) -> tf.Tensor:
    if model.causal:
        x = _norm(x, "norm")
    if model.head == "none":
        return tf.reduce_mean(tf.square(x))
    if model.head == "span":
        logits = tf.reshape(_dense(x, 2, "span"), [-1, model.sequence, 2])
        start, end = tf.unstack(logits, axis=2)
        labels = tf.placeholder(tf.int32, [None, 2], "labels")
        first = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels[:, 0], logits=start)
        return tf.reduce_mean(first + tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels[:, 1], logits=end))
    if model.head == "masked words":
        places = tf.placeholder(tf.int32, [None, model.masked], "places")
        x = tf.gather(tf.reshape(x, [-1, model.sequence, model.hidden]), places, batch_dims=1)
        x = _norm(_gelu(_dense(tf.reshape(x, [-1, model.hidden]), model.hidden, "transform")), "norm")
        labels = tf.placeholder(tf.int32, [None, model.masked], "labels")
    else:
        labels = tf.placeholder(tf.int32, [None, model.sequence], "labels")
    if not model.tied:
        table = _weight("head", [model.vocabulary, model.hidden])
    logits = tf.matmul(x, table, transpose_b=True)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(labels, [-1]), logits=logits)
    return tf.reduce_mean(losses)


def _weight(name: str, shape: list[int]) -> tf.Variable:
    return tf.get_variable(name, shape, initializer=tf.truncated_normal_initializer(stddev=0.02))


def _dense(x: tf.Tensor, units: int, name: str) -> tf.Tensor:
    with tf.variable_scope(name):
        kernel = _weight("kernel", [int(x.shape[-1]), units])
        bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        return tf.nn.bias_add(tf.matmul(x, kernel), bias)


def _norm(x: tf.Tensor, name: str) -> tf.Tensor:
    with tf.variable_scope(name):
        scale = tf.get_variable("gamma", [int(x.shape[-1])], initializer=tf.ones_initializer())
        shift = tf.get_variable("beta", [int(x.shape[-1])], initializer=tf.zeros_initializer())
        mean, variance = tf.nn.moments(x, axes=[-1], keep_dims=True)
        return tf.nn.batch_normalization(x, mean, variance, shift, scale, variance_epsilon=1e-5)


def _gelu(x: tf.Tensor) -> tf.Tensor:
    return x * (0.5 * (1.0 + tf.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))))


def _dropout(x: tf.Tensor, model: Transformer) -> tf.Tensor:
    return tf.nn.dropout(x, rate=model.dropout) if model.dropout else x
