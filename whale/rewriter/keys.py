"""Keys of collectives.

A clash of keys breaks every later collective of a process, so one allocator hands them all out and never takes one
back.
"""

from __future__ import annotations

import itertools


class KeyAllocator:
    """Hands out group and instance keys, each once; one group key per ordered set of devices and communicator."""

    def __init__(self, first: int = 1) -> None:
        self._groups: dict[tuple[tuple[str, ...], int, object], int] = {}
        self._next_group = itertools.count(first)
        self._next_instance = itertools.count(first)

    def group(self, devices: tuple[str, ...], communicator: int, binding: object) -> int:
        """The key of a group of devices within one binding."""
        key = (devices, communicator, binding)
        if key not in self._groups:
            self._groups[key] = next(self._next_group)
        return self._groups[key]

    def instance(self) -> int:
        """A key for one collective."""
        return next(self._next_instance)
