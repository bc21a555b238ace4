"""Sequence models over lists of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning")

BATCH, STEPS, SYMBOLS, UNITS = 2, 3, 6, 4


def ids(seed: int = 0) -> list[Any]:
    table = np.random.RandomState(seed).randint(SYMBOLS, size=(STEPS, BATCH)).astype(np.int32)
    return [tf.constant(row) for row in table]


def cell() -> Any:
    return tf.nn.rnn_cell.GRUCell(UNITS)


def test_rnn_decoder_equals_a_static_loop() -> None:
    from tensorflow.contrib import legacy_seq2seq

    with tf.Graph().as_default(), tf.Session() as session:
        steps = [tf.constant(np.random.RandomState(s).randn(BATCH, 2), tf.float32) for s in range(STEPS)]
        start = tf.ones([BATCH, UNITS])
        shared = cell()
        outputs, state = legacy_seq2seq.rnn_decoder(steps, start, shared, scope="same")
        expected, _ = tf.nn.static_rnn(shared, steps, initial_state=start, scope="same")
        session.run(tf.global_variables_initializer())
        found, wanted, last = session.run([outputs, expected, state])
        assert tf.trainable_variables()[0].op.name.startswith("same/gru_cell/")
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    np.testing.assert_allclose(last, wanted[-1], rtol=1e-6)


def test_loop_function_feeds_outputs_back() -> None:
    from tensorflow.contrib import legacy_seq2seq

    with tf.Graph().as_default(), tf.Session() as session:
        doubler = tf.nn.rnn_cell.BasicRNNCell(1, activation=tf.identity)
        steps = [tf.ones([1, 1])] * 3
        with tf.variable_scope("s"):
            outputs, _ = legacy_seq2seq.rnn_decoder(
                steps, tf.zeros([1, 1]), doubler, loop_function=lambda previous, _: previous
            )
        kernel, bias = tf.trainable_variables()
        session.run([tf.assign(kernel, [[2.0], [0.0]]), tf.assign(bias, [0.0])])
        assert [float(value[0, 0]) for value in session.run(outputs)] == [2, 4, 8]


@pytest.mark.parametrize("average", [True, False])
def test_losses_equal_their_definition(average: bool) -> None:
    from tensorflow.contrib import legacy_seq2seq

    random = np.random.RandomState(0)
    logits = random.randn(STEPS, BATCH, SYMBOLS)
    targets = random.randint(SYMBOLS, size=(STEPS, BATCH))
    weights = random.rand(STEPS, BATCH)
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    entropy = -np.take_along_axis(log_probs, targets[..., None], 2)[..., 0] * weights
    per_example = entropy.sum(0) / (weights.sum(0) if average else 1)
    with tf.Graph().as_default(), tf.Session() as session:
        lists = [[tf.constant(row) for row in values] for values in (logits, targets, weights)]
        by_example = legacy_seq2seq.sequence_loss_by_example(*lists, average_across_timesteps=average)
        mean = legacy_seq2seq.sequence_loss(*lists, average_across_timesteps=average)
        np.testing.assert_allclose(session.run(by_example), per_example, rtol=1e-6)
        np.testing.assert_allclose(session.run(mean), per_example.mean(), rtol=1e-6)
        with pytest.raises(ValueError, match="one number of steps"):
            legacy_seq2seq.sequence_loss(lists[0][:1], lists[1], lists[2])


MODELS = {
    "rnn": ("embedding_rnn_seq2seq", {"num_encoder_symbols": SYMBOLS, "num_decoder_symbols": SYMBOLS}),
    "attention": (
        "embedding_attention_seq2seq",
        {"num_encoder_symbols": SYMBOLS, "num_decoder_symbols": SYMBOLS, "num_heads": 2},
    ),
    "tied": ("embedding_tied_rnn_seq2seq", {"num_symbols": SYMBOLS}),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_over_ids_train_and_feed_themselves(name: str) -> None:
    from tensorflow.contrib import legacy_seq2seq

    function, options = MODELS[name]
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(2)
        source = ids()[:2]
        shifted = [tf.zeros([BATCH], tf.int32), source[0]]
        feed = tf.placeholder_with_default(False, [])
        outputs, _ = getattr(legacy_seq2seq, function)(
            source, shifted, tf.nn.rnn_cell.GRUCell(16), embedding_size=8, feed_previous=feed, **options
        )
        assert outputs[0].shape.as_list()[-1] == SYMBOLS
        loss = legacy_seq2seq.sequence_loss(outputs, source, [tf.ones([BATCH])] * 2)
        step = tf.train.AdamOptimizer(0.05).minimize(loss)
        session.run(tf.global_variables_initializer())
        before = session.run(loss)
        for _ in range(40):
            session.run(step)
        decoded, wanted = session.run([[tf.argmax(value, 1) for value in outputs], source], {feed: True})
        assert session.run(loss) < before / 4
    assert (np.array(decoded) == np.array(wanted)).all()


def test_buckets_share_variables() -> None:
    from tensorflow.contrib import legacy_seq2seq

    with tf.Graph().as_default(), tf.Session() as session:
        source, target = ids(), ids(1)
        weights = [tf.ones([BATCH])] * STEPS
        outputs, losses = legacy_seq2seq.model_with_buckets(
            source,
            target,
            target,
            weights,
            [(1, 2), (3, 3)],
            lambda x, y: legacy_seq2seq.embedding_rnn_seq2seq(x, y, cell(), SYMBOLS, SYMBOLS, 3),
        )
        names = [v.op.name for v in tf.global_variables()]
        assert len(names) == len(set(names)) and [len(each) for each in outputs] == [2, 3]
        session.run(tf.global_variables_initializer())
        assert np.isfinite(session.run(losses)).all()


def test_encoder_and_decoder_have_their_own_cells() -> None:
    from tensorflow.contrib import legacy_seq2seq

    with tf.Graph().as_default():
        steps = [tf.ones([BATCH, 2])] * STEPS
        legacy_seq2seq.basic_rnn_seq2seq(steps, steps, cell())
        kernels = [v.op.name for v in tf.trainable_variables() if v.op.name.endswith("gates/kernel")]
        assert kernels == [
            "basic_rnn_seq2seq/rnn/gru_cell/gates/kernel",
            "basic_rnn_seq2seq/rnn_decoder/gru_cell/gates/kernel",
        ]


def test_attention_from_the_initial_state_changes_the_first_output() -> None:
    from tensorflow.contrib import legacy_seq2seq

    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(4)
        steps, memory = [tf.ones([BATCH, 2])] * 2, tf.random_normal([BATCH, 3, UNITS], seed=1)
        results = []
        for early in (False, True):
            with tf.variable_scope("shared", reuse=tf.AUTO_REUSE):
                outputs, _ = legacy_seq2seq.attention_decoder(
                    steps, tf.ones([BATCH, UNITS]), memory, cell(), output_size=3, initial_state_attention=early
                )
            results.append(tf.stack(outputs))
        names = {v.op.name.split("/", 2)[-1] for v in tf.trainable_variables()}
        assert {"AttnW_0", "AttnV_0", "Attention_0/kernel", "AttnOutputProjection/kernel", "kernel"} <= names
        session.run(tf.global_variables_initializer())
        late, early = session.run(results)
    assert late.shape == (2, BATCH, 3) and np.abs(late - early).max() > 1e-4
