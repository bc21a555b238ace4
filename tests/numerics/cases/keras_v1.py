"""tf.keras in v1 graph mode."""

from __future__ import annotations

import numpy as np

from tests.numerics.case import case, record_variables
from tests.numerics.data import batches, blobs, images, sentences


@case()
def fit_and_evaluate(tf, record, workdir):
    """compile, fit over uneven batches, evaluate, predict, with a metric."""
    features, labels = blobs(rows=26, width=4, classes=3)
    model = tf.keras.Sequential(
        [tf.keras.layers.Dense(6, activation="tanh", input_shape=(4,)), tf.keras.layers.Dense(3, activation="softmax")]
    )
    model.compile(tf.keras.optimizers.SGD(0.3), "sparse_categorical_crossentropy", metrics=["accuracy"])
    history = model.fit(features, labels, batch_size=7, epochs=3, shuffle=False, verbose=0)
    record("loss", history.history["loss"])
    record("evaluation", model.evaluate(features, labels, batch_size=10, verbose=0))
    record("predictions", model.predict(features, batch_size=10))
    record("weights", model.get_weights())
    tf.keras.backend.get_session().close()


@case()
def functional_model_step_by_step(tf, record, workdir):
    """A functional model with batch norm and dropout, trained by train_on_batch."""
    pixels, labels = images(rows=20, side=5, channels=1, classes=3)
    inputs = tf.keras.Input((5, 5, 1))
    net = tf.keras.layers.Conv2D(3, 3, use_bias=False)(inputs)
    net = tf.keras.layers.ReLU()(tf.keras.layers.BatchNormalization(momentum=0.7)(net))
    net = tf.keras.layers.Dropout(0.2)(tf.keras.layers.Flatten()(net))
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(3)(net))
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.SGD(0.05, momentum=0.9), loss)
    for _ in range(3):
        for a, b in batches(7, pixels, labels):
            record("loss", model.train_on_batch(a, b))
    record("predictions", model.predict_on_batch(pixels))
    record("weights", model.get_weights())
    tf.keras.backend.get_session().close()


@case()
def layers_in_a_session_loop(tf, record, workdir):
    """Keras layers and losses inside an ordinary session loop with a tf.train optimizer."""
    features, labels = blobs(rows=23, width=4, classes=3)
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.int32, [None])
    hidden = tf.keras.layers.Dense(6, activation="relu")(x)
    probability = tf.keras.layers.Dense(3, activation="softmax")(hidden)
    loss = tf.reduce_mean(tf.keras.losses.sparse_categorical_crossentropy(y, probability))
    train = tf.train.AdamOptimizer(0.03).minimize(loss)
    with tf.Session() as sess:
        tf.keras.backend.set_session(sess)
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            for a, b in batches(7, features, labels):
                record("loss", sess.run([loss, train], {x: a, y: b})[0])
        record_variables(tf, sess, record)


@case()
def recurrent_fit_with_weights(tf, record, workdir):
    """An embedding and an LSTM with masking, sample weights and a validation split."""
    tokens, lengths = sentences(rows=24, steps=5, vocabulary=9)
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Embedding(9, 4, mask_zero=True, input_length=5),
            tf.keras.layers.LSTM(4),
            tf.keras.layers.Dense(1),
        ]
    )
    model.compile(tf.keras.optimizers.Adagrad(0.1), "mse")
    weights = 1.0 + (np.arange(24) % 3).astype(np.float32)
    history = model.fit(
        tokens,
        lengths.astype(np.float32),
        batch_size=7,
        epochs=2,
        shuffle=False,
        verbose=0,
        sample_weight=weights,
        validation_split=0.25,
    )
    record("history", history.history)
    record("weights", model.get_weights())
    tf.keras.backend.get_session().close()
