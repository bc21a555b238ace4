"""Attention mechanisms, the attention cell and beam search against numpy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning")

BATCH, LENGTH, DEPTH, UNITS = 2, 4, 3, 5
LENGTHS = np.array([4, 2])


def memory() -> np.ndarray:
    return np.random.RandomState(0).randn(BATCH, LENGTH, DEPTH).astype(np.float32)


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def values_of(session: tf.Session) -> dict[str, np.ndarray]:
    return {variable.op.name: session.run(variable) for variable in tf.global_variables()}


def masked(scores: np.ndarray) -> np.ndarray:
    return np.where(np.arange(LENGTH) < LENGTHS[:, None], scores, -np.inf)


@pytest.mark.parametrize("scale", [False, True])
def test_luong_attention(scale: bool) -> None:
    from tensorflow.contrib import seq2seq

    query = np.random.RandomState(1).randn(BATCH, UNITS).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        mechanism = seq2seq.LuongAttention(UNITS, tf.constant(memory()), LENGTHS, scale=scale)
        alignments, _ = mechanism(tf.constant(query), mechanism.initial_state(BATCH, tf.float32))
        session.run(tf.global_variables_initializer())
        found, variables = session.run(alignments), values_of(session)
    assert set(variables) == {"memory_layer/kernel"} | ({"luong_attention/attention_g"} if scale else set())
    keys = memory() @ variables["memory_layer/kernel"]
    np.testing.assert_allclose(found, softmax(masked(np.einsum("bu,btu->bt", query, keys))), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("normalize", [False, True])
def test_bahdanau_attention(normalize: bool) -> None:
    from tensorflow.contrib import seq2seq

    query = np.random.RandomState(1).randn(BATCH, DEPTH).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        mechanism = seq2seq.BahdanauAttention(UNITS, tf.constant(memory()), LENGTHS, normalize=normalize)
        alignments, _ = mechanism(tf.constant(query), mechanism.initial_state(BATCH, tf.float32))
        session.run(tf.global_variables_initializer())
        found, variables = session.run(alignments), values_of(session)
    scope = "bahdanau_attention"
    direction = variables[f"{scope}/attention_v"]
    joint = memory() @ variables["memory_layer/kernel"] + (query @ variables[f"{scope}/query_layer/kernel"])[:, None]
    if normalize:
        direction = variables[f"{scope}/attention_g"] * direction / np.sqrt((direction**2).sum())
    np.testing.assert_allclose(found, softmax(masked((direction * np.tanh(joint)).sum(-1))), rtol=1e-4, atol=1e-6)


def test_monotonic_attention_is_the_distribution_of_the_stopping_place() -> None:
    from tensorflow.contrib import seq2seq

    random = np.random.RandomState(2)
    chosen = random.uniform(0.2, 0.8, (BATCH, LENGTH))
    previous = softmax(random.randn(BATCH, LENGTH))
    expected = np.zeros((BATCH, LENGTH))
    for row, start, stop in itertools.product(range(BATCH), range(LENGTH), range(LENGTH)):
        if stop >= start:
            passed = np.prod(1 - chosen[row, start:stop])
            expected[row, stop] += previous[row, start] * passed * chosen[row, stop]
    with tf.Graph().as_default(), tf.Session() as session:
        for mode in ("recursive", "parallel"):
            found = session.run(seq2seq.monotonic_attention(tf.constant(chosen), tf.constant(previous), mode))
            np.testing.assert_allclose(found, expected, rtol=1e-6)
        hard = seq2seq.monotonic_attention([[0.0, 1.0, 1.0, 0.0]], [[0.0, 0.0, 1.0, 0.0]], "hard")
        assert session.run(hard).tolist() == [[0, 0, 1, 0]]
        mechanism = seq2seq.BahdanauMonotonicAttention(UNITS, tf.constant(memory()), LENGTHS)
        alignments, _ = mechanism(tf.zeros([BATCH, DEPTH]), mechanism.initial_state(BATCH, tf.float32))
        session.run(tf.global_variables_initializer())
        weights = session.run(alignments)
    assert not weights[1, 2:].any() and (weights.sum(axis=1) <= 1 + 1e-6).all()


def test_attention_wrapper_step_by_step() -> None:
    from tensorflow.contrib import seq2seq

    random = np.random.RandomState(3)
    inputs = random.randn(BATCH, 3, 2).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        mechanism = seq2seq.LuongAttention(UNITS, tf.constant(memory()), LENGTHS)
        cell = seq2seq.AttentionWrapper(
            tf.nn.rnn_cell.BasicRNNCell(UNITS), mechanism, attention_layer_size=4, alignment_history=True
        )
        helper = seq2seq.TrainingHelper(tf.constant(inputs), [3, 3])
        decoder = seq2seq.BasicDecoder(cell, helper, cell.zero_state(BATCH, tf.float32))
        outputs, state, _ = seq2seq.dynamic_decode(decoder)
        session.run(tf.global_variables_initializer())
        found, history = session.run([outputs.rnn_output, state.alignment_history.stack()])
        variables = values_of(session)
    prefix = "decoder/attention_wrapper"
    kernel, bias = variables[f"{prefix}/basic_rnn_cell/kernel"], variables[f"{prefix}/basic_rnn_cell/bias"]
    layer = variables[f"{prefix}/attention_layer/kernel"]
    keys = memory() @ variables["memory_layer/kernel"]
    mask = (np.arange(LENGTH) < LENGTHS[:, None])[..., None]
    attention, hidden = np.zeros((BATCH, 4)), np.zeros((BATCH, UNITS))
    for time in range(3):
        hidden = np.tanh(np.concatenate([inputs[:, time], attention, hidden], 1) @ kernel + bias)
        weights = softmax(masked(np.einsum("bu,btu->bt", hidden, keys)))
        context = np.einsum("bt,btd->bd", weights, memory() * mask)
        attention = np.concatenate([hidden, context], 1) @ layer
        np.testing.assert_allclose(found[:, time], attention, rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(history[time], weights, rtol=1e-3, atol=1e-5)


class MarkovCell(tf.nn.rnn_cell.RNNCell):
    """Logits that depend on the last id only."""

    def __init__(self, table: np.ndarray) -> None:
        super().__init__()
        self._table = table

    @property
    def state_size(self) -> int:
        return 1

    @property
    def output_size(self) -> int:
        return len(self._table)

    def call(self, inputs: Any, state: Any) -> Any:
        return tf.matmul(inputs, tf.constant(self._table, tf.float32)), state + 1


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_a_wide_beam_finds_the_best_hypothesis(penalty: float) -> None:
    from tensorflow.contrib import seq2seq

    classes, end, steps = 4, 3, 3
    table = np.random.RandomState(5).randn(classes, classes) * 2
    log_probs = np.log(softmax(table))
    scores: dict[tuple[int, ...], float] = {}
    for ids in itertools.product(range(classes), repeat=steps):
        cut = ids[: ids.index(end) + 1] if end in ids else ids
        total = sum(log_probs[a, b] for a, b in zip((0, *cut), cut))
        length = sum(token != end for token in cut)
        scores[cut] = total / ((5 + length) / 6) ** penalty
    best = max(scores, key=scores.__getitem__)
    with tf.Graph().as_default(), tf.Session() as session:
        width = classes**2
        decoder = seq2seq.BeamSearchDecoder(
            MarkovCell(table),
            tf.eye(classes),
            tf.constant([0, 0]),
            end,
            seq2seq.tile_batch(tf.zeros([2, 1]), width),
            beam_width=width,
            length_penalty_weight=penalty,
        )
        outputs, state, lengths = session.run(seq2seq.dynamic_decode(decoder, maximum_iterations=steps))
    for row in range(2):
        assert outputs.predicted_ids[row, : len(best), 0].tolist() == list(best)
        assert (outputs.predicted_ids[row, len(best) :, 0] == end).all()
    final = outputs.beam_search_decoder_output.scores[0, -1, 0]
    assert final == pytest.approx(scores[best], rel=1e-5)
    assert lengths.shape == (2, width) and state.log_probs.shape == (2, width)


def test_beam_search_over_attention_keeps_each_beams_own_state() -> None:
    from tensorflow.contrib import seq2seq

    width = 3
    with tf.Graph().as_default(), tf.Session() as session:
        tiled = seq2seq.tile_batch(tf.constant(memory()), width)
        mechanism = seq2seq.BahdanauAttention(UNITS, tiled, seq2seq.tile_batch(tf.constant(LENGTHS), width))
        cell = seq2seq.AttentionWrapper(tf.nn.rnn_cell.GRUCell(UNITS), mechanism, 6, alignment_history=True)
        decoder = seq2seq.BeamSearchDecoder(
            cell,
            tf.random_uniform([7, 4], seed=1),
            tf.zeros([BATCH], tf.int32),
            6,
            cell.zero_state(BATCH * width, tf.float32),
            width,
            output_layer=tf.layers.Dense(7),
            coverage_penalty_weight=0.1,
        )
        outputs, state, _ = seq2seq.dynamic_decode(decoder, maximum_iterations=5)
        history = state.cell_state.alignment_history
        session.run(tf.global_variables_initializer())
        ids, weights = session.run([outputs.predicted_ids, history])
    assert ids.shape[0] == BATCH and ids.shape[2] == width
    np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=1e-5)


def test_gather_tree_follows_parents() -> None:
    from tensorflow.contrib import seq2seq

    ids = np.array([[[1, 2, 3]], [[4, 5, 6]], [[7, 8, 9]]])
    parents = np.array([[[0, 0, 0]], [[0, 1, 1]], [[2, 1, 2]]])
    with tf.Graph().as_default(), tf.Session() as session:
        whole = session.run(seq2seq.gather_tree(ids, parents, [3], 10))
        short = session.run(seq2seq.gather_tree(ids, parents, [2], 10))
    assert whole[:, 0].T.tolist() == [[2, 6, 7], [2, 5, 8], [2, 6, 9]]
    assert short[:, 0].T.tolist() == [[1, 4, 10], [2, 5, 10], [2, 6, 10]]
