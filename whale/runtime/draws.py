"""Of a plan's runs that are under way: whether all have what they wait for from outside."""

from __future__ import annotations

import threading
from typing import Any

from whale import _tf
from whale.rewriter.arrivals import Arrival
from whale.rewriter.shadow import Shadow


class Draws:
    """Compares how many runs began with how often the graph counted."""

    def __init__(self, shadow: Shadow, arrival: Arrival) -> None:
        self.awaited = arrival.awaited
        """Names of the nodes that wait."""
        self.target = shadow.handles[arrival.count]
        """What a run has to reach to be counted."""
        self._reset = shadow.handles[arrival.reset]
        self._read = shadow.output(arrival.read)
        self._lock = threading.Lock()
        self._under_way = 0
        self._done = 0
        self._unsure = True  # a run that failed may have been counted or not; nor is there a count before the first

    def begin(self, session: Any) -> None:
        """A run begins."""
        with self._lock:
            if self._unsure and not self._under_way:
                _tf.run_session(session, None, {}, [], [self._reset], None)
                self._done, self._unsure = 0, False
            self._under_way += 1

    def end(self, done: bool) -> None:
        """A run ended; ``done`` says whether without an error."""
        with self._lock:
            self._under_way -= 1
            self._done += done
            self._unsure |= not done

    def arrived(self, session: Any) -> bool:
        """Whether no run under way waits for what is outside of it; False where that is not known."""
        with self._lock:
            if self._unsure:
                return False
            return int(_tf.fetch_here(session, self._read)) - self._done == self._under_way
