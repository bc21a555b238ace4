"""tf.estimator: train, evaluate, predict, export (TensorFlow 2.15 has it, 2.21 does not)."""

from __future__ import annotations

import numpy as np

from tests.numerics.case import case
from tests.numerics.data import blobs, plane

ONLY = ("2.15",)


def config(tf, workdir):
    """A RunConfig with a seed and no chatter."""
    return tf.estimator.RunConfig(str(workdir), tf_random_seed=7, save_checkpoints_steps=5, log_step_count_steps=None)


def model(tf):
    """A classifier's model_fn with batch norm, dropout and all three modes."""

    def model_fn(features, labels, mode, params):
        training = mode == tf.estimator.ModeKeys.TRAIN
        hidden = tf.layers.dense(features["x"], params["hidden"], use_bias=False)
        hidden = tf.nn.relu(tf.layers.batch_normalization(hidden, training=training, momentum=0.8))
        logits = tf.layers.dense(tf.layers.dropout(hidden, 0.2, training=training), 3)
        classes = tf.argmax(logits, axis=1)
        if mode == tf.estimator.ModeKeys.PREDICT:
            outputs = {"classes": classes, "probabilities": tf.nn.softmax(logits)}
            export = {"serving_default": tf.estimator.export.PredictOutput(outputs)}
            return tf.estimator.EstimatorSpec(mode, predictions=outputs, export_outputs=export)
        loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
        if mode == tf.estimator.ModeKeys.EVAL:
            metrics = {"accuracy": tf.metrics.accuracy(labels, classes)}
            return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            train = tf.train.AdamOptimizer(0.02).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    return model_fn


def input_fn(tf, rows, batch, repeat):
    """An input function over blobs."""

    def read():
        features, labels = blobs(rows=rows, width=4, classes=3)
        data = tf.data.Dataset.from_tensor_slices(({"x": features}, labels))
        return (data.repeat() if repeat else data).batch(batch)

    return read


def record_checkpoint(tf, workdir, record):
    """Every variable of the latest checkpoint."""
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(str(workdir)))
    for name in sorted(reader.get_variable_to_shape_map()):
        record(name, reader.get_tensor(name))


@case(tf_versions=ONLY)
def train_evaluate_predict(tf, record, workdir):
    """Train in two calls (the second resumes), evaluate over an uneven set, predict row by row."""
    estimator = tf.estimator.Estimator(model(tf), config=config(tf, workdir), params={"hidden": 6})
    estimator.train(input_fn(tf, 40, 13, True), steps=5)
    estimator.train(input_fn(tf, 40, 13, True), max_steps=10)
    record("evaluation", estimator.evaluate(input_fn(tf, 23, 10, False)))
    record("predictions", list(estimator.predict(input_fn(tf, 11, 4, False))))
    record_checkpoint(tf, workdir, record)


@case(tf_versions=ONLY)
def train_and_evaluate(tf, record, workdir):
    """tf.estimator.train_and_evaluate with an exporter and a hook."""
    losses = []

    class Watch(tf.train.SessionRunHook):
        def begin(self):
            self.loss = tf.get_collection(tf.GraphKeys.LOSSES)[0]

        def before_run(self, run_context):
            return tf.train.SessionRunArgs(self.loss)

        def after_run(self, run_context, run_values):
            losses.append(run_values.results)

    estimator = tf.estimator.Estimator(model(tf), config=config(tf, workdir), params={"hidden": 5})
    training = tf.estimator.TrainSpec(input_fn(tf, 30, 7, True), max_steps=10, hooks=[Watch()])
    evaluation = tf.estimator.EvalSpec(input_fn(tf, 30, 8, False), steps=None, throttle_secs=0)
    result, _ = tf.estimator.train_and_evaluate(estimator, training, evaluation)
    record("losses", losses)
    record("evaluation", result)
    record_checkpoint(tf, workdir, record)


