"""Scopes: strategies applied to the ops made inside of a ``with`` block.

Entering one stamps the ops that are made in the default graph from then on, and nothing else.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading

import tensorflow.compat.v1 as tf

from whale import _tf
from whale.annotations.nesting import check_nesting
from whale.annotations.placing import place
from whale.annotations.stamps import hold_stamp, stamped
from whale.annotations.state import GraphRecord, Scope, record_of, script
from whale.annotations.strategies import Strategy, check_available
from whale.cluster import Cluster
from whale.config.setting import script_site
from whale.errors import ScopeError, Site


@dataclasses.dataclass(frozen=True)
class _Entered:
    """One ``with`` block under way."""

    graph: tf.Graph
    scope: Scope
    version: int
    """The graph's version when the block was entered."""
    stamp: contextlib.ExitStack


class StrategyScope:
    """A strategy that can be entered, any number of times, or be made the default."""

    def __init__(self, strategy: Strategy, cluster: Cluster, followed: bool = True) -> None:
        """A scope over devices of a cluster.

        Args:
            strategy: what it asks for.
            cluster: where the devices are.
            followed: False where the command line asks for copies whatever the scopes say; a strategy that cannot be
                executed is no error then.

        Raises:
            ClusterError: the strategy names devices that do not exist, or more than there are.
        """
        self.strategy = strategy
        self._cluster = cluster
        self._followed = followed
        self._entered: list[_Entered] = []
        self.devices_from(strategy.site)

    def devices_from(self, site: Site | None) -> tuple[str, ...]:
        """The devices the scope has under the layout now in force."""
        return place(self.strategy, self._cluster, script().layout, site)

    def check_available(self, site: Site | None) -> None:
        """Raises ScopeError for a strategy that is to be followed and cannot be executed in this version."""
        if self._followed:
            check_available(self.strategy.kind, site)

    def __enter__(self) -> StrategyScope:
        site = script_site()
        graph = annotated_graph(site)
        record = record_of(graph)
        self.check_available(site)
        check_nesting(self.strategy, [scope.strategy for scope in record.open], site)
        scope = record.add(self.strategy, self.devices_from(site), site)
        record.open.append(scope)
        record.threads[scope.index] = threading.get_ident()
        stamp = contextlib.ExitStack()
        stamp.enter_context(stamped(graph, scope.index))
        self._entered.append(_Entered(graph, scope, _tf.graph_version(graph), stamp))
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        entered = self._entered.pop() if self._entered else None
        record = record_of(entered.graph) if entered else GraphRecord()
        if entered is None or not record.open or record.open[-1] is not entered.scope:
            raise ScopeError(
                f"{self.strategy} is left, but it is not the innermost open scope",
                site=script_site(),
                fix="enter and leave scopes with `with`",
            )
        entered.stamp.close()
        record.open.pop()
        del record.threads[entered.scope.index]
        if kind is None and _tf.graph_version(entered.graph) == entered.version:
            record.empty.append(entered.scope)
        if not record.open:
            _hold_default(entered.graph, record)

    def __repr__(self) -> str:
        return f"<whale scope: {self.strategy}>"


def current_scope_as_default() -> None:
    """Ops made in this graph after the open scopes are left join the innermost of them.

    Raises:
        ScopeError: no scope is open in the default graph.
    """
    site = script_site()
    record = record_of(annotated_graph(site))
    if not record.open:
        raise ScopeError(
            "current_scope_as_default() is called outside of every scope",
            site=site,
            fix="call it inside the `with` block of a scope",
        )
    record.default = record.open[-1]


def set_default_strategy(scope: StrategyScope) -> None:
    """Ops made outside of every scope belong to a strategy: in this graph from now on, in graphs made later all.

    Raises:
        ScopeError: the argument is not what ``replica`` returns, or the strategy is not available.
    """
    site = script_site()
    if not isinstance(scope, StrategyScope):
        raise ScopeError(
            f"the default strategy cannot be {scope!r}", site=site, fix="pass a scope, such as wh.replica()"
        )
    scope.check_available(site)
    graph = annotated_graph(site)
    record = record_of(graph)
    devices = scope.devices_from(site)
    made = record.add(scope.strategy, devices, site, is_default=True)
    record.default = made
    if _tf.graph_version(graph) == 0:
        record.rest = made
    script().default = dataclasses.replace(scope.strategy, site=site)
    script().default_devices = devices
    if not record.open:
        _hold_default(graph, record)


def annotated_graph(site: Site | None) -> tf.Graph:
    """The default graph, which annotations apply to.

    Raises:
        ScopeError: it is the body of a function.
    """
    graph = tf.get_default_graph()
    if graph.building_function:
        raise ScopeError(
            "an annotation inside a function body (tf.function, a dataset's map, a while_loop of control flow v2)",
            site=site,
            fix="put it around the call of the function",
        )
    return graph


def _hold_default(graph: tf.Graph, record: GraphRecord) -> None:
    default = record.default
    hold_stamp(graph, None if default is None or default is record.rest else default.index)
