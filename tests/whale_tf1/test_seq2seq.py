"""Decoding loops, helpers and losses against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning")

BATCH, STEPS, DEPTH, CLASSES = 3, 4, 2, 5
LENGTHS = np.array([4, 2, 3], np.int32)


class SumCell(tf.nn.rnn_cell.RNNCell):
    """State and output are the sum of the inputs read so far: easy to follow by hand."""

    @property
    def state_size(self) -> int:
        return DEPTH

    @property
    def output_size(self) -> int:
        return DEPTH

    def call(self, inputs: Any, state: Any) -> Any:
        total = state + inputs
        return total, total


class ChainCell(tf.nn.rnn_cell.RNNCell):
    """Logits that make id k + 1 follow id k: inputs are one-hot ids."""

    @property
    def state_size(self) -> int:
        return 1

    @property
    def output_size(self) -> int:
        return CLASSES

    def call(self, inputs: Any, state: Any) -> Any:
        return 10 * tf.roll(inputs, 1, axis=1), state + 1


def inputs() -> np.ndarray:
    return np.random.RandomState(0).randn(BATCH, STEPS, DEPTH).astype(np.float32)


@pytest.mark.parametrize("impute", [False, True])
@pytest.mark.parametrize("time_major", [False, True])
def test_training_helper_reads_the_inputs(impute: bool, time_major: bool) -> None:
    from tensorflow.contrib import seq2seq

    given = inputs()
    with tf.Graph().as_default(), tf.Session() as session:
        source = given.transpose(1, 0, 2) if time_major else given
        helper = seq2seq.TrainingHelper(tf.constant(source), LENGTHS, time_major=time_major)
        decoder = seq2seq.BasicDecoder(SumCell(), helper, tf.zeros([BATCH, DEPTH]))
        outputs, state, lengths = session.run(
            seq2seq.dynamic_decode(decoder, output_time_major=time_major, impute_finished=impute)
        )
    expected = given.cumsum(axis=1)
    found = outputs.rnn_output.transpose(1, 0, 2) if time_major else outputs.rnn_output
    assert (lengths == LENGTHS).all()
    for row, length in enumerate(LENGTHS):
        np.testing.assert_allclose(found[row, :length], expected[row, :length], rtol=1e-6)
        if impute:
            assert not found[row, length:].any()
            np.testing.assert_allclose(state[row], expected[row, length - 1], rtol=1e-6)
    samples = outputs.sample_id.T if time_major else outputs.sample_id
    assert (samples[0] == expected[0].argmax(axis=-1)).all()


def test_gradients_flow_through_the_loop() -> None:
    from tensorflow.contrib import seq2seq

    with tf.Graph().as_default(), tf.Session() as session:
        given = tf.constant(inputs())
        helper = seq2seq.TrainingHelper(given, LENGTHS)
        decoder = seq2seq.BasicDecoder(SumCell(), helper, tf.zeros([BATCH, DEPTH]))
        outputs, _, _ = seq2seq.dynamic_decode(decoder, impute_finished=True)
        (gradient,) = session.run(tf.gradients(tf.reduce_sum(outputs.rnn_output), given))
    for row, length in enumerate(LENGTHS):
        np.testing.assert_allclose(gradient[row, :length, 0], np.arange(length, 0, -1))
        assert not gradient[row, length:].any()


def test_greedy_helper_follows_the_logits_until_the_end_token() -> None:
    from tensorflow.contrib import seq2seq

    with tf.Graph().as_default(), tf.Session() as session:
        helper = seq2seq.GreedyEmbeddingHelper(tf.eye(CLASSES), tf.constant([0, 2]), CLASSES - 1)
        decoder = seq2seq.BasicDecoder(ChainCell(), helper, tf.zeros([2, 1]))
        outputs, _, lengths = session.run(seq2seq.dynamic_decode(decoder, maximum_iterations=10))
        cut, _, _ = session.run(seq2seq.dynamic_decode(decoder, maximum_iterations=2, scope="short"))
    assert outputs.sample_id[0].tolist() == [1, 2, 3, 4]
    assert outputs.sample_id[1, :2].tolist() == [3, 4]
    assert lengths.tolist() == [4, 2]
    assert cut.sample_id.shape == (2, 2)


def test_output_layer_and_sampling_helpers() -> None:
    from tensorflow.contrib import seq2seq

    with tf.Graph().as_default(), tf.Session() as session:
        layer = tf.layers.Dense(CLASSES, use_bias=False)
        helper = seq2seq.SampleEmbeddingHelper(tf.eye(CLASSES, DEPTH), tf.constant([0, 2]), CLASSES - 1, seed=1)
        decoder = seq2seq.BasicDecoder(SumCell(), helper, tf.zeros([2, DEPTH]), output_layer=layer)
        outputs, _, _ = seq2seq.dynamic_decode(decoder, maximum_iterations=6)
        assert outputs.rnn_output.shape.as_list() == [2, None, CLASSES]
        assert [v.op.name for v in tf.trainable_variables()] == ["decoder/dense/kernel"]
        session.run(tf.global_variables_initializer())
        found = session.run(outputs)
    assert found.rnn_output.shape[2] == CLASSES
    assert ((found.sample_id >= 0) & (found.sample_id < CLASSES)).all()


@pytest.mark.parametrize("probability", [0.0, 1.0])
def test_scheduled_sampling_at_its_two_ends(probability: float) -> None:
    from tensorflow.contrib import seq2seq

    given = np.eye(CLASSES, dtype=np.float32)[np.zeros((2, STEPS), int)]
    with tf.Graph().as_default(), tf.Session() as session:
        helper = seq2seq.ScheduledEmbeddingTrainingHelper(
            tf.constant(given), [STEPS, STEPS], tf.eye(CLASSES) * 100, probability
        )
        decoder = seq2seq.BasicDecoder(ChainCell(), helper, tf.zeros([2, 1]))
        samples = session.run(seq2seq.dynamic_decode(decoder)[0].sample_id)
    # Without sampling the helper reads the inputs (always id 0) and says -1; with it, ids run on: 1, 2, 3.
    expected = [-1] * STEPS if probability == 0 else [1, 2, 3, 4]
    assert samples[0].tolist() == expected


def test_sequence_loss_equals_its_definition() -> None:
    from tensorflow.contrib import seq2seq

    random = np.random.RandomState(1)
    logits = random.randn(BATCH, STEPS, CLASSES)
    targets = random.randint(CLASSES, size=(BATCH, STEPS))
    weights = (np.arange(STEPS) < LENGTHS[:, None]).astype(float)
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    entropy = -np.take_along_axis(log_probs, targets[..., None], 2)[..., 0] * weights
    options = {
        (True, True, False, False): entropy.sum() / weights.sum(),
        (True, False, False, False): entropy.sum(1) / weights.sum(1),
        (False, True, False, False): entropy.sum(0) / weights.sum(0),
        (False, False, True, True): entropy.sum() / np.count_nonzero(weights),
        (False, False, False, False): entropy,
    }
    with tf.Graph().as_default(), tf.Session() as session:
        for (over_time, over_batch, sum_time, sum_batch), expected in options.items():
            loss = seq2seq.sequence_loss(
                tf.constant(logits),
                tf.constant(targets),
                tf.constant(weights),
                over_time,
                over_batch,
                sum_over_timesteps=sum_time,
                sum_over_batch=sum_batch,
            )
            np.testing.assert_allclose(session.run(loss), expected, rtol=1e-6)
        with pytest.raises(ValueError, match="batch, time, classes"):
            seq2seq.sequence_loss(tf.constant(logits[0]), tf.constant(targets), tf.constant(weights))


def test_custom_and_inference_helpers() -> None:
    from tensorflow.contrib import seq2seq

    with tf.Graph().as_default(), tf.Session() as session:
        custom = seq2seq.CustomHelper(
            initialize_fn=lambda: (tf.constant([False, False]), tf.ones([2, DEPTH])),
            sample_fn=lambda time, outputs, state: tf.argmax(outputs, -1, output_type=tf.int32),
            next_inputs_fn=lambda time, outputs, state, sample_ids: (
                tf.fill([2], time >= 2),
                tf.ones([2, DEPTH]),
                state,
            ),
        )
        inference = seq2seq.InferenceHelper(
            sample_fn=lambda outputs: outputs,
            sample_shape=[DEPTH],
            sample_dtype=tf.float32,
            start_inputs=tf.ones([2, DEPTH]),
            end_fn=lambda sample: sample[:, 0] > 3.5,
        )
        results = [
            session.run(seq2seq.dynamic_decode(seq2seq.BasicDecoder(SumCell(), helper, tf.zeros([2, DEPTH])))[0])
            for helper in (custom, inference)
        ]
    assert results[0].rnn_output[0, :, 0].tolist() == [1, 2, 3]
    # The sum of what was fed back doubles: 1, 2, 4.
    assert results[1].sample_id[0, :, 0].tolist() == [1, 2, 4]
