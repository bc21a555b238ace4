"""EPL: the functions of Whale, and what EPL's scripts read besides. It stands for EPL's packages as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import whale
from whale import *  # noqa: F403 - EPL's names are Whale's
from whale import config
from whale.config import env
from whale.config.env import missing_name

if TYPE_CHECKING:
    from whale.annotations.cluster_scope import ClusterScope
    from whale.annotations.scopes import StrategyScope
    from whale.cluster import Layout

__all__ = [*whale.__all__, "VERSION", "Cluster", "Graph", "config", "env"]  # pyright: ignore[reportUnsupportedDunderAll]
__path__: list[str] = []

VERSION = "1.0.0"
"""The release of EPL that these names are of."""


def Cluster(
    worker_hosts: str | None = None,
    ps_hosts: str | None = None,
    job_name: str = "worker",
    worker_index: int = 0,
    layout: Layout | None = "all",
) -> ClusterScope:
    """``whale.cluster`` under EPL's name: hands the devices out by a layout; None is that of all devices."""
    return whale.cluster(worker_hosts, ps_hosts, job_name, worker_index, "all" if layout is None else layout)


class Graph:
    """The default graph's annotations, as far as scripts for EPL write them."""

    @classmethod
    def get(cls, may_create: bool = True) -> Graph:
        """The one of the default graph; there always is one."""
        del may_create
        return cls()

    def set_default_strategy(self, strategy: StrategyScope) -> None:
        """As ``whale.set_default_strategy``."""
        whale.set_default_strategy(strategy)

    @property
    def parallel_information(self) -> dict[str, Any]:
        """As ``Env.get().parallel_information``."""
        return whale.Env.get().parallel_information

    def __getattr__(self, name: str) -> NoReturn:
        """Called for what is none of these."""
        known = [known for known in vars(Graph) if not known.startswith("_")]
        plan = "the rewritten graph is internal; whale.explain(session) says what runs where"
        missing_name("epl.Graph", name, known, f"{plan}. Graph has {', '.join(known)}")


def __getattr__(name: str) -> NoReturn:
    missing_name("epl", name, __all__)
