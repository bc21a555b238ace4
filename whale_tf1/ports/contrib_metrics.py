"""Metrics of contrib that tf-slim lacks."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

__all__ = ["streaming_pearson_correlation"]


def streaming_pearson_correlation(
    predictions: Any,
    labels: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """The correlation of all values seen, from three streaming covariances; it is NaN while one of them is constant.

    Args:
        predictions: of any shape.
        labels: of the same shape.
        weights: of a shape that goes with theirs; None for 1.
        metrics_collections: collections that the value is added to.
        updates_collections: collections that the update op is added to.
        name: of the variable scope.

    Returns:
        The value, and the op that takes the values of this run in and gives the value after it.
    """
    from tf_slim.metrics import metric_ops

    predictions, labels = tf.convert_to_tensor(predictions), tf.convert_to_tensor(labels)
    with tf.variable_scope(name, "pearson_r", (predictions, labels, weights)):
        weights = None if weights is None else tf.broadcast_to(weights, tf.shape(labels))
        covariance, update = metric_ops.streaming_covariance(predictions, labels, weights, name="covariance")
        of_predictions, update_predictions = metric_ops.streaming_covariance(
            predictions, predictions, weights, name="variance_predictions"
        )
        of_labels, update_labels = metric_ops.streaming_covariance(labels, labels, weights, name="variance_labels")
        value = covariance / (tf.sqrt(of_predictions) * tf.sqrt(of_labels))
        updated = update / (tf.sqrt(update_predictions) * tf.sqrt(update_labels))
    for collections, item in ((metrics_collections, value), (updates_collections, updated)):
        if collections:
            tf.add_to_collections(collections, item)
    return value, updated
