"""Small functions of ``tf.contrib.nn``."""

from __future__ import annotations

import math
from typing import Any

import tensorflow.compat.v1 as tf

__all__ = [
    "alpha_dropout",
    "deprecated_flipped_sigmoid_cross_entropy_with_logits",
    "deprecated_flipped_softmax_cross_entropy_with_logits",
    "deprecated_flipped_sparse_softmax_cross_entropy_with_logits",
]

# The negative saturation value of SELU, -scale * alpha (Klambauer et al., 2017).
_SATURATION = -1.0507009873554805 * 1.6732632423543772


def alpha_dropout(
    x: Any, keep_prob: Any, noise_shape: Any = None, seed: int | None = None, name: str | None = None
) -> Any:
    """Dropout that keeps mean and variance of SELU activations: dropped units get SELU's saturation value.

    Raises:
        ValueError: ``keep_prob`` is a number outside of (0, 1].
    """
    with tf.name_scope(name, "alpha_dropout", [x]):
        x = tf.convert_to_tensor(x)
        if isinstance(keep_prob, float):
            if not 0 < keep_prob <= 1:
                raise ValueError(f"keep_prob must be in (0, 1], not {keep_prob}")
            if math.isclose(keep_prob, 1.0, rel_tol=0, abs_tol=0):
                return x
        keep = tf.convert_to_tensor(keep_prob, x.dtype)
        shape = tf.shape(x) if noise_shape is None else noise_shape
        kept = tf.floor(keep + tf.random_uniform(shape, dtype=x.dtype, seed=seed))
        scale = tf.rsqrt(keep + _SATURATION**2 * keep * (1 - keep))
        shift = -scale * _SATURATION * (1 - keep)
        result = scale * (x * kept + _SATURATION * (1 - kept)) + shift
        result.set_shape(x.shape)
        return result


def deprecated_flipped_softmax_cross_entropy_with_logits(
    logits: Any, labels: Any, dim: int = -1, name: str | None = None
) -> Any:
    """Softmax cross entropy with the logits first, as before TF 1.0."""
    return tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits, dim=dim, name=name)


def deprecated_flipped_sparse_softmax_cross_entropy_with_logits(
    logits: Any, labels: Any, name: str | None = None
) -> Any:
    """Sparse softmax cross entropy with the logits first, as before TF 1.0."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits, name=name)


def deprecated_flipped_sigmoid_cross_entropy_with_logits(logits: Any, targets: Any, name: str | None = None) -> Any:
    """Sigmoid cross entropy with the logits first, as before TF 1.0."""
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits, name=name)
