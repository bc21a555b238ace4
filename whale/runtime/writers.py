"""Runs that write variables, and the check between whose parts none of them may come.

A run that only fills a queue writes no variable, and is never held up: the check may wait for what it brings.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

PATIENCE = 2.0
"""Seconds that the check waits for runs under way. One of them may itself wait for what the checked step will do."""


class Writers:
    """The runs of one session that write variables."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0
        self._alone: int | None = None
        """The thread whose check goes on."""

    def begin(self) -> None:
        """A run that writes begins: it waits for another thread's check to end. ``end`` must follow."""
        with self._changed:
            while self._alone not in (None, threading.get_ident()):
                self._changed.wait()
            self._running += 1

    def end(self) -> None:
        """A run that writes has ended."""
        with self._changed:
            self._running -= 1
            if self._alone is not None:
                self._changed.notify_all()

    @contextlib.contextmanager
    def kept_out(self) -> Iterator[bool]:
        """Within the context no run that writes begins; gives whether those under way ended within ``PATIENCE``."""
        with self._changed:
            while self._alone is not None:
                self._changed.wait()
            self._alone = threading.get_ident()
            until = time.monotonic() + PATIENCE
            while self._running and time.monotonic() < until:
                self._changed.wait(max(0.0, until - time.monotonic()))
            ended = not self._running
        try:
            yield ended
        finally:
            with self._changed:
                self._alone = None
                self._changed.notify_all()
