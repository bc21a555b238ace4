"""Gives the batches of a script other numbers of samples, step after step, without the script's knowing.

A fed batch is what is fed for a tensor of open first dim; a drawn one comes of ``Dataset.batch`` or a queue's
``dequeue_many``; Keras makes its own of arrays. Each run of a session has the next size of an order, whatever the
script fed or asked for. The same happens under plain TensorFlow and under Whale, outside of both.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import numpy as np

from tests.numerics.process import start_tensorflow
from tests.numerics.runner import Setting

CYCLES = 4
"""How often a dataset goes through the sizes before its batches have the size that the script gave."""


def orders(devices: int) -> tuple[tuple[int, ...], ...]:
    """Two orders of 1, 2, and about as many samples as there are devices: one starts with a cut step, one without."""
    sizes = dict.fromkeys((devices + 1, 1, devices, 2, devices - 1))
    return tuple(sizes), tuple(reversed(sizes))


@dataclasses.dataclass
class Sizes:
    """An order of sizes, and how far each run signature of a script is in it."""

    order: tuple[int, ...]
    met: set[int] = dataclasses.field(default_factory=set)
    """Sizes that some batch was given."""
    _runs: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    _asked: list[Any] = dataclasses.field(default_factory=list)
    """Placeholders of the sizes that are asked of queues."""
    _longest: dict[Any, Any] = dataclasses.field(default_factory=dict)
    """By what it is fed for: the longest batch so far."""

    def patches(self, tf: Any) -> Iterator[Any]:
        """What replaces methods of TensorFlow's."""
        data, queue, session = tf.data.Dataset, tf.queue.QueueBase, tf.Session.__mro__[1]
        yield mock.patch.object(session, "run", self._run(session.run))
        for name in ("batch", "padded_batch"):
            yield mock.patch.object(data, name, self._batch(getattr(data, name)))
        for name in ("dequeue_many", "dequeue_up_to"):
            yield mock.patch.object(queue, name, self._dequeue(tf, getattr(queue, name)))
        engine = tf.keras.Model.__module__
        model = importlib.import_module(f"{engine}_v1").Model
        for name in ("train_on_batch", "predict_on_batch"):
            yield mock.patch.object(model, name, self._on_batch(getattr(model, name)))
        yield mock.patch.object(importlib.import_module(f"{engine}_arrays_v1"), "make_batches", self._bounds)

    def _run(self, run: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(run)
        def sized(session: Any, fetches: Any, feed_dict: Any = None, *others: Any, **named: Any) -> Any:
            asked = [size for size in self._asked if size.graph is session.graph]
            batch = _batch_of(session.graph, feed_dict or {})
            if asked or batch:
                size = self._next(str(fetches))
                feed_dict = {**(feed_dict or {}), **dict.fromkeys(asked, size)}
                feed_dict.update({key: _rows(self._extended(key, value), size) for key, value in batch.items()})
            return run(session, fetches, feed_dict, *others, **named)

        return sized

    def _next(self, signature: str) -> int:
        size = self.order[self._runs[signature] % len(self.order)]
        self._runs[signature] += 1
        self.met.add(size)
        return size

    def _extended(self, key: Any, value: Any) -> Any:
        """A batch with samples of the longest one before it: the same sample twice makes ties that rounding decides."""
        if hasattr(key, "dense_shape"):
            return value
        longest = self._longest.get(key, value)
        array = np.array(value)
        if len(array) >= len(longest):
            self._longest[key] = array
            return array
        return np.concatenate([array, longest[len(array) :]]) if array.shape[1:] == longest.shape[1:] else array

    def _batch(self, batch: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(batch)
        def sized(dataset: Any, size: Any, *others: Any, drop_remainder: bool = False, **named: Any) -> Any:
            if drop_remainder:
                return batch(dataset, size, *others, drop_remainder=True, **named)
            self.met.update(self.order)
            sizes = self.order * CYCLES
            ends = np.cumsum(sizes)
            parts = [dataset.skip(end - rows).take(rows) for end, rows in zip(ends, sizes)]
            batches = [batch(part, rows, *others, **named) for part, rows in zip(parts, sizes)]
            rest = batch(dataset.skip(ends[-1]), size, *others, **named)
            return functools.reduce(lambda one, other: one.concatenate(other), [*batches, rest])

        return sized

    def _on_batch(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def sized(model: Any, *arrays: Any) -> Any:
            size = self._next(call.__name__)
            return call(model, *(_rows(self._extended((call, i), array), size) for i, array in enumerate(arrays)))

        return sized

    def _bounds(self, rows: int, batch_size: int) -> list[tuple[int, int]]:
        """Where the batches of an epoch of Keras's start and end."""
        ends = [0]
        while ends[-1] < rows:
            ends.append(min(rows, ends[-1] + self._next("epochs")))
        return list(zip(ends, ends[1:]))

    def _dequeue(self, tf: Any, dequeue: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(dequeue)
        def sized(queue: Any, n: Any, name: str | None = None) -> Any:
            self._asked.append(tf.placeholder_with_default(np.int32(n), []))
            return dequeue(queue, self._asked[-1], name)

        return sized


def sized(setting: Setting, sizes: Sizes) -> Setting:
    """A setting in which batches have these sizes."""

    @contextlib.contextmanager
    def surroundings() -> Iterator[Sequence[Any]]:
        with setting() as reports, contextlib.ExitStack() as stack:
            for patch in sizes.patches(start_tensorflow()):
                stack.enter_context(patch)
            yield reports

    return surroundings


def _batch_of(graph: Any, feeds: Mapping[Any, Any]) -> dict[Any, Any]:
    """The feeds that hold samples: all of one number of rows."""
    found = {key: value for key, value in feeds.items() if _is_open(graph, key, value)}
    rows = {_count(value) for value in found.values()}
    return found if len(rows) == 1 and 0 not in rows else {}


def _is_open(graph: Any, key: Any, value: Any) -> bool:
    if hasattr(key, "dense_shape"):
        return True
    if hasattr(key, "values"):
        return False
    tensor = graph.as_graph_element(key, allow_operation=False)
    if np.ndim(value) == 0:
        return False
    return tensor.shape.rank is None or (tensor.shape.rank > 0 and tensor.shape[0].value is None)


def _count(value: Any) -> int:
    return int(value.dense_shape[0]) if hasattr(value, "dense_shape") else len(value)


def _rows(value: Any, size: int) -> Any:
    """The first rows of a value, from the start again when it has too few."""
    count = _count(value)
    if not hasattr(value, "dense_shape"):
        return value[np.arange(size) % count]
    places, values = np.asarray(value.indices), np.asarray(value.values)
    own = [np.flatnonzero(places[:, 0] == row % count) for row in range(size)]
    chosen = np.concatenate(own).astype(np.int64)
    places = places[chosen]
    places[:, 0] = np.repeat(np.arange(size), [len(rows) for rows in own])
    return type(value)(places, values[chosen], (size, *value.dense_shape[1:]))
