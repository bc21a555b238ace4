"""BERT for TensorFlow's static graphs, as the examples, tests and benchmarks share it.

`model` is the encoder and `heads` what stands on it, under the variable names of the published checkpoints;
`optimizer` trains it as BERT is trained, and `text` makes its batches.
"""

from __future__ import annotations

from .heads import (
    classification_logits,
    classification_loss,
    masked_word_hits,
    pretraining_logits,
    pretraining_losses,
    pretraining_losses_of,
    span_logits,
    span_loss,
)
from .model import BertConfig, attention_mask, embeddings, encoder, gelu, pooled, sequence_output, sized
from .optimizer import AdamWeightDecay, Lamb, train_op, warmed_up_learning_rate
from .text import Corpus, Features, Vocabulary, batches, read_corpus

__all__ = [
    "AdamWeightDecay",
    "BertConfig",
    "Corpus",
    "Features",
    "Lamb",
    "Vocabulary",
    "attention_mask",
    "batches",
    "classification_logits",
    "classification_loss",
    "embeddings",
    "encoder",
    "gelu",
    "masked_word_hits",
    "pooled",
    "pretraining_logits",
    "pretraining_losses",
    "pretraining_losses_of",
    "read_corpus",
    "sequence_output",
    "sized",
    "span_logits",
    "span_loss",
    "train_op",
    "warmed_up_learning_rate",
]
