"""What a simulation needs beside model and plan: the cluster, what runs on it, and what is known of both."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable

from whale.cluster import CATALOGUE, Catalogue, Cluster
from whale.cost_model.coefficients import Coefficients, packaged_coefficients
from whale.cost_model.plan import ParallelPlan
from whale.cost_model.runtimes import Runtime, runtime
from whale.cost_model.timing import BlockTimes, block_times
from whale.cost_model.topology import Topology


def _tensorflow() -> Runtime:
    return runtime("tensorflow")


@dataclasses.dataclass(frozen=True)
class World:
    """Everything a simulation needs beside model and plan."""

    cluster: Cluster
    runtime: Runtime = dataclasses.field(default_factory=_tensorflow)
    catalogue: Catalogue = CATALOGUE
    coefficients: Coefficients = dataclasses.field(default_factory=packaged_coefficients)
    used: tuple[tuple[str, int], ...] = ()
    """(machine, devices of it in use), in order; empty when all are."""

    @functools.cached_property
    def topology(self) -> Topology:
        """The links as this runtime uses them."""
        efficiency = self.coefficients.get(f"communication/{self.runtime.communication}/network")
        return Topology(self.cluster, self.catalogue, self.coefficients, efficiency, self.used)

    def used_by(self, devices: Iterable[str]) -> World:
        """The world as a plan on these devices sees it: the others leave the links alone.

        Raises:
            ClusterError: a device does not exist.
        """
        counts = self.topology.count(devices)
        found = self._views.get(counts)
        if found is None:
            found = self._views[counts] = dataclasses.replace(self, used=counts)
        return found

    @functools.cached_property
    def _views(self) -> dict[tuple[tuple[str, int], ...], World]:
        return {}

    def times(self, plan: ParallelPlan) -> BlockTimes:
        """Times of blocks in a plan's precision."""
        return block_times(self.runtime, plan.precision, self.catalogue, self.coefficients)
