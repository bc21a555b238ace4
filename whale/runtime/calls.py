"""What the functions of ``whale`` do when a script calls them: initialise if that is due, then annotate.

``whale/__init__.py`` documents each; importing this module imports TensorFlow.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from whale.annotations import auto, collections, scopes
from whale.annotations.cluster_scope import ClusterScope
from whale.annotations.placing import lay_out
from whale.annotations.scopes import StrategyScope
from whale.annotations.strategies import DevicesArgument, Kind, strategy
from whale.cluster import Layout, from_hosts, from_tf_config
from whale.config.setting import script_site
from whale.errors import ClusterError, ScopeError
from whale.runtime.initialise import check_alone, init, initialised, shutdown

__all__ = [
    "add_to_collection",
    "auto_parallel",
    "cluster",
    "current_scope_as_default",
    "explain",
    "get_all_collections",
    "get_collection",
    "init",
    "scope",
    "set_default_strategy",
    "shutdown",
]


def scope(
    kind: Kind,
    devices: DevicesArgument = None,
    device_count: int | None = None,
    name: str | None = None,
    *,
    num_micro_batches: int = 1,
    schedule: str | None = None,
) -> StrategyScope:
    """A scope that can be entered."""
    options = initialised()
    asked = strategy(
        kind,
        devices,
        device_count,
        name,
        num_micro_batches=num_micro_batches,
        schedule=schedule,
        site=script_site(),
    )
    return StrategyScope(asked, options.cluster, followed=options.strategy != "replica")


def cluster(
    worker_hosts: str | Sequence[str] | None,
    ps_hosts: str | Sequence[str] | None,
    job_name: str,
    rank: int,
    layout: Layout,
) -> ClusterScope:
    """Puts a layout of the devices in force."""
    options = initialised()
    site = script_site()
    try:
        workers = from_hosts(worker_hosts, ps_hosts, job_name, rank)
        check_alone(workers or from_tf_config(os.environ.get("TF_CONFIG", "")))
    except ClusterError as error:
        raise ClusterError(error.what, site=site, fix=error.fix) from None
    prefer_intra_node = options.config.cluster.device_place_prefer_intra_node
    return ClusterScope(options.cluster, lay_out(options.cluster, layout, prefer_intra_node, site))


def auto_parallel(strategies: Sequence[object], known: Sequence[tuple[object, Kind]]) -> None:
    """Leaves the strategy to Whale.

    Args:
        strategies: scopes, or the functions that make them; none for any strategy.
        known: the functions and the strategies they make.
    """
    initialised()
    auto.auto_parallel([_kind(given, known) for given in strategies])


def explain(session: Any) -> Any:
    """Explains a session that trains."""
    from whale.runtime.planning import explain as planning  # the planner takes a moment to load

    return planning.explain(session)


def current_scope_as_default() -> None:
    """Makes the innermost open scope the default of its graph."""
    initialised()
    scopes.current_scope_as_default()


def set_default_strategy(default: StrategyScope) -> None:
    """Makes a strategy the default."""
    initialised()
    scopes.set_default_strategy(default)


def add_to_collection(tensors: Any, key: str) -> None:
    """Says how tensors are merged when they are fetched."""
    initialised()
    collections.add_to_collection(tensors, key)


def get_collection(key: str) -> list[Any]:
    """The tensors of the default graph under a key."""
    initialised()
    return collections.get_collection(key)


def get_all_collections() -> list[list[Any]]:
    """The tensors of the default graph under every key."""
    initialised()
    return collections.get_all_collections()


def _kind(given: object, known: Sequence[tuple[object, Kind]]) -> Kind:
    if isinstance(given, StrategyScope):
        return given.strategy.kind
    for function, kind in known:
        if given is function:
            return kind
    raise ScopeError(
        f"{given!r} is not a strategy", site=script_site(), fix="pass wh.replica, or nothing for Whale's choice"
    )
