"""What is checked of a graph when a session first runs it: its annotations, and its size."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from whale.annotations.site import site_of
from whale.annotations.state import Scope, open_here, record_of
from whale.errors import CaptureError, ScopeError

LARGEST_GRAPH_BYTES = 2**31 - 1
"""Protocol buffers, which a graph is copied as, hold no more."""


def check_closed(graph: tf.Graph) -> None:
    """Checks that no scope is open around the run.

    Raises:
        ScopeError: a scope of the graph is open, or this thread has one open in another graph.
    """
    found = open_here(graph)
    if found:
        raise ScopeError(
            f"a session runs while {_listed(found)} is open",
            site=found[0].site,
            fix="end the `with` block before the first session runs; around Estimator, use set_default_strategy or put "
            "the scope into the model function",
        )


def check_nonempty(graph: tf.Graph) -> None:
    """Checks that ops were made in every scope of the graph.

    Raises:
        ScopeError: a scope was left as it was entered; all of them are named.
    """
    empty = record_of(graph).empty
    if empty:
        raise ScopeError(
            f"no op was made inside {_listed(empty)}",
            site=empty[0].site,
            fix="build the model inside the `with` block, or remove it; a scope applies to the graph that is the "
            "default one when it is entered",
        )


_LOOKED_INTO = 1 << 24
"""Bytes of a constant's shape from which its stored size is asked for, which copies it."""


def check_size(graph: tf.Graph, most_bytes: int = LARGEST_GRAPH_BYTES) -> None:
    """Checks that the graph can be copied. Its constants are nearly all of its size.

    TensorFlow refuses a single constant above the limit when the script makes it; several together it only refuses to
    copy, and says "Error parsing message".

    Raises:
        CaptureError: the constants of the graph are larger; the largest is named with its line.
    """
    sizes = {op: _constant_bytes(op) for op in graph.get_operations() if op.type == "Const"}
    total = sum(sizes.values())
    if total <= most_bytes:
        return
    largest = max(sizes, key=lambda op: sizes[op])
    raise CaptureError(
        f"the graph holds constants of {total / 1e9:.2f} GB, and a graph can be copied to several devices up to "
        f"{most_bytes / 1e9:.2f} GB; the largest is {largest.name!r} of {sizes[largest] / 1e9:.2f} GB",
        site=site_of(largest),
        fix="feed large arrays through a placeholder, read them with tf.data from files, or initialise a variable from "
        "a placeholder; on one device (whale run --devices 1) the graph is not copied",
    )


def _constant_bytes(op: tf.Operation) -> int:
    """What a constant takes in the graph. One of equal elements is stored as one: only large ones are looked into."""
    (value,) = op.outputs
    size = (value.shape.num_elements() or 0) * value.dtype.size
    return size if size < _LOOKED_INTO else min(size, op.node_def.attr["value"].tensor.ByteSize())


def _listed(scopes: list[Scope]) -> str:
    first, *others = scopes
    rest = "".join(f", {scope.strategy} at {scope.site}" for scope in others)
    return f"the scope {first.strategy}{rest}"
