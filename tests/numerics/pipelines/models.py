"""The models of the matrix, each in four parts, and the steps that train them."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tests.numerics.case import Record, record_variables
from tests.numerics.data import blobs, images, sentences
from tests.numerics.pipelines.compare import Script
from tests.numerics.pipelines.scopes import NoScopes

BATCHES = (11, 8, 3)
"""Rows of the steps: no number of pieces divides the first, and the last is smaller than most."""

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


@dataclasses.dataclass(frozen=True)
class Data:
    """What a model learns: arrays of equally many rows, by the name of its input."""

    arrays: dict[str, np.ndarray]
    """By name: [rows, ...]."""

    def slice(self, start: int, stop: int) -> dict[str, np.ndarray]:
        """Some rows."""
        return {name: array[start:stop] for name, array in self.arrays.items()}


Model = Callable[[Any, dict[str, Any], NoScopes], Any]
"""``model(tf, inputs, scopes)`` builds the forward pass and gives the loss."""


def mlp(tf: Any, inputs: dict[str, Any], scopes: NoScopes) -> Any:
    """Dense layers; what the first computes is read by the last as well."""
    with scopes.model():
        with scopes.part(0):
            first = hidden = tf.layers.dense(inputs["x"], 6, tf.nn.tanh)
        with scopes.part(1):
            hidden = tf.layers.dense(hidden, 7, tf.nn.tanh)
        with scopes.part(2):
            hidden = tf.layers.dense(hidden, 6, tf.nn.tanh)
        with scopes.part(3):
            logits = tf.layers.dense(hidden + first, 3)
            return tf.losses.sparse_softmax_cross_entropy(inputs["y"], logits)


VOCABULARY = 13
STEPS = 5


def language_model(tf: Any, inputs: dict[str, Any], scopes: NoScopes) -> Any:
    """A decoder whose output layer is its table of embeddings; the loss is the mean over the tokens that count."""
    tokens, width = inputs["tokens"], 6
    with scopes.model():
        with scopes.part(0):
            table = tf.get_variable("table", [VOCABULARY, width], initializer=tf.random_normal_initializer(0.0, 0.5))
            places = tf.get_variable("places", [STEPS, width], initializer=tf.random_normal_initializer(0.0, 0.5))
            hidden = tf.nn.embedding_lookup(table, tokens) + places
        with scopes.part(1):
            hidden = _attend(tf, hidden, width)
        with scopes.part(2):
            hidden = _attend(tf, hidden, width)
        with scopes.part(3):
            logits = tf.tensordot(_normalised(tf, hidden), tf.transpose(table), 1)[:, :-1]
            weights = tf.cast(tf.sequence_mask(inputs["lengths"] - 1, STEPS - 1), tf.float32)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tokens[:, 1:], logits=logits)
            return tf.reduce_sum(losses * weights) / tf.maximum(tf.reduce_sum(weights), 1.0)


def _attend(tf: Any, hidden: Any, width: int) -> Any:
    normalised = _normalised(tf, hidden)
    queries, keys, values = (tf.layers.dense(normalised, width, use_bias=False) for _ in range(3))
    ahead = tf.constant(np.triu(np.full((STEPS, STEPS), -1e9, np.float32), 1))
    scores = tf.nn.softmax(tf.matmul(queries, keys, transpose_b=True) / width**0.5 + ahead)
    hidden = hidden + tf.layers.dense(tf.matmul(scores, values), width)
    return hidden + tf.layers.dense(tf.layers.dense(hidden, 2 * width, tf.nn.relu), width)


def _normalised(tf: Any, hidden: Any) -> Any:
    mean, variance = tf.nn.moments(hidden, [-1], keep_dims=True)
    return (hidden - mean) * tf.rsqrt(variance + 1e-3)


def lstm(tf: Any, inputs: dict[str, Any], scopes: NoScopes) -> Any:
    """Two ``dynamic_rnn`` layers over sequences of unequal length, each a loop in a stage of its own."""
    with scopes.model():
        with scopes.part(0):
            table = tf.get_variable("table", [VOCABULARY, 5])
            hidden = tf.nn.embedding_lookup(table, inputs["tokens"])
        with scopes.part(1):
            hidden = _recurrent(tf, hidden, inputs["lengths"], "below")[0]
        with scopes.part(2):
            state = _recurrent(tf, hidden, inputs["lengths"], "above")[1]
        with scopes.part(3):
            logits = tf.layers.dense(state.h, 3)
            return tf.losses.sparse_softmax_cross_entropy(inputs["y"], logits)


def _recurrent(tf: Any, hidden: Any, lengths: Any, name: str) -> Any:
    cell = tf.nn.rnn_cell.LSTMCell(4, name=name)
    return tf.nn.dynamic_rnn(cell, hidden, lengths, dtype=tf.float32, scope=name)


def cnn(tf: Any, inputs: dict[str, Any], scopes: NoScopes) -> Any:
    """Convolutions with batch norm, whose moving averages are ``UPDATE_OPS``."""
    with scopes.model():
        hidden = inputs["x"]
        for part in range(3):
            with scopes.part(part):
                hidden = tf.layers.conv2d(hidden, 4, 3, strides=1 + part % 2, padding="same", use_bias=False)
                hidden = tf.nn.relu(tf.layers.batch_normalization(hidden, momentum=0.8, training=True))
        with scopes.part(3):
            logits = tf.layers.dense(tf.reduce_mean(hidden, [1, 2]), 3)
            return tf.losses.sparse_softmax_cross_entropy(inputs["y"], logits)


def bert(tf: Any, inputs: dict[str, Any], scopes: NoScopes) -> Any:
    """The example's BERT with the head that finds answers (SQuAD)."""
    example = _example()
    config = example.BertConfig(VOCABULARY, 8, 2, 2, max_positions=STEPS, dropout=0.0, initializer_range=0.2)
    mask = example.attention_mask(tf.sequence_mask(inputs["lengths"], STEPS))
    tokens = inputs["tokens"]
    tokens.set_shape([None, STEPS])
    with scopes.model():
        with scopes.part(0):
            hidden = example.embeddings(tokens, tf.cast(tokens > 6, tf.int32), config)[0]
        for layer in range(2):
            with scopes.part(1 + layer):
                hidden = example.encoder(hidden, mask, config, layers=[layer])
        with scopes.part(3):
            logits = example.span_logits(hidden, config)
            return example.span_loss(*logits, inputs["y"], inputs["y"] + 1)


