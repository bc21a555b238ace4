"""Streaming metrics of tf.metrics beside training."""

from __future__ import annotations

import numpy as np

from tests.numerics.case import case, record_variables
from tests.numerics.data import batches, blobs


@case()
def updated_beside_training(tf, record, workdir):
    """Accuracy, mean, AUC, precision and recall are updated in the training step's own run."""
    features, labels = blobs(rows=33, width=4, classes=2)
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.int32, [None])
    logits = tf.layers.dense(x, 2)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
    loss = tf.reduce_mean(losses)
    predicted, probability = tf.argmax(logits, 1), tf.nn.softmax(logits)[:, 1]
    metrics = {
        "accuracy": tf.metrics.accuracy(y, predicted),
        "mean": tf.metrics.mean(losses),
        "auc": tf.metrics.auc(y, probability, num_thresholds=11),
        "precision": tf.metrics.precision(y, predicted),
        "recall": tf.metrics.recall(y, predicted),
    }
    updates = tf.group(*(update for _, update in metrics.values()))
    train = tf.train.GradientDescentOptimizer(0.3).minimize(loss)
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        for _ in range(2):
            for a, b in batches(7, features, labels):
                record("loss", sess.run([loss, train, updates], {x: a, y: b})[0])
            record("metrics", sess.run({name: value for name, (value, _) in metrics.items()}))
            sess.run(tf.local_variables_initializer())
        record_variables(tf, sess, record)


@case()
def evaluation_loop(tf, record, workdir):
    """A separate evaluation with weights: mean_iou, per-class accuracy, top-k, RMSE."""
    features, labels = blobs(rows=26, width=4, classes=3)
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.int32, [None])
    logits = tf.layers.dense(x, 3)
    loss = tf.losses.sparse_softmax_cross_entropy(y, logits)
    train = tf.train.AdamOptimizer(0.05).minimize(loss)
    predicted = tf.argmax(logits, 1)
    weights = tf.cast(y + 1, tf.float32)
    pairs = [
        tf.metrics.mean_iou(y, predicted, 3),
        tf.metrics.mean_per_class_accuracy(y, predicted, 3),
        tf.metrics.root_mean_squared_error(tf.one_hot(y, 3), tf.nn.softmax(logits)),
        tf.metrics.accuracy(y, predicted, weights=weights),
        tf.metrics.mean(tf.cast(tf.nn.in_top_k(logits, y, 2), tf.float32)),
    ]
    values, updates = [value for value, _ in pairs], [update for _, update in pairs]
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for a, b in batches(9, features, labels):
                record("loss", sess.run([loss, train], {x: a, y: b})[0])
            sess.run(tf.local_variables_initializer())
            for a, b in batches(10, features, labels):
                sess.run(updates, {x: a, y: b})
            record("metrics", sess.run(values))
        record_variables(tf, sess, record)


@case()
def confusion_and_counts(tf, record, workdir):
    """A confusion matrix and integer counts over the batch, accumulated in variables by the script."""
    features, labels = blobs(rows=26, width=4, classes=3)
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.int32, [None])
    logits = tf.layers.dense(x, 3)
    matrix = tf.Variable(tf.zeros([3, 3], tf.int32), trainable=False)
    seen = tf.Variable(0, trainable=False)
    now = tf.confusion_matrix(y, tf.argmax(logits, 1), 3)
    count = [matrix.assign_add(now), seen.assign_add(tf.shape(x)[0])]
    loss = tf.losses.sparse_softmax_cross_entropy(y, logits)
    train = tf.train.GradientDescentOptimizer(0.3).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for a, b in batches(7, features, labels):
                value, one, _, _ = sess.run([loss, now, train, count], {x: a, y: b})
                record("loss", value)
                record("confusion", np.asarray(one))
        record_variables(tf, sess, record)
