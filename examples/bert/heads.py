"""What stands on BERT's encoder: the two heads of pre-training, spans of an answer (SQuAD), and classes.

The dims in the docstrings: n sequences, s tokens in each, h hidden size, p masked positions in a sequence, v words in
the vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow.compat.v1 as tf

from .model import BertConfig, dense, dropout, gelu, initializer, layer_norm, pooled, sequence_output

# -- pre-training ----------------------------------------------------------------------------------------------


def pretraining_logits(
    sequence: tf.Tensor, words: tf.Tensor, masked_positions: tf.Tensor, config: BertConfig
) -> tuple[tf.Tensor, tf.Tensor]:
    """Logits of the words at ``masked_positions`` [n, p], as [n * p, v], and of "is the second part another's", [n, 2].

    ``sequence`` is [n, s, h]; ``words`` [v, h] is the table of the embeddings, which is the output layer too.
    """
    with tf.variable_scope("cls/predictions"):
        # Picked by a product: the gradient of a gather would add up rows over the whole batch.
        picks = tf.one_hot(masked_positions, int(sequence.shape[1]), dtype=sequence.dtype)
        masked = tf.reshape(tf.matmul(picks, sequence), [-1, config.hidden_size])
        with tf.variable_scope("transform"):
            masked = layer_norm(gelu(dense(masked, config.hidden_size, config)))
        bias = tf.get_variable("output_bias", [config.vocab_size], initializer=tf.zeros_initializer())
        masked_logits = tf.nn.bias_add(tf.matmul(masked, words, transpose_b=True), bias)
    first = pooled(sequence, config)
    with tf.variable_scope("cls/seq_relationship"):
        return masked_logits, projection(first, 2, config)


def pretraining_losses_of(
    masked_logits: tf.Tensor, next_logits: tf.Tensor, features: Mapping[str, tf.Tensor]
) -> tuple[tf.Tensor, tf.Tensor]:
    """Mean loss over the masked words of the whole batch, a sum over a sum, and mean loss over its sequences.

    Of ``features`` it reads ``masked_labels`` and ``masked_weights`` [n, p], weight 0 where a sequence has fewer than
    p masked words, and ``is_next`` [n], 1 where the second part follows the first.
    """
    labels = tf.reshape(features["masked_labels"], [-1])
    weights = tf.reshape(features["masked_weights"], [-1])
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=masked_logits)
    masked_loss = tf.reduce_sum(weights * losses) / (tf.reduce_sum(weights) + 1e-5)
    # In the published checkpoints class 0 is "follows".
    return masked_loss, classification_loss(next_logits, 1 - features["is_next"])


def pretraining_losses(
    features: Mapping[str, tf.Tensor], config: BertConfig, training: bool = True
) -> tuple[tf.Tensor, tf.Tensor]:
    """The masked-word loss and the next-sentence loss of the whole model.

    ``features`` holds ``token_ids``, ``type_ids``, ``input_mask`` [n, s]; ``masked_positions``, ``masked_labels``,
    ``masked_weights`` [n, p]; ``is_next`` [n]. All are int32 but the weights, float32.
    """
    inputs = (features[name] for name in ("token_ids", "type_ids", "input_mask"))
    sequence, words = sequence_output(*inputs, config, training)
    logits = pretraining_logits(sequence, words, features["masked_positions"], config)
    return pretraining_losses_of(*logits, features)


def masked_word_hits(features: Mapping[str, tf.Tensor], config: BertConfig) -> tuple[tf.Tensor, tf.Tensor]:
    """How many masked words of a batch the model, built without dropout, gets right, and how many there are."""
    inputs = (features[name] for name in ("token_ids", "type_ids", "input_mask"))
    sequence, words = sequence_output(*inputs, config, training=False)
    logits, _ = pretraining_logits(sequence, words, features["masked_positions"], config)
    found = tf.argmax(logits, axis=-1, output_type=tf.int32)
    weights = tf.reshape(features["masked_weights"], [-1])
    hits = tf.cast(tf.equal(found, tf.reshape(features["masked_labels"], [-1])), tf.float32)
    return tf.reduce_sum(weights * hits), tf.reduce_sum(weights)


# -- fine-tuning -----------------------------------------------------------------------------------------------


def span_logits(sequence: tf.Tensor, config: BertConfig) -> tuple[tf.Tensor, tf.Tensor]:
    """Logits [n, s] of each token of ``sequence`` [n, s, h] being the first, and the last, of the answer."""
    length = int(sequence.shape[1])
    with tf.variable_scope("cls/squad"):
        both = projection(tf.reshape(sequence, [-1, config.hidden_size]), 2, config)
    start, end = tf.unstack(tf.reshape(both, [-1, length, 2]), axis=2)
    return start, end


def span_loss(start_logits: tf.Tensor, end_logits: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
    """Mean loss over both ends of the answers, which are at ``starts`` and ``ends`` [n]."""
    return (classification_loss(start_logits, starts) + classification_loss(end_logits, ends)) / 2.0


def classification_logits(
    sequence: tf.Tensor, num_classes: int, config: BertConfig, training: bool = True
) -> tf.Tensor:
    """Logits [n, num_classes] of whole sequences [n, s, h]."""
    return projection(dropout(pooled(sequence, config), config, training), num_classes, config)


def classification_loss(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Mean cross-entropy of ``logits`` [n, classes] at ``labels`` [n]."""
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


def projection(x: tf.Tensor, units: int, config: BertConfig) -> tf.Tensor:
    """An affine layer whose weights lie as rows, as in the heads of the published checkpoints: [m, h] to [m, units]."""
    weights = tf.get_variable("output_weights", [units, config.hidden_size], initializer=initializer(config))
    bias = tf.get_variable("output_bias", [units], initializer=tf.zeros_initializer())
    return tf.nn.bias_add(tf.matmul(x, weights, transpose_b=True), bias)
