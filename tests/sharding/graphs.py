"""Builds the graph of a few rows, and runs it in a session.

All rows of a graph are fetched by one run. Beside them a run fetches some work that is always on pieces, so that a row
whose op runs whole is cut all the same, and what is tested then is the way from pieces to the whole and back.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tests.sharding.rows import Inputs, Row

SIZES: Mapping[str, tuple[int, ...]] = {"static": (5,), "dynamic": (5, 1, 2, 3, 4), "drawn": (7, 1, 2, 3, 4)}
"""Samples of the batch at each step. The first is no multiple of 2 or 3; with others pieces have a row or none."""

Feeds = Mapping[Any, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Built:
    """Rows in a graph, for one way of feeding the batch."""

    graph: Any
    initializer: Any
    rows: tuple[Row, ...]
    feeds: tuple[Feeds, ...]
    """What is fed at each step."""
    fetches: Mapping[str, Mapping[str, Any]]
    """By row: tensors by what they are (``output 0``, ``loss``, ``gradient of x``, ``gradient of w``)."""
    starts: tuple[Any, ...]
    """Ops that start iterators."""

    def op_types(self) -> frozenset[str]:
        """Types of all ops of the graph."""
        return frozenset(op.type for op in self.graph.get_operations())


def build(tf: Any, rows: Sequence[Row], mode: str) -> Built:
    """The graph of some rows."""
    graph = tf.Graph()
    with graph.as_default():
        tf.set_random_seed(11)
        batches = {sample: _batch(tf, sample, mode) for sample in sorted({row.sample for row in rows})}
        fetches = {row.name: _build_row(tf, row, mode, batches[row.sample][0]) for row in rows}
        fetches["ballast"] = {str(sample): _ballast(tf, batch) for sample, (batch, _, _) in batches.items()}
        feeds = tuple(
            {tensor: value[:size] for _, fed, _ in batches.values() for tensor, value in fed.items()}
            for size in SIZES[mode]
        )
        starts = tuple(start for _, _, start in batches.values() if start is not None)
        initializer = tf.global_variables_initializer()
    return Built(graph, initializer, tuple(rows), feeds, fetches, starts)


def run(built: Built, session: Any) -> list[Mapping[str, Mapping[str, np.ndarray]]]:
    """The fetched values of each step."""
    session.run(built.initializer)
    for start in built.starts:
        session.run(start)
    return [session.run(built.fetches, feeds) for feeds in built.feeds]


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
        rows = tf.data.Dataset.from_tensor_slices(values(sample, sum(SIZES[mode])))
        ends = np.cumsum(SIZES[mode])
        first, *others = [rows.skip(end - size).take(size).batch(size) for end, size in zip(ends, SIZES[mode])]
        iterator = tf.data.make_initializable_iterator(functools.reduce(lambda a, b: a.concatenate(b), others, first))
        return iterator.get_next(), {}, iterator.initializer
    size = SIZES[mode][0] if mode == "static" else None
    fed = values(sample, SIZES[mode][0])
    tensors = {name: tf.placeholder(v.dtype, [size, *v.shape[1:]]) for name, v in fed.items()}
    return tensors, {tensors[name]: v for name, v in fed.items()}, None


def _build_row(tf: Any, row: Row, mode: str, batch: dict[str, Any]) -> Mapping[str, Any]:
    with tf.variable_scope(scope_of(row)):
        start = np.linspace(0.6, 1.4, row.sample[-1]).astype(np.float32)
        w = tf.get_variable("w", initializer=start, use_resource=mode != "static")
        x = batch["x"] * w
        size = x.shape.as_list()[0]
        inputs = Inputs(tf.shape(x)[0] if size is None else size, x, batch["y"], batch["ids"], batch["mask"], w)
        made = row.build(tf, inputs)
        outputs = list(made) if isinstance(made, (list, tuple)) else [made]
        fetches = {f"output {i}": t for i, t in enumerate(outputs)}
        floating = [t for t in outputs if t.dtype.is_floating]
        if floating:
            fetches["loss"] = tf.add_n([tf.reduce_sum(tf.cast(tf.square(t), tf.float32)) for t in floating])
        if floating and row.gradient:
            for name, gradient in zip("xw", tf.gradients(fetches["loss"], [batch["x"], w])):
                if gradient is not None:
                    fetches[f"gradient of {name}"] = tf.convert_to_tensor(gradient)
        return fetches


def scope_of(row: Row) -> str:
    """The name scope of a row's ops."""
    return re.sub(r"[^\w.]+", "_", row.name)


def _ballast(tf: Any, batch: dict[str, Any]) -> Any:
    """Work on pieces."""
    size = int(np.prod(batch["y"].shape[1:].as_list()))
    return tf.matmul(tf.reshape(batch["y"], [-1, size]), tf.ones([size, 256]))
