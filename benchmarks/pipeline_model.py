"""Models for the pipeline benchmark: a transformer whose stages sleep, and BERT-Large cut into stages."""

from __future__ import annotations

import dataclasses
import importlib
import pathlib
import sys
import threading
import time
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

import whale as wh
from benchmarks import bert_step

ROWS, LENGTH, HIDDEN = 2, 8, 16


class Watch:
    """Counts the micro-batches that are live on each stage: begun forward, not yet done backward."""

    def __init__(self, stages: int) -> None:
        self._lock = threading.Lock()
        self._live = [0] * stages
        self.peaks = [0] * stages

    def reset(self) -> None:
        """Forgets the peaks."""
        self.peaks = [0] * len(self.peaks)

    def enter(self, stage: int) -> None:
        """A forward pass begins."""
        with self._lock:
            self._live[stage] += 1
            self.peaks[stage] = max(self.peaks[stage], self._live[stage])

    def leave(self, stage: int) -> None:
        """A backward pass ends."""
        with self._lock:
            self._live[stage] -= 1


def bound_by_sleep(x: tf.Tensor, stage: int, forward: float, watch: Watch) -> tf.Tensor:
    """``x``, after ``forward`` seconds; its gradient takes twice as long."""

    def wait(seconds: float, value: np.ndarray) -> np.ndarray:
        if seconds == forward:
            watch.enter(stage)
        time.sleep(seconds)
        if seconds != forward:
            watch.leave(stage)
        return value

    def asleep(seconds: float, value: tf.Tensor) -> tf.Tensor:
        done = tf.py_func(lambda v: wait(seconds, v), [value], value.dtype)
        done.set_shape(value.shape)
        return done

    @tf.custom_gradient
    def slow(value: tf.Tensor) -> Any:
        return asleep(forward, value), lambda upstream: asleep(2 * forward, upstream)

    return slow(x)


def block(x: tf.Tensor) -> tf.Tensor:
    """A small transformer layer."""
    query, key, value = (tf.layers.dense(x, HIDDEN, use_bias=False) for _ in range(3))
    weights = tf.nn.softmax(tf.matmul(query, key, transpose_b=True) / HIDDEN**0.5)
    x = x + tf.layers.dense(tf.matmul(weights, value), HIDDEN)
    return x + tf.layers.dense(tf.layers.dense(x, 2 * HIDDEN, tf.nn.relu), HIDDEN)


def build(
    stages: int, micro_batches: int, strategy: str, forward: float, watch: Watch
) -> tuple[tf.Operation, tf.Tensor]:
    """The training step and the loss of a transformer of sleeping stages."""
    rng = np.random.RandomState(1)
    data = tf.data.Dataset.from_tensors(rng.randn(ROWS, LENGTH, HIDDEN).astype(np.float32)).repeat()
    with wh.pipeline(num_micro_batch=micro_batches, strategy=strategy):
        for stage in range(stages):
            with wh.stage():
                if stage == 0:
                    x = tf.data.make_one_shot_iterator(data).get_next()
                x = bound_by_sleep(block(x), stage, forward, watch)
                if stage == stages - 1:
                    loss = tf.reduce_mean(tf.square(x))
    return tf.train.GradientDescentOptimizer(0.01).minimize(loss), loss


def bert_large(stages: int, micro_batches: int, width: int = 64) -> tuple[tf.Operation, tf.Tensor]:
    """The training step and the loss of BERT-Large with hidden size ``width``, its layers in equal stages."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))
    bert = importlib.import_module("bert")
    config = dataclasses.replace(bert.sized("large", bert_step.VOCAB_SIZE), hidden_size=width)
    data = tf.data.Dataset.from_tensors(bert_step.batch()).repeat()
    with wh.pipeline(num_micro_batch=micro_batches):
        for stage in range(stages):
            layers = range(stage * config.num_layers // stages, (stage + 1) * config.num_layers // stages)
            with wh.stage():
                if stage == 0:
                    features = tf.data.make_one_shot_iterator(data).get_next()
                    mask = bert.attention_mask(features["input_mask"])
                    hidden, words = bert.embeddings(features["token_ids"], features["type_ids"], config)
                hidden = bert.encoder(hidden, mask, config, layers=layers)
                if stage == stages - 1:
                    logits = bert.pretraining_logits(hidden, words, features["masked_positions"], config)
                    loss = tf.add_n(bert.pretraining_losses_of(*logits, features))
    global_step = tf.train.get_or_create_global_step()
    rate = bert.warmed_up_learning_rate(global_step, peak=1e-4, total_steps=1000, warmup_steps=100)
    return bert.train_op(loss, bert.AdamWeightDecay(rate), global_step), loss
