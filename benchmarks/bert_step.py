"""Builds BERT for training and takes the first step, by plain TensorFlow and then by Whale, in one process.

Run as a process by `benchmarks.bert_bind`; the last line of standard output is a JSON object with its figures.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import pathlib
import sys
import time
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from benchmarks import measure

VOCAB_SIZE = 30522
SEQUENCE_LENGTH = 64
MASKED_WORDS = 10
BATCH_SIZE = 8


def batch() -> dict[str, np.ndarray]:
    """One synthetic batch of pre-training features."""
    rng = np.random.RandomState(1)
    tokens, masked = [BATCH_SIZE, SEQUENCE_LENGTH], [BATCH_SIZE, MASKED_WORDS]
    return {
        "token_ids": rng.randint(VOCAB_SIZE, size=tokens).astype(np.int32),
        "type_ids": rng.randint(2, size=tokens).astype(np.int32),
        "input_mask": np.ones(tokens, np.int32),
        "masked_positions": rng.randint(SEQUENCE_LENGTH, size=masked).astype(np.int32),
        "masked_labels": rng.randint(VOCAB_SIZE, size=masked).astype(np.int32),
        "masked_weights": np.ones(masked, np.float32),
        "is_next": rng.randint(2, size=[BATCH_SIZE]).astype(np.int32),
    }


def build(width: int) -> tuple[tf.Operation, tf.Tensor]:
    """The training step and the loss of BERT-Large with hidden size ``width``, in the default graph."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))
    bert = importlib.import_module("bert")
    data = tf.data.Dataset.from_tensors(batch()).repeat()
    features = tf.data.make_one_shot_iterator(data).get_next()
    global_step = tf.train.get_or_create_global_step()
    config = dataclasses.replace(bert.sized("large", VOCAB_SIZE), hidden_size=width)
    loss = tf.add_n(bert.pretraining_losses(features, config))
    rate = bert.warmed_up_learning_rate(global_step, peak=1e-4, total_steps=1000, warmup_steps=100)
    return bert.train_op(loss, bert.AdamWeightDecay(rate), global_step), loss


def first_step(initializer: tf.Operation, train: tf.Operation, loss: tf.Tensor) -> dict[str, Any]:
    """Seconds from making a session to the end of the first step, of it alone, and of the second; its loss."""
    start = time.perf_counter()
    with tf.Session() as session:
        session.run(initializer)
        initialized = time.perf_counter()
        _, value = session.run([train, loss])
        done = time.perf_counter()
        session.run([train, loss])
        again = time.perf_counter()
    return {
        "seconds": done - start,
        "first_run_seconds": done - initialized,
        "second_run_seconds": again - done,
        "loss": float(value),
        "peak_bytes": measure.peak_rss_bytes(),
    }


def whale_first_step(replicas: int, *fetches: Any) -> dict[str, Any]:
    """`first_step` on ``replicas`` CPU devices, with Whale's own account of the phases in seconds."""
    from whale.cluster import Cluster
    from whale.runtime import activation, options

    with activation.activate(options.Options(cluster=Cluster.local(replicas), batch="global")) as active:
        result = first_step(*fetches)
        # On one device nothing is rewritten, and nothing reported.
        phases = dict(active.reports[-1].seconds) if active.reports else {}
        return {**result, "phases": phases}


def main() -> None:
    """Build, step, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicas", type=int, default=1, help="0 leaves Whale out")
    parser.add_argument("--width", type=int, default=64)
    args = parser.parse_args()
    tf.disable_v2_behavior()
    # The first session and op of a process pay for TensorFlow's own start; neither side should be charged for it.
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(tf.constant(0.0))

    start = time.perf_counter()
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        train, loss = build(args.width)
        initializer = tf.global_variables_initializer()
        figures: dict[str, Any] = {"build_seconds": time.perf_counter() - start, "ops": len(graph.get_operations())}
        figures["plain"] = first_step(initializer, train, loss)
        if args.replicas:
            figures["whale"] = whale_first_step(args.replicas, initializer, train, loss)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
