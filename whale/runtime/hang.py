"""Steps that do not go on: one thread watches those that run, and ends one that waits for itself."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from whale import _tf
from whale.runtime.activity import Thread, of_python, threads, worked

_LOOKS = 8
"""Looks in the time after which a step is ended: that is how much later it may be noticed."""


class Step(Protocol):
    """What the watcher asks of a step."""

    @property
    def session(self) -> Any:
        """That runs it."""
        ...

    def begin(self) -> None:
        """It begins."""
        ...

    def end(self, done: bool) -> None:
        """It ended; ``done`` says whether without an error."""
        ...

    def explained(self) -> str:
        """Why it may have to wait for what is outside of it, or empty where it does not."""
        ...

    def error(self, seconds: float, error: Exception | None) -> Exception:
        """What to raise for it when it was ended after so many seconds without progress.

        Args:
            seconds: how long nothing went on.
            error: what its run raised; None where it came to its end all the same.
        """
        ...


@dataclasses.dataclass(eq=False)
class Flight:
    """A step that runs."""

    step: Step
    seconds: float
    """How long nothing may go on."""
    thread: int
    """That which called it, by the operating system's number."""
    started: float
    """Seconds of the monotonic clock."""
    ended_after: float = 0.0
    """Seconds without progress after which it was ended; 0 for one that was not."""
    told: set[str] = dataclasses.field(default_factory=set[str])
    """Why it was said not to be ended."""


class Watcher:
    """Watches the steps of all sessions. Its thread lives while there are some, and holds no session otherwise."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        """``tell`` is told of steps that are not ended although they take long."""
        self._tell = tell
        self._lock = threading.Lock()
        self._flights: set[Flight] = set()
        self._thread: threading.Thread | None = None
        self._sooner = threading.Event()
        """Set when a step began that is to be looked at sooner than those before."""
        self._pause = 0.0
        self._last: tuple[float, Mapping[int, Thread]] | None = None
        self._moved = 0.0

    @contextlib.contextmanager
    def watch(self, step: Step | None, seconds: float) -> Iterator[None]:
        """Watches a step that runs inside; ending it closes its session.

        Args:
            step: that runs; None for one that no devices share.
            seconds: how long nothing may go on before it is ended; 0 for ever.

        Raises:
            HangError: it was ended.
        """
        if step is None or not seconds:
            yield
            return
        step.begin()
        flight = Flight(step, seconds, threading.get_native_id(), time.monotonic())
        self._add(flight)
        done = False
        try:
            yield
            done = True
        except Exception as error:
            if flight.ended_after:
                raise step.error(flight.ended_after, error) from None
            raise
        finally:
            with self._lock:
                self._flights.discard(flight)
            step.end(done)
        if flight.ended_after:
            raise step.error(flight.ended_after, None)

    def _add(self, flight: Flight) -> None:
        pause = flight.seconds / _LOOKS
        with self._lock:
            self._flights.add(flight)
            if self._thread is None:
                self._pause = pause
                self._thread = threading.Thread(target=self._look_on, name="whale-hang", daemon=True)
                self._thread.start()
            elif pause < self._pause:
                self._pause = pause
                self._sooner.set()

    def _look_on(self) -> None:
        while True:
            if self._sooner.wait(self._pause):
                self._sooner.clear()
                continue
            with self._lock:
                flights = list(self._flights)
                if not flights:
                    self._thread, self._last = None, None
                    return
            self._look(flights)
            del flights  # no session lives for its sake

    def _look(self, flights: list[Flight]) -> None:
        now = time.monotonic()
        slow = [flight for flight in flights if now - flight.started >= self._pause]
        if not slow:
            self._last = None
            return
        known = self._note(now, {flight.thread for flight in flights})
        for flight in slow:
            if now - flight.started >= flight.seconds:
                self._judge(flight, now, known)

    def _note(self, now: float, callers: set[int]) -> bool:
        """Notes whether the process computed since the last look; False where that cannot be known."""
        all_threads = threads()
        if all_threads is None:
            return False
        others = of_python(callers)
        watched = {number: thread for number, thread in all_threads.items() if number not in others}
        if self._last is None or worked(self._last[1], watched, now - self._last[0]):
            self._moved = now
        self._last = now, watched
        return True

    def _judge(self, flight: Flight, now: float, known: bool) -> None:
        """Ends a step that waits for itself; of any other it is told once why it is not ended."""
        quiet = now - max(flight.started, self._moved)
        if not known:
            why = "this system does not tell whether threads compute"
        elif quiet < flight.seconds:
            # It has just begun to be quiet, or works: that is worth a word when it goes on.
            why = "threads of this process compute"
            if now - flight.started < 2 * flight.seconds:
                return
        else:
            try:
                why = flight.step.explained()
            except Exception as fault:  # a fault of ours must not end a step
                why = f"Whale could not look into it (please report): {type(fault).__name__}: {fault}"
        if why:
            if why not in flight.told:
                flight.told.add(why)
                self._tell(f"a step has run for {now - flight.started:.3g} s, and is not ended: {why}")
            return
        with self._lock:
            if flight in self._flights:  # else it has just come to its end
                flight.ended_after = quiet
                _tf.close_session(flight.step.session)
