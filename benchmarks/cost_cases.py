"""Cases for the cost model: what was measured, and all that a prediction of it needs."""

from __future__ import annotations

import dataclasses
import hashlib
import zlib
from typing import Literal

from benchmarks.graphs.sizes import Model
from whale.cluster import Cluster
from whale.cost_model import ParallelPlan

Quantity = Literal[
    "seconds",
    "memory",
    "state bytes",
    "activation bytes",
    "activation ratio",
    "collective",
    "block",
    "flops",
    "out of memory",
]


@dataclasses.dataclass(frozen=True)
class Skip:
    """A row that is no case, and what kind of row it is."""

    reason: str


@dataclasses.dataclass(frozen=True)
class Setup:
    """What a plan runs on and with."""

    cluster: Cluster
    runtime: str


@dataclasses.dataclass(frozen=True)
class Case:
    """A measurement and all that a prediction of it needs."""

    table: str
    """The table it is from."""
    plan_key: str
    """Equal for rows that measure the same plan."""
    group: str
    """Model and device count: plans of one group compete."""
    quantity: Quantity
    measured: float
    """Seconds, bytes, or a part of 1."""
    setup: Setup
    model: Model | None = None
    plan: ParallelPlan | None = None
    size: float = 0.0
    """Bytes of a collective."""

    @property
    def held_back(self) -> bool:
        """Whether it is kept from the fit."""
        return self.held(0)

    def held(self, split: int) -> bool:
        """Whether one of many splits keeps it from the fit: every other plan, by a hash of the plan and the split.

        Split 0 is that of the coefficients in the package. A CRC alone splits by its suffix into the same two halves.
        """
        key = hashlib.sha256(f"{split} {self.plan_key}".encode()).hexdigest() if split else self.plan_key
        return zlib.crc32(key.encode()) % 2 == 1
