"""How long the training steps of a session take."""

from __future__ import annotations

import collections
import contextlib
import statistics
import time
from collections.abc import Iterator

from whale.runtime.preparation import Prepared
from whale.runtime.signature import Run

_KEPT = 100
"""Steps that are looked back on."""

_WARM_UP = 2
"""First steps of a kind, in which TensorFlow prepares its executors."""


class StepTimes:
    """The latest kind of training step of a session, and its latest times."""

    def __init__(self) -> None:
        self.run: Run | None = None
        """The latest kind that was prepared; None before the first."""
        self.prepared: Prepared | None = None
        """How it is executed."""
        self._count = 0
        self._seconds: collections.deque[float] = collections.deque(maxlen=_KEPT)

    def begin(self, run: Run, prepared: Prepared) -> None:
        """Another kind of training step was prepared; the times of the one before are forgotten."""
        self.run, self.prepared = run, prepared
        self._count = 0
        self._seconds.clear()

    @contextlib.contextmanager
    def timed(self, prepared: Prepared) -> Iterator[None]:
        """Times the step inside, where it is of the latest kind and the first ones are over."""
        if prepared is not self.prepared:
            yield
            return
        begin = time.perf_counter()
        yield
        self._count += 1
        if self._count > _WARM_UP:
            self._seconds.append(time.perf_counter() - begin)

    @property
    def seconds(self) -> float | None:
        """The median of the latest steps, in seconds; None before the third."""
        return statistics.median(self._seconds) if self._seconds else None