@functools.cache
def _example() -> ModuleType:
    """The example's package, under a name of its own: scripts and other tests import it as they do."""
    folder = EXAMPLES / "bert"
    found = importlib.util.spec_from_file_location(
        "example_bert", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module
    found.loader.exec_module(module)
    return module


def _vectors(rows: int) -> Data:
    x, y = blobs(rows, 4, 3)
    return Data({"x": x, "y": y})


def _images(rows: int) -> Data:
    x, y = images(rows, 4, 2, 3)
    return Data({"x": x, "y": y})


def _sentences(rows: int) -> Data:
    tokens, lengths = sentences(rows, STEPS, VOCABULARY)
    return Data({"tokens": tokens, "lengths": lengths, "y": tokens[:, 0] % 3})


DATA: dict[Model, Callable[[int], Data]] = {
    mlp: _vectors,
    language_model: _sentences,
    lstm: _sentences,
    cnn: _images,
    bert: _sentences,
}
"""By model: makes its data."""


def adam(tf: Any) -> Any:
    """An optimizer with two slots and two variables of its own."""
    return tf.train.AdamOptimizer(0.02, epsilon=1e-3)


def momentum(tf: Any) -> Any:
    """An optimizer with a slot."""
    return tf.train.MomentumOptimizer(0.2, 0.9)


OPTIMIZERS: dict[Model, Callable[[Any], Any]] = {
    mlp: adam,
    language_model: momentum,
    lstm: adam,
    cnn: momentum,
    bert: momentum,
}
"""By model: what trains it."""


SETTINGS: dict[Model, dict[str, Any]] = {cnn: {"batch.sync": True}}
"""By model: the configuration under which a pipeline equals one device."""


def training(tf: Any, loss: Any, optimizer: Any, waiting: bool = False) -> list[Any]:
    """The loss, every gradient's norm, the step and its update, which runs the graph's ``UPDATE_OPS`` too.

    ``waiting``: whether the gradients wait for these as well, as where ``minimize`` is called under them.
    """
    step = tf.train.get_or_create_global_step()
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS) if waiting else []):
        gradients = optimizer.compute_gradients(loss)
    norms = [tf.sqrt(tf.reduce_sum(tf.square(tf.convert_to_tensor(gradient)))) for gradient, _ in gradients]
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train = optimizer.apply_gradients(gradients, global_step=step)
    return [loss, norms, train]


def fed(model: Model, batches: Sequence[int] = BATCHES, waiting: bool = False) -> Script:
    """A script that trains a model on fed batches and records losses, gradients' norms and all variables.

    ``waiting``: as ``training``.
    """

    def script(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
        del workdir
        data = DATA[model](sum(batches))
        inputs = {
            name: tf.placeholder(array.dtype, [None, *array.shape[1:]], name) for name, array in data.arrays.items()
        }
        fetches = training(tf, model(tf, inputs, scopes), OPTIMIZERS[model](tf), waiting)
        start = 0
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for rows in batches:
                batch = data.slice(start, start + rows)
                record("step", sess.run(fetches, {inputs[name]: value for name, value in batch.items()})[:2])
                start += rows
            record_variables(tf, sess, record)

    script.__name__ = model.__name__
    return script


def drawn(model: Model, batch: int, rows: int, drop_remainder: bool = False, copies: int = 1) -> Script:
    """A script that trains a model on draws of an iterator until it ends.

    Args:
        model: the model.
        batch: rows of one draw under Whale.
        rows: rows of the data.
        drop_remainder: whether the last rows are left out where they fill no batch.
        copies: draws of a step; where the script runs without scopes, its batches are that much larger.
    """

    def script(tf: Any, record: Record, workdir: Path, scopes: NoScopes) -> None:
        del workdir
        size = batch * copies if type(scopes) is NoScopes else batch
        dataset = tf.data.Dataset.from_tensor_slices(DATA[model](rows).arrays)
        dataset = dataset.batch(size, drop_remainder=drop_remainder)
        inputs = tf.data.make_one_shot_iterator(dataset).get_next()
        fetches = training(tf, model(tf, inputs, scopes), OPTIMIZERS[model](tf))
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            try:
                while True:
                    record("step", sess.run(fetches)[:2])
            except tf.errors.OutOfRangeError:
                record_variables(tf, sess, record)

    script.__name__ = f"{model.__name__} drawn"
    return script
