"""The attribute by which an op is known to have been made in a scope."""

from __future__ import annotations

import contextlib

import tensorflow.compat.v1 as tf

from whale import _tf
from whale.annotations.capture import SCOPE_ATTRIBUTE

# On the graph itself: the context refers to the graph, so any table that held it would keep the graph alive.
_HELD = "_whale_held_stamp"


def stamped(graph: tf.Graph, index: int) -> contextlib.AbstractContextManager[None]:
    """Within the context, ops made in the graph carry the number of a scope."""
    return _tf.attribute_scope(graph, {SCOPE_ATTRIBUTE: tf.AttrValue(i=index)})


def hold_stamp(graph: tf.Graph, index: int | None) -> None:
    """From now on, ops made outside of every scope carry this number; None ends that. No scope may be open."""
    held: contextlib.ExitStack | None = getattr(graph, _HELD, None)
    if held is not None:
        held.close()
        delattr(graph, _HELD)
    if index is not None:
        held = contextlib.ExitStack()
        held.enter_context(stamped(graph, index))
        setattr(graph, _HELD, held)
