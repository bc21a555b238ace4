"""TensorFlow 1 behaviour for this process, with what the comparison needs set before TensorFlow starts."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
from typing import Any

THREADS = 8
"""Threads that run ops in parallel. One pool serves every session of the process and the first session fixes its
size; blocking ops (queues, collectives) on three devices need more than two cores give by default."""


def tensorflow_version() -> str:
    """``major.minor`` of the installed TensorFlow, found without importing it.

    Raises:
        ModuleNotFoundError: TensorFlow is not installed.
    """
    for distribution in ("tensorflow-cpu", "tensorflow"):
        try:
            version = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
        return ".".join(version.split(".")[:2])
    raise ModuleNotFoundError("TensorFlow is not installed")


def start_tensorflow() -> Any:
    """``tensorflow.compat.v1`` with v2 behaviour off; safe to call again.

    oneDNN is off because it picks kernels by batch size, which changes the last digits when a batch is cut.
    """
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if importlib.util.find_spec("tf_keras") is not None:
        os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    import tensorflow.compat.v1 as tf

    if tf.executing_eagerly():
        tf.logging.set_verbosity(tf.logging.ERROR)
        tf.disable_v2_behavior()
        config = tf.ConfigProto(inter_op_parallelism_threads=THREADS)
        with tf.Graph().as_default(), tf.Session(config=config) as sess:
            sess.run(tf.constant(0))
    return tf