@case(tf_versions=ONLY)
def export(tf, record, workdir):
    """An exported SavedModel is loaded by a session and gives the estimator's predictions."""
    estimator = tf.estimator.Estimator(model(tf), config=config(tf, workdir / "model"), params={"hidden": 6})
    estimator.train(input_fn(tf, 40, 10, True), steps=6)

    def receiver():
        x = tf.placeholder(tf.float32, [None, 4], name="x")
        return tf.estimator.export.ServingInputReceiver({"x": x}, {"x": x})

    path = estimator.export_saved_model(str(workdir / "export"), receiver)
    features, _ = blobs(rows=9, width=4, classes=3, seed=1)
    with tf.Graph().as_default(), tf.Session() as sess:
        loaded = tf.saved_model.loader.load(sess, [tf.saved_model.SERVING], path.decode())
        signature = loaded.signature_def["serving_default"]
        feeds = {signature.inputs["x"].name: features}
        for key in sorted(signature.outputs):
            record(key, sess.run(signature.outputs[key].name, feeds))


@case(tf_versions=ONLY)
def numpy_input(tf, record, workdir):
    """numpy_input_fn feeds a queue; the model_fn has a head with a regression loss."""
    features, targets = plane(rows=24, width=3)

    def model_fn(features, labels, mode):
        predicted = tf.layers.dense(features["x"], 1)
        loss = tf.losses.mean_squared_error(labels, predicted)
        train = tf.train.AdagradOptimizer(0.3).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, predictions=predicted, loss=loss, train_op=train)

    inputs = tf.estimator.inputs.numpy_input_fn(
        {"x": features}, targets, batch_size=7, num_epochs=3, shuffle=False, num_threads=1
    )
    estimator = tf.estimator.Estimator(model_fn, config=config(tf, workdir))
    estimator.train(inputs)
    record("evaluation", estimator.evaluate(inputs))
    record_checkpoint(tf, workdir, record)


@case(
    tf_versions=ONLY, tolerance=3e-5, reason="a last bit of the inputs moves plain TensorFlow's result by up to 1.2e-5"
)
def warm_start(tf, record, workdir):
    """A second estimator starts from the first one's weights."""
    first = tf.estimator.Estimator(model(tf), config=config(tf, workdir / "first"), params={"hidden": 6})
    first.train(input_fn(tf, 20, 9, True), steps=4)
    start = tf.estimator.WarmStartSettings(str(workdir / "first"), vars_to_warm_start="dense/.*")
    second = tf.estimator.Estimator(
        model(tf), config=config(tf, workdir / "second"), params={"hidden": 6}, warm_start_from=start
    )
    second.train(input_fn(tf, 20, 9, True), steps=4)
    record("kernel", second.get_variable_value("dense/kernel"))
    record_checkpoint(tf, workdir / "second", record)


@case(tf_versions=ONLY)
def evaluation_of_many_metrics(tf, record, workdir):
    """Streaming metrics over batches of which the last is short are those of the whole set."""
    rows = 21

    def model_fn(features, labels, mode):
        probability = tf.nn.sigmoid(tf.layers.dense(features["x"], 1)[:, 0])
        loss = tf.losses.log_loss(labels, probability)
        train = tf.train.GradientDescentOptimizer(0.3).minimize(loss, tf.train.get_global_step())
        metrics = {
            "auc": tf.metrics.auc(labels, probability, num_thresholds=20),
            "precision": tf.metrics.precision(labels, probability > 0.5),
            "mean": tf.metrics.mean(probability),
            "rmse": tf.metrics.root_mean_squared_error(labels, probability),
        }
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train, eval_metric_ops=metrics)

    def read():
        features, labels = blobs(rows=rows, width=3, classes=2)
        return tf.data.Dataset.from_tensor_slices(({"x": features}, labels.astype(np.float32))).batch(8)

    estimator = tf.estimator.Estimator(model_fn, config=config(tf, workdir))
    estimator.train(read)
    record("evaluation", estimator.evaluate(read))
    record_checkpoint(tf, workdir, record)
