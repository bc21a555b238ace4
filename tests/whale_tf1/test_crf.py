"""CRF scores and decoding against enumeration of every tag sequence."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

BATCH, STEPS, TAGS = 4, 5, 3
LENGTHS = np.array([5, 3, 1, 0])


def problem() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.RandomState(0)
    unary = random.randn(BATCH, STEPS, TAGS)
    return unary, random.randn(TAGS, TAGS), random.randint(TAGS, size=(BATCH, STEPS))


def score(unary: np.ndarray, transitions: np.ndarray, tags: tuple[int, ...]) -> float:
    steps = sum(unary[time, tag] for time, tag in enumerate(tags))
    return steps + sum(transitions[a, b] for a, b in zip(tags, tags[1:]))


def enumerated(unary: np.ndarray, transitions: np.ndarray, length: int) -> dict[tuple[int, ...], float]:
    return {tags: score(unary, transitions, tags) for tags in itertools.product(range(TAGS), repeat=length)}


def test_log_likelihood_equals_enumeration() -> None:
    from tensorflow.contrib import crf

    unary, transitions, tags = problem()
    with tf.Graph().as_default(), tf.Session() as session:
        likelihood, _ = crf.crf_log_likelihood(tf.constant(unary), tags, LENGTHS, tf.constant(transitions))
        found = session.run(likelihood)
    for row, length in enumerate(LENGTHS):
        every = enumerated(unary[row], transitions, length)
        norm = np.log(sum(np.exp(value) for value in every.values())) if length else 0.0
        assert found[row] == pytest.approx(score(unary[row], transitions, tuple(tags[row, :length])) - norm, abs=1e-9)


def test_decode_finds_the_best_sequence() -> None:
    from tensorflow.contrib import crf

    unary, transitions, _ = problem()
    lengths = LENGTHS[:3]
    with tf.Graph().as_default(), tf.Session() as session:
        tags, best = session.run(crf.crf_decode(tf.constant(unary[:3]), tf.constant(transitions), lengths))
    for row, length in enumerate(lengths):
        every = enumerated(unary[row], transitions, length)
        expected = max(every, key=every.__getitem__)
        assert tuple(tags[row, :length]) == expected
        assert not tags[row, length:].any()
        assert best[row] == pytest.approx(every[expected])
        plain, plain_score = crf.viterbi_decode(unary[row, :length], transitions)
        assert tuple(plain) == expected
        assert plain_score == pytest.approx(every[expected])


def test_multitag_score_sums_the_allowed_sequences() -> None:
    from tensorflow.contrib import crf

    unary, transitions, _ = problem()
    allowed = np.array([[[1, 1, 0], [0, 1, 1], [1, 0, 0], [1, 1, 1], [0, 0, 1]]] * 1, bool)
    with tf.Graph().as_default(), tf.Session() as session:
        found = session.run(
            crf.crf_multitag_sequence_score(tf.constant(unary[:1]), allowed, [STEPS], tf.constant(transitions))
        )
    every = enumerated(unary[0], transitions, STEPS)
    kept = [value for tags, value in every.items() if all(allowed[0, time, tag] for time, tag in enumerate(tags))]
    assert found[0] == pytest.approx(np.log(np.exp(kept).sum()))


def test_training_raises_the_likelihood_and_decodes_the_gold_tags() -> None:
    from tensorflow.contrib import crf

    unary, _, tags = problem()
    with tf.Graph().as_default(), tf.Session() as session:
        scores = tf.get_variable("scores", initializer=tf.constant(unary[:2], tf.float32))
        likelihood, transitions = crf.crf_log_likelihood(scores, tags[:2], [5, 3])
        assert transitions.op.name == "transitions"
        step = tf.train.GradientDescentOptimizer(0.5).minimize(-tf.reduce_mean(likelihood))
        decoded, _ = crf.crf_decode(scores, transitions, [5, 3])
        session.run(tf.global_variables_initializer())
        before = session.run(likelihood)
        for _ in range(60):
            session.run(step)
        after, found = session.run([likelihood, decoded])
    assert (after > before).all()
    assert (found[0] == tags[0]).all() and (found[1, :3] == tags[1, :3]).all()


def test_one_step_sequences_of_unknown_length_dim() -> None:
    from tensorflow.contrib import crf

    unary, transitions, _ = problem()
    with tf.Graph().as_default(), tf.Session() as session:
        given = tf.placeholder(tf.float64, [None, None, TAGS])
        norm = crf.crf_log_norm(given, [1, 1, 1, 1], tf.constant(transitions))
        decoded, _ = crf.crf_decode(given, tf.constant(transitions), [1, 1, 1, 1])
        found, chosen = session.run([norm, decoded], {given: unary[:, :1]})
    assert found == pytest.approx(np.log(np.exp(unary[:, 0]).sum(axis=1)))
    assert (chosen[:, 0] == unary[:, 0].argmax(axis=1)).all()
