"""The encoder of BERT (Devlin et al., 2018) as functions over a TF1 graph.

Variables are named as in the published checkpoints, so `tf.train.init_from_checkpoint` finds them. The functions open
those names from the root: call them outside of other variable scopes, in one piece or stage by stage.

The dims in the docstrings: n sequences, s tokens in each, h hidden size, a attention heads of size h / a, v words in
the vocabulary.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable

import tensorflow.compat.v1 as tf


@dataclasses.dataclass(frozen=True)
class BertConfig:
    """Sizes of a model."""

    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    max_positions: int = 512
    type_vocab_size: int = 2
    dropout: float = 0.1
    """Rate of dropout on hidden states and attention probabilities; 0 adds no dropout op."""
    initializer_range: float = 0.02

    def __post_init__(self) -> None:
        """Raises ValueError when the heads do not share out the hidden size."""
        if self.hidden_size % self.num_heads:
            raise ValueError(f"{self.num_heads} heads cannot share a hidden size of {self.hidden_size}")

    @property
    def intermediate_size(self) -> int:
        """Width of the feed-forward layer."""
        return 4 * self.hidden_size


def sized(size: str, vocab_size: int) -> BertConfig:
    """The configuration called ``tiny``, ``base`` or ``large``."""
    hidden_size, num_layers, num_heads = {"tiny": (128, 2, 2), "base": (768, 12, 12), "large": (1024, 24, 16)}[size]
    return BertConfig(vocab_size, hidden_size, num_layers, num_heads)


def embeddings(
    token_ids: tf.Tensor, type_ids: tf.Tensor, config: BertConfig, training: bool = True
) -> tuple[tf.Tensor, tf.Tensor]:
    """Embedded tokens [n, s, h] of ids [n, s], and the table of words [v, h], which the masked-word head shares."""
    with tf.variable_scope("bert/embeddings"):
        words = table("word_embeddings", config.vocab_size, config)
        types = table("token_type_embeddings", config.type_vocab_size, config)
        positions = table("position_embeddings", config.max_positions, config)
        total = tf.nn.embedding_lookup(words, token_ids)
        # A product with one-hot rows is faster than a lookup in a table of two rows, and so is its gradient.
        total += tf.tensordot(tf.one_hot(type_ids, config.type_vocab_size), types, axes=1)
        total += positions[tf.newaxis, : token_ids.shape[1]]
        return dropout(layer_norm(total), config, training), words


def attention_mask(input_mask: tf.Tensor) -> tf.Tensor:
    """What is added to attention scores: [n, 1, 1, s], 0 at the tokens of ``input_mask`` [n, s], -10000 at padding."""
    return (1.0 - tf.cast(input_mask[:, tf.newaxis, tf.newaxis, :], tf.float32)) * -10000.0


def encoder(
    x: tf.Tensor, mask: tf.Tensor, config: BertConfig, training: bool = True, layers: Iterable[int] | None = None
) -> tf.Tensor:
    """Transformer layers: [n, s, h] to [n, s, h]. ``layers`` are the numbers of those to build; None: all of them."""
    length = int(x.shape[1])
    # Between the layers, tokens are the rows of one matrix.
    hidden = tf.reshape(x, [-1, config.hidden_size])
    for layer in range(config.num_layers) if layers is None else layers:
        with tf.variable_scope(f"bert/encoder/layer_{layer}"):
            hidden = transformer_layer(hidden, mask, length, config, training)
    return tf.reshape(hidden, [-1, length, config.hidden_size])


def sequence_output(
    token_ids: tf.Tensor, type_ids: tf.Tensor, input_mask: tf.Tensor, config: BertConfig, training: bool = True
) -> tuple[tf.Tensor, tf.Tensor]:
    """The whole model below the heads: hidden states [n, s, h] of tokens [n, s], and the table of words [v, h]."""
    embedded, words = embeddings(token_ids, type_ids, config, training)
    return encoder(embedded, attention_mask(input_mask), config, training), words


def pooled(sequence: tf.Tensor, config: BertConfig) -> tf.Tensor:
    """One vector for each sequence [n, s, h], made from its first token: [n, h]."""
    with tf.variable_scope("bert/pooler"):
        return tf.tanh(dense(sequence[:, 0], config.hidden_size, config))


def transformer_layer(x: tf.Tensor, mask: tf.Tensor, length: int, config: BertConfig, training: bool) -> tf.Tensor:
    """Self-attention, then a feed-forward layer, each added to its input and normalised: [n * s, h] to [n * s, h]."""
    with tf.variable_scope("attention"):
        with tf.variable_scope("self"):
            context = self_attention(x, mask, length, config, training)
        with tf.variable_scope("output"):
            x = layer_norm(x + dropout(dense(context, config.hidden_size, config), config, training))
    with tf.variable_scope("intermediate"):
        wide = gelu(dense(x, config.intermediate_size, config))
    with tf.variable_scope("output"):
        return layer_norm(x + dropout(dense(wide, config.hidden_size, config), config, training))


def self_attention(x: tf.Tensor, mask: tf.Tensor, length: int, config: BertConfig, training: bool) -> tf.Tensor:
    """Multi-head self-attention over ``length`` tokens: [n * s, h] to [n * s, h]."""
    head_size = config.hidden_size // config.num_heads

    def heads(name: str) -> tf.Tensor:
        projected = dense(x, config.hidden_size, config, name)
        return tf.transpose(tf.reshape(projected, [-1, length, config.num_heads, head_size]), [0, 2, 1, 3])

    query, key, value = heads("query"), heads("key"), heads("value")
    scores = tf.matmul(query, key, transpose_b=True) / math.sqrt(head_size) + mask
    probabilities = dropout(tf.nn.softmax(scores), config, training)
    context = tf.transpose(tf.matmul(probabilities, value), [0, 2, 1, 3])
    return tf.reshape(context, [-1, config.hidden_size])


def dense(x: tf.Tensor, units: int, config: BertConfig, name: str = "dense") -> tf.Tensor:
    """An affine layer: [m, d] to [m, units]."""
    with tf.variable_scope(name):
        kernel = tf.get_variable("kernel", [x.shape[-1], units], initializer=initializer(config))
        bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        return tf.nn.bias_add(tf.matmul(x, kernel), bias)


def layer_norm(x: tf.Tensor) -> tf.Tensor:
    """``x`` normalised over its last dim, with a learned scale and shift."""
    with tf.variable_scope("LayerNorm"):
        shift = tf.get_variable("beta", [x.shape[-1]], initializer=tf.zeros_initializer())
        scale = tf.get_variable("gamma", [x.shape[-1]], initializer=tf.ones_initializer())
        mean, variance = tf.nn.moments(x, axes=[-1], keep_dims=True)
        return tf.nn.batch_normalization(x, mean, variance, shift, scale, variance_epsilon=1e-12)


def gelu(x: tf.Tensor) -> tf.Tensor:
    """The Gaussian error linear unit: ``x`` times the standard normal distribution function at ``x``."""
    return x * (0.5 * (1.0 + tf.erf(x / math.sqrt(2.0))))


def dropout(x: tf.Tensor, config: BertConfig, training: bool) -> tf.Tensor:
    """``x`` with entries dropped in training; in evaluation all are kept, and no op is added."""
    return tf.nn.dropout(x, rate=config.dropout) if training and config.dropout > 0.0 else x


def table(name: str, rows: int, config: BertConfig) -> tf.Variable:
    """A table of embeddings [rows, h]."""
    return tf.get_variable(name, [rows, config.hidden_size], initializer=initializer(config))


def initializer(config: BertConfig) -> Callable[..., tf.Tensor]:
    """The initializer of every weight matrix."""
    return tf.truncated_normal_initializer(stddev=config.initializer_range)
