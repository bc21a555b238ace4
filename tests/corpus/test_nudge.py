"""What is fed moves by its last bit, and only floats do."""

from __future__ import annotations

import numpy as np

from tests.corpus.nudge import nudged


def test_floats_move_by_their_last_bit_away_from_zero() -> None:
    values = np.linspace(-3, 3, 100, dtype=np.float32)
    moved = nudged(values, np.random.default_rng(0))
    assert moved.dtype == np.float32
    steps = np.abs(moved.view(np.int32) - values.view(np.int32))
    assert set(steps.tolist()) == {0, 1}
    assert np.all(np.abs(moved) >= np.abs(values))


def test_whole_numbers_infinities_scalars_and_integers_stay() -> None:
    random = np.random.default_rng(0)
    still = np.array([0.0, 1.0, -7.0, np.inf, -np.inf] * 20)
    assert np.array_equal(nudged(still, random), still)
    assert nudged(0.5, random) == 0.5
    assert nudged([1, 2], random) == [1, 2]
