"""What a simulated step comes to."""

from __future__ import annotations

import dataclasses

from whale.cost_model.memory import MemoryUse


@dataclasses.dataclass(frozen=True)
class Event:
    """Something that occupies devices or a link."""

    kind: str
    """``forward``, ``backward``, ``send``, ``reduce`` or ``update``."""
    devices: tuple[str, ...]
    """The devices, or for a transfer both ends."""
    stage: int
    micro_batch: int
    """-1 for what is done once a step."""
    start: float
    """Seconds from the start of the step."""
    end: float


@dataclasses.dataclass(frozen=True)
class Estimate:
    """What a plan costs."""

    step_seconds: float
    bubble: float
    """The part of the pipeline's time in which its devices wait, 0 to 1."""
    compute_seconds: float
    """Of the busiest device in a step: passes and their exchanges."""
    reduce_seconds: float
    """Of the step: reduction of gradients that nothing hides."""
    memory: dict[str, MemoryUse]
    """Peak bytes by device."""
    limits: dict[str, int | None]
    """Memory by device; None where unknown."""
    timeline: tuple[Event, ...]
    """Events of one of each set of equal replicas, in order of their start."""

    @property
    def short(self) -> dict[str, float]:
        """Devices that the plan does not fit on, with the bytes that are missing."""
        found: dict[str, float] = {}
        for device, use in self.memory.items():
            limit = self.limits[device]
            if limit is not None and use.total > limit:
                found[device] = use.total - limit
        return found

    @property
    def fits(self) -> bool:
        """Whether it fits on every device whose memory is known."""
        return not self.short
