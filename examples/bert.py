"""BERT as functions over a TF1 graph: encoder, the two pre-training losses, the learning rate and two optimizers.

The names of the dims in the docstrings: n sequences, s tokens in each, h hidden size, a attention heads of size h / a,
p masked positions in a sequence, v words in the vocabulary.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence

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

    @property
    def intermediate_size(self) -> int:
        """Width of the feed-forward layer."""
        return 4 * self.hidden_size


def sized(size: str, vocab_size: int) -> BertConfig:
    """The configuration called ``tiny``, ``base`` or ``large``."""
    hidden_size, num_layers, num_heads = {"tiny": (128, 2, 2), "base": (768, 12, 12), "large": (1024, 24, 16)}[size]
    return BertConfig(vocab_size, hidden_size, num_layers, num_heads)


def gelu(x: tf.Tensor) -> tf.Tensor:
    """The Gaussian error linear unit: ``x`` times the standard normal distribution function at ``x``."""
    return x * (0.5 * (1.0 + tf.erf(x / math.sqrt(2.0))))


def initializer(config: BertConfig) -> Callable[..., tf.Tensor]:
    """The initializer of every weight matrix."""
    return tf.truncated_normal_initializer(stddev=config.initializer_range)


def dropout(x: tf.Tensor, config: BertConfig, training: bool) -> tf.Tensor:
    """``x`` with entries dropped in training."""
    return tf.nn.dropout(x, rate=config.dropout) if training and config.dropout > 0.0 else x


def dense(x: tf.Tensor, units: int, config: BertConfig, name: str) -> tf.Tensor:
    """An affine layer: [m, d] to [m, units]."""
    with tf.variable_scope(name):
        kernel = tf.get_variable("kernel", [x.shape[-1], units], initializer=initializer(config))
        bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        return tf.nn.bias_add(tf.matmul(x, kernel), bias)


def layer_norm(x: tf.Tensor, name: str = "layer_norm") -> tf.Tensor:
    """``x`` normalised over its last dim, with a learned scale and shift."""
    with tf.variable_scope(name):
        scale = tf.get_variable("gamma", [x.shape[-1]], initializer=tf.ones_initializer())
        shift = tf.get_variable("beta", [x.shape[-1]], initializer=tf.zeros_initializer())
        mean, variance = tf.nn.moments(x, axes=[-1], keep_dims=True)
        return tf.nn.batch_normalization(x, mean, variance, shift, scale, variance_epsilon=1e-12)


def embeddings(
    token_ids: tf.Tensor, type_ids: tf.Tensor, config: BertConfig, training: bool
) -> tuple[tf.Tensor, tf.Tensor]:
    """Embedded tokens [n, s, h] of ids [n, s], and the table of words [v, h], which the output layer shares."""
    length = token_ids.shape[1]
    with tf.variable_scope("embeddings"):
        words = tf.get_variable("words", [config.vocab_size, config.hidden_size], initializer=initializer(config))
        types = tf.get_variable("types", [config.type_vocab_size, config.hidden_size], initializer=initializer(config))
        positions = tf.get_variable(
            "positions", [config.max_positions, config.hidden_size], initializer=initializer(config)
        )
        # A product with one-hot rows is faster than a lookup in a table of two rows, and so is its gradient.
        total = tf.nn.embedding_lookup(words, token_ids)
        total += tf.tensordot(tf.one_hot(type_ids, config.type_vocab_size), types, axes=1)
        total += positions[tf.newaxis, :length]
        return dropout(layer_norm(total), config, training), words


def attention_mask(input_mask: tf.Tensor) -> tf.Tensor:
    """What is added to attention scores: [n, 1, 1, s], 0 at the tokens of ``input_mask`` [n, s], -10000 at padding."""
    return (1.0 - tf.cast(input_mask[:, tf.newaxis, tf.newaxis, :], tf.float32)) * -10000.0


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


def encoder(x: tf.Tensor, mask: tf.Tensor, config: BertConfig, training: bool) -> tf.Tensor:
    """The stack of transformer layers: [n, s, h] to [n, s, h]. Inside it, tokens are the rows of one matrix."""
    length = int(x.shape[1])
    hidden = tf.reshape(x, [-1, config.hidden_size])
    for layer in range(config.num_layers):
        with tf.variable_scope(f"layer_{layer}"):
            with tf.variable_scope("attention"):
                context = self_attention(hidden, mask, length, config, training)
                context = dropout(dense(context, config.hidden_size, config, "output"), config, training)
                hidden = layer_norm(hidden + context)
            with tf.variable_scope("feed_forward"):
                wide = gelu(dense(hidden, config.intermediate_size, config, "intermediate"))
                narrow = dropout(dense(wide, config.hidden_size, config, "output"), config, training)
                hidden = layer_norm(hidden + narrow)
    return tf.reshape(hidden, [-1, length, config.hidden_size])


def masked_lm_loss(
    sequence: tf.Tensor,
    positions: tf.Tensor,
    labels: tf.Tensor,
    weights: tf.Tensor,
    table: tf.Tensor,
    config: BertConfig,
) -> tf.Tensor:
    """Mean loss over the masked tokens.

    ``sequence`` is [n, s, h]; ``positions``, ``labels`` and ``weights`` are [n, p], weight 0 where a sequence has fewer
    than p masked tokens. The mean is over the whole batch: a sum of losses over a sum of weights.
    """
    with tf.variable_scope("masked_lm"):
        masked = tf.reshape(tf.gather(sequence, positions, batch_dims=1), [-1, config.hidden_size])
        masked = layer_norm(gelu(dense(masked, config.hidden_size, config, "transform")))
        bias = tf.get_variable("output_bias", [config.vocab_size], initializer=tf.zeros_initializer())
        logits = tf.nn.bias_add(tf.matmul(masked, table, transpose_b=True), bias)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(labels, [-1]), logits=logits)
        flat_weights = tf.reshape(weights, [-1])
        return tf.reduce_sum(flat_weights * losses) / (tf.reduce_sum(flat_weights) + 1e-5)


def next_sentence_loss(sequence: tf.Tensor, is_next: tf.Tensor, config: BertConfig, training: bool) -> tf.Tensor:
    """Mean loss of telling from the first token of ``sequence`` [n, s, h] whether the second part follows the first."""
    with tf.variable_scope("next_sentence"):
        pooled = tf.tanh(dense(sequence[:, 0], config.hidden_size, config, "pooler"))
        logits = dense(dropout(pooled, config, training), 2, config, "output")
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=is_next, logits=logits))


def pretraining_losses(
    features: dict[str, tf.Tensor], config: BertConfig, training: bool = True
) -> tuple[tf.Tensor, tf.Tensor]:
    """The masked-word loss and the next-sentence loss.

    ``features`` holds ``token_ids``, ``type_ids``, ``input_mask`` [n, s]; ``masked_positions``, ``masked_labels``,
    ``masked_weights`` [n, p]; ``is_next`` [n]. All are int32 but the weights, float32.
    """
    with tf.variable_scope("bert"):
        embedded, table = embeddings(features["token_ids"], features["type_ids"], config, training)
        sequence = encoder(embedded, attention_mask(features["input_mask"]), config, training)
        mlm = masked_lm_loss(
            sequence,
            features["masked_positions"],
            features["masked_labels"],
            features["masked_weights"],
            table,
            config,
        )
        return mlm, next_sentence_loss(sequence, features["is_next"], config, training)


def warmed_up_learning_rate(step: tf.Tensor, peak: float, total_steps: int, warmup_steps: int) -> tf.Tensor:
    """A rate that rises from 0 to ``peak`` in ``warmup_steps``, then falls along a line to 0 at ``total_steps``."""
    decayed = tf.train.polynomial_decay(peak, step, total_steps, end_learning_rate=0.0, power=1.0)
    rising = peak * tf.cast(step, tf.float32) / max(warmup_steps, 1)
    return tf.where(step < warmup_steps, rising, decayed)


class AdamWeightDecay(tf.train.Optimizer):
    """Adam without bias correction and with weight decay apart from the gradient, as BERT is trained.

    Layer norms and biases (vectors) are not decayed.
    """

    def __init__(self, learning_rate: tf.Tensor, weight_decay: float = 0.01, name: str = "AdamWeightDecay") -> None:
        """``learning_rate`` is a scalar tensor."""
        super().__init__(use_locking=False, name=name)
        self._learning_rate = learning_rate
        self._weight_decay = weight_decay
        self._beta1, self._beta2, self._epsilon = 0.9, 0.999, 1e-6

    def _rate(self, variable: tf.Variable, update: tf.Tensor) -> tf.Tensor:
        return self._learning_rate

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[tf.Tensor | None, tf.Variable]],
        global_step: tf.Variable | None = None,
        name: str | None = None,
    ) -> tf.Operation:
        """One update of the variables; unlike the base class's, it is written with ``tf.assign``."""
        assignments: list[tf.Tensor] = []
        for gradient, variable in grads_and_vars:
            if gradient is None:
                continue
            slot_name = f"{variable.op.name}/{self._name}"
            zeros, shape = tf.zeros_initializer(), variable.shape.as_list()
            moment1 = tf.get_variable(f"{slot_name}/m", shape, initializer=zeros, trainable=False)
            moment2 = tf.get_variable(f"{slot_name}/v", shape, initializer=zeros, trainable=False)
            next1 = self._beta1 * moment1 + (1.0 - self._beta1) * gradient
            next2 = self._beta2 * moment2 + (1.0 - self._beta2) * tf.square(gradient)
            update = next1 / (tf.sqrt(next2) + self._epsilon)
            if self._weight_decay > 0.0 and len(shape) > 1:
                update += self._weight_decay * variable
            next_value = variable - self._rate(variable, update) * update
            assignments += [
                tf.assign(variable, next_value),
                tf.assign(moment1, next1),
                tf.assign(moment2, next2),
            ]
        if global_step is None:
            return tf.group(*assignments, name=name)
        # The learning rate reads the step, so it moves on only after the updates.
        with tf.control_dependencies(assignments):
            return tf.assign_add(global_step, 1, name=name).op


class Lamb(AdamWeightDecay):
    """LAMB: the update of a variable is scaled to the norm of its values (You et al., 2019)."""

    def __init__(self, learning_rate: tf.Tensor, weight_decay: float = 0.01, name: str = "Lamb") -> None:
        """As for `AdamWeightDecay`."""
        super().__init__(learning_rate, weight_decay, name)

    def _rate(self, variable: tf.Variable, update: tf.Tensor) -> tf.Tensor:
        value_norm, update_norm = tf.norm(variable), tf.norm(update)
        usable = tf.logical_and(value_norm > 0.0, update_norm > 0.0)
        return self._learning_rate * tf.where(usable, value_norm / update_norm, 1.0)


def train_op(
    loss: tf.Tensor, optimizer: tf.train.Optimizer, global_step: tf.Variable, clip_norm: float = 1.0
) -> tf.Operation:
    """One step: gradients of ``loss``, clipped together to ``clip_norm``, applied by ``optimizer``."""
    variables: Sequence[tf.Variable] = tf.trainable_variables()
    gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), clip_norm)
    return optimizer.apply_gradients(zip(gradients, variables), global_step=global_step)
