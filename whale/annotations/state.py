"""What a script has said so far: its scopes by graph, its default strategy, its collections.

The functions a script calls write here, in the order in which the script runs; the runtime reads the frozen view
that ``annotations_of`` gives. Everything is forgotten by ``start_afresh``.
"""

from __future__ import annotations

import dataclasses
import itertools
import threading
import weakref
from collections.abc import Mapping

import tensorflow.compat.v1 as tf

from whale.annotations.stamps import hold_stamp
from whale.annotations.strategies import Kind, Strategy
from whale.cluster import Slices
from whale.errors import ScopeError, Site

_indices = itertools.count()
"""Scope numbers. They are never given twice in a process: ops keep the number of a scope that ``init`` forgot."""


@dataclasses.dataclass(frozen=True)
class Scope:
    """One use of a strategy in one graph."""

    index: int
    """The number its ops are stamped with."""
    strategy: Strategy
    """What it asks for."""
    devices: tuple[str, ...]
    """Its devices, replica by replica, as strings of the cluster."""
    parent: int | None
    """Index of the scope around it."""
    site: Site | None
    """The script's line that entered it."""
    is_default: bool = False
    """Whether it was made by ``set_default_strategy`` and never entered."""
    is_carried: bool = False
    """Whether the default strategy was set before the graph was there, for another one maybe."""

    @property
    def kind(self) -> Kind:
        """Its strategy's kind."""
        return self.strategy.kind

    @property
    def name(self) -> str:
        """The script's name for it, or empty."""
        return self.strategy.name


@dataclasses.dataclass(frozen=True)
class Annotations:
    """What a script said about one graph."""

    scopes: tuple[Scope, ...] = ()
    """In the order in which they were entered."""
    default: Scope | None = None
    """The scope that ops made outside of every scope join now."""
    rest: Scope | None = None
    """The scope of ops without a stamp: the default strategy, where it was set before the graph's first op."""
    collections: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    """Names of the tensors under each of ``GraphKeys``; keys without a tensor are absent."""
    auto: tuple[Kind, ...] | None = None
    """The strategies ``auto_parallel`` may choose from, empty for any; None when the script did not call it."""
    layout: tuple[str, ...] = ()
    """The devices that ``cluster`` hands out for the graph, slice by slice; empty when the script did not call it."""

    def scope_of(self, stamp: int | None) -> Scope | None:
        """The scope of an op, from its stamp (``Op.scope``); None for an op that belongs to none."""
        if stamp is None:
            return self.rest
        return next((scope for scope in self.scopes if scope.index == stamp), None)

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that hold copies: those of the replica scopes, else the layout's; empty: it names none."""
        for scope in self.scopes:
            if scope.kind is Kind.REPLICA:
                return scope.devices
        return self.layout

    @property
    def asks_for_replicas(self) -> bool:
        """Whether the script says in any way that this graph is to be copied."""
        return self.auto is not None or any(scope.kind is Kind.REPLICA for scope in self.scopes)


@dataclasses.dataclass
class GraphRecord:
    """What has been said about one graph. Refers to the graph by names only, so that it does not keep it alive."""

    scopes: list[Scope] = dataclasses.field(default_factory=list)
    open: list[Scope] = dataclasses.field(default_factory=list)
    """Entered and not yet left, outermost first."""
    threads: dict[int, int] = dataclasses.field(default_factory=dict)
    """The thread that entered each open scope, by the scope's index."""
    empty: list[Scope] = dataclasses.field(default_factory=list)
    """Scopes that were left before an op was made in them."""
    default: Scope | None = None
    """As in ``Annotations``."""
    rest: Scope | None = None
    """As in ``Annotations``."""
    collections: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    """Names of tensors, by key."""
    layout: tuple[str, ...] = ()
    """The devices of the last layout chosen while the graph was the default one."""

    def add(
        self,
        strategy: Strategy,
        devices: tuple[str, ...],
        site: Site | None,
        *,
        is_default: bool = False,
        is_carried: bool = False,
    ) -> Scope:
        """A new scope inside the innermost open one.

        Raises:
            ScopeError: another replica scope of the graph names other devices.
        """
        for other in self.scopes:
            if strategy.kind is other.kind is Kind.REPLICA and set(other.devices) != set(devices):
                raise ScopeError(
                    f"{strategy} is on other devices than {other.strategy} at {other.site}: models that are spread over"
                    " devices are not available in this version of Whale",
                    site=site,
                    fix="give all replica scopes of a graph the same devices",
                )
        parent = self.open[-1].index if self.open and not is_default else None
        scope = Scope(next(_indices), strategy, devices, parent, site, is_default, is_carried)
        self.scopes.append(scope)
        return scope


@dataclasses.dataclass
class Script:
    """What has been said about no graph in particular, and the record of each graph."""

    is_annotated: bool = False
    """Whether the script called any function of Whale."""
    default: Strategy | None = None
    """The default strategy, which graphs made later take as well."""
    default_devices: tuple[str, ...] = ()
    """Its devices."""
    auto: tuple[Kind, ...] | None = None
    """As in ``Annotations``."""
    slices: Slices = ()
    """The layout in force; empty for all devices."""
    records: weakref.WeakKeyDictionary[tf.Graph, GraphRecord] = dataclasses.field(
        default_factory=weakref.WeakKeyDictionary
    )

    @property
    def layout(self) -> tuple[str, ...]:
        """The devices of the layout in force; empty for all."""
        return tuple(name for virtual in self.slices for replica in virtual for name in replica)


_script = Script()


def script() -> Script:
    """What the script has said since it began, or since its last ``init``."""
    return _script


def start_afresh() -> Script:
    """Forgets everything that was said; later ops are stamped no more."""
    global _script
    for graph in list(_script.records):
        hold_stamp(graph, None)
    _script = Script()
    return _script


def record_of(graph: tf.Graph) -> GraphRecord:
    """The record of a graph, a new one at its first use."""
    record = _script.records.get(graph)
    if record is None:
        record = _script.records[graph] = GraphRecord()
        if _script.default is not None:
            made = record.add(
                _script.default, _script.default_devices, _script.default.site, is_default=True, is_carried=True
            )
            record.default = record.rest = made
    return record


def annotations_of(graph: tf.Graph) -> Annotations | None:
    """What the script has said about a graph, or None when it uses no annotation at all."""
    if not _script.is_annotated:
        return None
    record = record_of(graph)
    return Annotations(
        scopes=tuple(record.scopes),
        default=record.default,
        rest=record.rest,
        collections={key: tuple(names) for key, names in record.collections.items() if names},
        auto=_script.auto,
        layout=record.layout or _script.layout,
    )


def open_here(graph: tf.Graph) -> list[Scope]:
    """Scopes that are open in a graph, or that this thread opened in another one; outermost first."""
    thread = threading.get_ident()
    found = list(record_of(graph).open)
    for other, record in list(_script.records.items()):
        if other is not graph:
            found.extend(scope for scope in record.open if record.threads.get(scope.index) == thread)
    return sorted(found, key=lambda scope: scope.index)
