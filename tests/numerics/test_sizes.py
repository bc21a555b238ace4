"""Every case whose batches are not of a fixed size equals plain TensorFlow as their sizes change from step to step.

Batches have 1, 2, and about as many samples as there are devices, in two orders. By default some cases run, each on one
number of devices in one order; ``--full`` runs all of them on all numbers in both.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable

import numpy as np
import pytest

from tests.numerics.case import Case, all_cases
from tests.numerics.plain import nudged_data
from tests.numerics.process import start_tensorflow, tensorflow_version
from tests.numerics.recording import Recording, relative_error
from tests.numerics.runner import faults, plain, run, whale
from tests.numerics.sizes import Sizes, orders, sized

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

DEVICES = (2, 3, 4)

EACH = 11
"""One case of so many runs without ``--full``."""

TIMES, LARGEST = 4.0, 1e-3
"""How many times a case's tolerance, or what rounding moves, is accepted; and the most that rounding may move."""

LONG = ("estimator", "monitored", "checkpoints", "saved_model")
"""Topics about what is left in files, whose cases take long: with ``--full`` only."""


def chosen(full: bool) -> list[tuple[Case, int, tuple[int, ...]]]:
    """Cases with a number of devices and an order of sizes."""
    version = tensorflow_version()
    cases = [case for case in all_cases() if version in case.tf_versions and not case.fixed]
    every = [(case, n, order) for case in cases for n in DEVICES for order in orders(n)]
    if full:
        return every
    some = [case for case in cases if not case.slow and case.topic not in LONG]
    some = [case for case in some if zlib.crc32(case.name.encode()) % EACH == 0]
    ways = [(n, which) for which in (0, 1) for n in DEVICES]
    turns = [(case, *ways[turn % len(ways)]) for turn, case in enumerate(some)]
    return [(case, n, orders(n)[which]) for case, n, which in turns]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise by case, number of devices and order, for the installed TensorFlow."""
    if "case" in metafunc.fixturenames:
        found = chosen(metafunc.config.getoption("--full", default=False))
        names = [f"{case.name}-{n}-{''.join(map(str, order))}" for case, n, order in found]
        metafunc.parametrize(("case", "devices", "order"), found, ids=names)


def tolerance(case: Case, order: tuple[int, ...], expected: Recording) -> float:
    """Some times the case's, or as far as plain TensorFlow's own values move with a last bit of the data.

    Rates and widths are those of larger batches: with one sample a loss may come down to nothing, or go up for ever.
    """
    with nudged_data():
        nudged, _ = run(case, sized(plain, Sizes(order)))
    pairs = zip(expected.entries, nudged.entries)
    moved = [relative_error(a, b) for (_, a), (_, b) in pairs if a.dtype.kind == "f" and a.shape == b.shape]
    return TIMES * max(case.tolerance, min(max(moved, default=0.0), LARGEST))


def test_equals_one_device(case: Case, devices: int, order: tuple[int, ...]) -> None:
    """Same values in the same order, and cut where the case says that it must be."""
    sizes = Sizes(order)
    expected, _ = run(case, sized(plain, sizes))
    assert len(sizes.met) > 1, "no batch had another size: say why in the case's `fixed`"
    check = "on" if zlib.crc32(case.name.encode()) % 3 == 1 else "off"
    actual, reports = run(case, sized(whale(devices, check), Sizes(order)))
    problems = faults(case, expected, actual, reports)
    if problems:
        case = dataclasses.replace(case, tolerance=tolerance(case, order, expected))
        problems = faults(case, expected, actual, reports)
    assert not problems, "\n".join([f"{case.name} on {devices} devices: {case.body.__doc__}", *problems[:20]])


def _counts(script: Callable[..., None]) -> list[int]:
    """The sizes that a script records when its batches have 3, 1 and 2 samples in turn."""
    tf = start_tensorflow()
    recording = Recording()
    with sized(plain, Sizes((3, 1, 2)))(), tf.Graph().as_default(), tf.Session() as sess:
        script(tf, sess, recording)
    return [int(value) for _, value in recording.entries]


def test_fed_batches_are_given_the_sizes() -> None:
    def script(tf, sess, record):
        x, flag, words = (
            tf.placeholder(tf.float32, [None, 2]),
            tf.placeholder(tf.bool, []),
            tf.sparse_placeholder("int32"),
        )
        count = tf.where(flag, tf.shape(x)[0], 0) + tf.cast(words.dense_shape[0], tf.int32) * 10
        given = tf.SparseTensorValue([[0, 0], [1, 0], [1, 1]], [4, 5, 6], [2, 2])
        for _ in range(4):
            record("count", sess.run(count, {x: np.ones([2, 2]), flag: True, words: given}))
        record("sum", sess.run(tf.sparse.reduce_sum(words), {words: given}))

    assert _counts(script) == [33, 11, 22, 33, 4 + 11 + 4]


def test_drawn_batches_are_given_the_sizes() -> None:
    def script(tf, sess, record):
        batch = tf.data.make_one_shot_iterator(tf.data.Dataset.range(9).batch(4)).get_next()
        for _ in range(4):
            record("sum", sess.run(tf.reduce_sum(batch)))

    assert _counts(script) == [0 + 1 + 2, 3, 4 + 5, 6 + 7 + 8]


def test_batches_of_queues_are_given_the_sizes() -> None:
    def script(tf, sess, record):
        queue = tf.FIFOQueue(9, [tf.int32], [[]])
        sess.run(queue.enqueue_many([np.arange(9)]))
        total = tf.reduce_sum(queue.dequeue_many(4))
        for _ in range(3):
            record("sum", sess.run(total))

    assert _counts(script) == [0 + 1 + 2, 3, 4 + 5]
