"""What is checked of a graph's annotations when a session first runs it."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from whale.annotations.state import Scope, open_here, record_of
from whale.errors import ScopeError


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


def _listed(scopes: list[Scope]) -> str:
    first, *others = scopes
    rest = "".join(f", {scope.strategy} at {scope.site}" for scope in others)
    return f"the scope {first.strategy}{rest}"
