"""Checks of the cases themselves, without Whale: ``python -m tests.numerics.plain [options] [names]``.

By default every case runs twice and must record the same bits, or it could prove nothing about Whale. With
``--sensitivity`` the second run gets data that differ in the last bit of float32: a case whose results then move by
more than half its tolerance would fail by rounding alone.
"""

from __future__ import annotations

import argparse
import contextlib
import time
import traceback
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.numerics.case import Case, all_cases
from tests.numerics.process import start_tensorflow, tensorflow_version
from tests.numerics.recording import Recording, differences, relative_error
from tests.numerics.runner import plain, run

FLOAT32_TOLERANCE = 1e-5
"""Tolerance of a case in float32; data nudged by float32's last bit cannot test a smaller one."""


class NudgedRandomState(np.random.RandomState):
    """Draws real numbers that are off by about one unit in the last place of float32."""

    def randn(self, *shape: int) -> Any:
        """As in numpy, nudged."""
        return self._nudge(super().randn(*shape))

    def uniform(self, *arguments: Any, **options: Any) -> Any:
        """As in numpy, nudged."""
        return self._nudge(super().uniform(*arguments, **options))

    @staticmethod
    def _nudge(values: Any) -> Any:
        signs = np.where(np.arange(np.size(values)) % 3 == 0, 1.0, -1.0).reshape(np.shape(values))
        return values * (1.0 + 1.2e-7 * signs)


@contextlib.contextmanager
def nudged_data() -> Iterator[None]:
    """While entered, ``numpy.random.RandomState`` draws nudged numbers."""
    original = np.random.RandomState
    np.random.RandomState = NudgedRandomState
    try:
        yield
    finally:
        np.random.RandomState = original


def check(case: Case, sensitivity: bool) -> tuple[str, float]:
    """What is wrong with a case (empty: nothing), and the seconds its first run took."""
    start = time.perf_counter()
    first, _ = run(case, plain)
    seconds = time.perf_counter() - start
    with nudged_data() if sensitivity else contextlib.nullcontext():
        second, _ = run(case, plain)
    if sensitivity:
        return "; ".join(differences(first, second, max(case.tolerance, FLOAT32_TOLERANCE) / 2)[:1]), seconds
    return _unequal_bits(first, second), seconds


def _unequal_bits(first: Recording, second: Recording) -> str:
    if not first.entries:
        return "records nothing"
    found = differences(first, second, 0.0)
    if found:
        return f"does not repeat: {found[0]}"
    empty = [name for name, value in first.entries if value.dtype.kind == "f" and not np.isfinite(value).all()]
    return f"records values that are not finite: {empty[0]}" if empty else _no_training(first)


def _no_training(recording: Recording) -> str:
    losses = [value for name, value in recording.entries if name == "loss"]
    same = len(losses) > 1 and all(one.shape == losses[0].shape for one in losses)
    still = same and all(relative_error(losses[0], one) == 0.0 for one in losses)
    if still:
        return "the loss never changes"
    return "the loss diverges" if losses and np.max(losses[-1]) > 100.0 * max(np.max(losses[0]), 1.0) else ""


def _last_words(error: Exception) -> str:
    """The line of the case that raised, and the message's first line."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/cases/" in frame.filename]
    place = f"line {frames[-1].lineno}: " if frames else ""
    return place + str(error).strip().partition("\n")[0]


def main() -> int:
    """Check the cases and print one line each; 1 when any is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of case names; default: all")
    parser.add_argument("--sensitivity", action="store_true", help="second run on data off by one bit")
    options = parser.parse_args()
    version = tensorflow_version()
    cases = [case for case in all_cases() if version in case.tf_versions]
    cases = [case for case in cases if not options.names or any(part in case.name for part in options.names)]
    wrong, total = 0, 0.0
    start_tensorflow()
    for case in cases:
        try:
            problem, seconds = check(case, options.sensitivity)
        except Exception as error:
            problem, seconds = f"raised {type(error).__name__}: {_last_words(error)}", 0.0
        wrong += bool(problem)
        total += seconds
        print(f"{seconds:6.2f} s  {case.name}  {problem or 'ok'}", flush=True)
    print(f"{len(cases)} cases under TensorFlow {version}, {wrong} wrong, {total:.1f} s a pass")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
