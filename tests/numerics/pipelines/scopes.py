"""How a script is cut into stages: scopes that a model enters, which are none when the script runs on one device."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import whale as wh

PARTS = 4
"""Parts that a model names; a pipeline of fewer stages joins neighbours."""


class NoScopes:
    """No scope at all: the script as plain TensorFlow runs it."""

    def model(self) -> AbstractContextManager[Any]:
        """Around the whole model."""
        return contextlib.nullcontext()

    def part(self, number: int) -> AbstractContextManager[Any]:
        """Around part ``number`` of the model, from 0; a part may be entered again."""
        del number
        return contextlib.nullcontext()


@dataclasses.dataclass(frozen=True)
class Cut:
    """A pipeline."""

    stages: int
    """Number of stages, at most ``PARTS``."""
    micro_batches: int
    """Micro-batches of one replica."""
    replicas: int = 1
    """Copies of the pipeline."""
    schedule: str = "PreferBackward"
    """Name of the schedule."""
    device_counts: Sequence[int] = ()
    """Devices of each stage; empty: one each."""
    epl: bool = False
    """Whether the stages are EPL's: ``replicate`` scopes, the micro-batches being configured."""

    def __str__(self) -> str:
        return f"{self.stages} stages, M={self.micro_batches}, R={self.replicas}, {self.schedule}"

    @property
    def devices_per_replica(self) -> int:
        """Devices of one replica. Interleaved: two stages on each if there are four, else one or all of them."""
        if self.schedule == "Interleaved":
            return 2 if self.stages == 4 else self.stages if self.replicas == 1 else 1
        return sum(self.device_counts) if self.device_counts else self.stages

    @property
    def devices(self) -> int:
        """Devices of the cluster."""
        return self.devices_per_replica * self.replicas

    @property
    def copies(self) -> int:
        """Pieces of a batch, or draws of a step."""
        return self.micro_batches * self.replicas

    def stage(self, part: int) -> int:
        """The stage that a part of a model is in."""
        return part * self.stages // PARTS


class StageScopes(NoScopes):
    """The scopes of a pipeline, for one run of a script."""

    def __init__(self, cut: Cut) -> None:
        self.cut = cut
        self._scopes: dict[int, Any] = {}

    def model(self) -> AbstractContextManager[Any]:
        """The scopes around the stages; EPL has none."""
        outer = contextlib.ExitStack()
        if self.cut.epl:
            return outer
        if self.cut.replicas > 1:
            interleaved = self.cut.schedule == "Interleaved"
            outer.enter_context(wh.replica(device_count=self.cut.devices_per_replica if interleaved else None))
        outer.enter_context(wh.pipeline(num_micro_batch=self.cut.micro_batches, strategy=self.cut.schedule))
        return outer

    def part(self, number: int) -> AbstractContextManager[Any]:
        """The scope of the part's stage, made when it is first entered."""
        stage = self.cut.stage(number)
        if stage not in self._scopes:
            self._scopes[stage] = self._made(stage)
        return self._scopes[stage]

    def _made(self, stage: int) -> Any:
        count = self.cut.device_counts[stage] if self.cut.device_counts else None
        name = f"stage{stage}"
        return wh.replicate(device_count=count, name=name) if self.cut.epl else wh.stage(device_count=count, name=name)
