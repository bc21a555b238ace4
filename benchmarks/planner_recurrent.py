"""A translation model like GNMT as TF1 code for one device: stacked LSTMs, attention, a large vocabulary.

Layers are unrolled over the words of a sentence, since the cost model counts one iteration of a loop. Needs TensorFlow.
"""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from whale.annotations.capture import capture
from whale.annotations.variables import complete
from whale.cost_model import Chain, build_chain
from whale.ir.program import reachable
from whale.sharding.order import order
from whale.sharding.propagate import Request, Source, propagate

LAYERS, HIDDEN, WORDS, VOCABULARY = 8, 1024, 25, 32_000
"""Of the encoder and of the decoder each; sentences have 25 words."""


def recurrent_chain() -> Chain:
    """The blocks of a training step, run op by op."""
    graph = tf.Graph()
    with graph.as_default(), tf.variable_scope("", use_resource=False):
        train = _training_step()
    program = complete(capture(graph), graph)
    ops = reachable(program, [], [train.name], [])
    feeds = {op.output(): op.outputs[0] for op in ops if op.type == "Placeholder"}
    batches = tuple(Source(tensor, 0, None, None) for tensor in feeds)
    analysis = propagate(Request(order(ops, frozenset(feeds)), feeds), batches)
    return build_chain(program, analysis)


def _training_step() -> tf.Operation:
    source, target, labels = (tf.placeholder(tf.int32, [None, WORDS], name) for name in ("source", "target", "labels"))
    memory = _stack(_embed(source, "source"), "encoder")
    state = _stack(_embed(target, "target"), "decoder")
    scores = tf.nn.softmax(tf.matmul(state, memory, transpose_b=True))
    joined = tf.reshape(tf.concat([state, tf.matmul(scores, memory)], axis=2), [-1, 2 * HIDDEN])
    with tf.variable_scope("output"):
        hidden = tf.tanh(tf.matmul(joined, tf.get_variable("attention", [2 * HIDDEN, HIDDEN])))
        logits = tf.matmul(hidden, tf.get_variable("words", [HIDDEN, VOCABULARY]))
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(labels, [-1]), logits=logits)
    return tf.train.AdamOptimizer(1e-3).minimize(tf.reduce_mean(losses))


def _embed(words: tf.Tensor, name: str) -> tf.Tensor:
    with tf.variable_scope(f"{name}_words"):
        return tf.nn.embedding_lookup(tf.get_variable("table", [VOCABULARY, HIDDEN]), words)


def _stack(x: tf.Tensor, name: str) -> tf.Tensor:
    """[n, words, hidden] to the same, layer by layer."""
    for layer in range(LAYERS):
        with tf.variable_scope(f"{name}_{layer}"):
            x = _lstm(x)
    return x


def _lstm(x: tf.Tensor) -> tf.Tensor:
    kernel = tf.get_variable("kernel", [2 * HIDDEN, 4 * HIDDEN])
    bias = tf.get_variable("bias", [4 * HIDDEN], initializer=tf.zeros_initializer())
    steps = tf.unstack(x, WORDS, axis=1)
    state = memory = tf.zeros_like(steps[0])
    found: list[tf.Tensor] = []
    for step in steps:
        gates = tf.nn.bias_add(tf.matmul(tf.concat([step, state], axis=1), kernel), bias)
        write, candidate, keep, show = tf.split(gates, 4, axis=1)
        memory = tf.sigmoid(keep) * memory + tf.sigmoid(write) * tf.tanh(candidate)
        state = tf.sigmoid(show) * tf.tanh(memory)
        found.append(state)
    return tf.stack(found, axis=1)
