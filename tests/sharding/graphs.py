"""Builds the graph of a table of rows, and runs each row in a session.

One graph holds all rows of a table for one way of feeding the batch; every row is a run of its own. Beside its row
every run fetches some work that is always on pieces, so that a row whose op runs whole is cut all the same, and what
is tested then is the way from pieces to the whole and back.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tests.sharding.rows import Inputs, Row

BATCH = 5
"""Samples of a fed batch: not a multiple of 2 or 3."""

DRAWN = (7, 7, 1)
"""Samples of the batches drawn from an iterator; with the last, copies have empty pieces."""

Feeds = Mapping[Any, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Built:
    """A row within a graph."""

    row: Row
    feeds: Feeds
    fetches: Mapping[str, Any]
    """Tensors by what they are: ``output 0``, ``loss``, ``gradient of x``, ``gradient of w``, ``ballast``."""
    start: Any
    """Op that starts the iterator, or None."""
    steps: int
    """How often to run it."""


@dataclasses.dataclass(frozen=True)
class Table:
    """All rows of a table for one way of feeding the batch."""

    graph: Any
    initializer: Any
    built: tuple[Built, ...]

    def op_types(self) -> frozenset[str]:
        """Types of all ops of the graph."""
        return frozenset(op.type for op in self.graph.get_operations())


def build(tf: Any, rows: Sequence[Row], mode: str) -> Table:
    """The graph of those rows that name the mode."""
    graph = tf.Graph()
    with graph.as_default():
        tf.set_random_seed(11)
        batches: dict[tuple[int, ...], tuple[dict[str, Any], Feeds, Any]] = {}
        built = []
        for row in rows:
            if mode in row.modes:
                if row.sample not in batches:
                    batches[row.sample] = _batch(tf, row.sample, mode)
                built.append(_build_row(tf, row, mode, *batches[row.sample]))
        initializer = tf.global_variables_initializer()
    graph.finalize()
    return Table(graph, initializer, tuple(built))


def run(tf: Any, table: Table, built: Built, session: Any) -> list[Mapping[str, np.ndarray]]:
    """The fetched values of each step of a row."""
    if built.start is not None:
        session.run(built.start)
    return [session.run(built.fetches, built.feeds) for _ in range(built.steps)]


def values(sample: tuple[int, ...], count: int) -> dict[str, np.ndarray]:
    """Inputs of a number of samples."""
    draw = np.random.RandomState(5)
    return {
        "x": draw.uniform(-2.0, 2.0, (count, *sample)).astype(np.float32),
        "y": draw.uniform(-2.0, 2.0, (count, *sample)).astype(np.float32),
        "ids": draw.randint(0, 4, (count,)).astype(np.int32),
        "mask": draw.uniform(size=(count,)) < 0.5,
    }


def _batch(tf: Any, sample: tuple[int, ...], mode: str) -> tuple[dict[str, Any], Feeds, Any]:
    """Tensors by name, what to feed for them, and the op that starts the iterator."""
    if mode == "drawn":
        data = tf.data.Dataset.from_tensor_slices(values(sample, sum(DRAWN))).batch(DRAWN[0])
        iterator = tf.data.make_initializable_iterator(data)
        return iterator.get_next(), {}, iterator.initializer
    size = BATCH if mode == "static" else None
    fed = values(sample, BATCH)
    tensors = {name: tf.placeholder(v.dtype, [size, *v.shape[1:]]) for name, v in fed.items()}
    return tensors, {tensors[name]: v for name, v in fed.items()}, None


def _build_row(tf: Any, row: Row, mode: str, batch: dict[str, Any], feeds: Feeds, start: Any) -> Built:
    with tf.variable_scope(re.sub(r"[^\w.]+", "_", row.name)):
        width = row.sample[-1]
        w = tf.get_variable("w", initializer=np.linspace(0.6, 1.4, width).astype(np.float32), use_resource=mode != "static")
        inputs = Inputs(batch["x"] * w, batch["y"], batch["ids"], batch["mask"], w)
        made = row.build(tf, inputs)
        outputs = list(made) if isinstance(made, (list, tuple)) else [made]
        fetches = {f"output {i}": t for i, t in enumerate(outputs)}
        floating = [t for t in outputs if t.dtype.is_floating]
        if floating:
            fetches["loss"] = tf.add_n([tf.reduce_sum(tf.cast(tf.square(t), tf.float32)) for t in floating])
        if floating and row.gradient:
            for name, wrt in (("x", batch["x"]), ("w", w)):
                (gradient,) = tf.gradients(fetches["loss"], [wrt])
                if gradient is not None:
                    fetches[f"gradient of {name}"] = tf.convert_to_tensor(gradient)
        flat = tf.reshape(batch["y"], [-1, int(np.prod(row.sample))])
        fetches["ballast"] = tf.matmul(flat, tf.ones([flat.shape[1], 256]))
        used = {t for t in feeds}
        return Built(row, {t: feeds[t] for t in used}, fetches, start, 1 if start is None else len(DRAWN))
