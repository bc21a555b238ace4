"""TaskGraphs: the stages a model is taken apart into, and which of them each op belongs to."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from whale.errors import Site
from whale.ir.program import Op

UNSTAMPED = -1
"""In the scopes of a stage: the ops that carry no scope's number, where the default strategy was set before them."""


@dataclasses.dataclass(frozen=True)
class Stage:
    """One TaskGraph of a pipeline, as the script asks for it."""

    scopes: frozenset[int]
    """Numbers of the annotation scopes whose ops it holds (``Op.scope``)."""
    name: str = ""
    """The script's name for it, or empty."""
    devices: tuple[tuple[str, ...], ...] = ()
    """Its devices by replica, as device strings of the cluster; empty: those that are dealt to it."""
    device_count: int = 1
    """How many devices of one replica it runs on: they take micro-batches in turn."""
    site: Site | None = None
    """The script's line that entered it."""
    ops: frozenset[str] = frozenset()
    """Forward ops that it holds whatever their scopes: of a stage that Whale cut itself."""


@dataclasses.dataclass(frozen=True)
class PipelineRequest:
    """What a script asks for with ``pipeline`` and ``stage``, or with EPL's rule."""

    stages: tuple[Stage, ...]
    """In the order in which the script enters them; empty for gradient accumulation without stages."""
    micro_batches: int
    """Pieces that a replica's batch is cut into, or draws of one step."""
    strategy: str
    """Name of the schedule, as the script or the configuration writes it."""
    site: Site | None = None
    """The script's line that entered the pipeline."""
    is_asked: bool = True
    """Whether the script asks for it. What Whale chose itself changes no numbers: statistics over the batch are then
    exact, although micro-batches wait for one another."""


@dataclasses.dataclass(frozen=True)
class TaskGraphs:
    """The stages of one graph and the stage of every op."""

    stages: tuple[Stage, ...]
    """In data-flow order."""
    of: Mapping[str, int]
    """By op: the number of its stage, from 0."""
    joined: Mapping[int, tuple[Op, ...]] = dataclasses.field(default_factory=dict[int, "tuple[Op, ...]"])
    """By stage: the forward ops of no scope that joined it by data flow."""

    def title(self, stage: int) -> str:
        """A stage as people are told of it: its number, the script's name for it, its line."""
        found = self.stages[stage]
        name = f" {found.name!r}" if found.name else ""
        return f"stage {stage}{name}" + (f" ({found.site})" if found.site else "")
