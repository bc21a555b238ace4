"""The report of a plan as plain data: what runs where, what it costs, and why this plan was chosen.

Everything is a str, int, float, bool, None or a tuple of them, so that a report can be stored, sent and compared.
Times are in seconds, sizes in bytes, parts of a whole from 0 to 1.
"""

from __future__ import annotations

import dataclasses

from whale.cost_model import MemoryUse


@dataclasses.dataclass(frozen=True)
class GraphFacts:
    """The captured training step."""

    operations: int
    variables: int
    parameter_bytes: int
    """Of all variables that are trained."""
    batch_mode: str = "global"
    """``global``: the script's batch is divided over the replicas; ``local``: each replica has one of that size."""
    notes: tuple[str, ...] = ()
    """What a reader must know, such as "batch size assumed"."""


@dataclasses.dataclass(frozen=True)
class DeviceFacts:
    """One device of the cluster."""

    name: str
    """The string ``tf.device`` takes."""
    host: str
    kind: str
    """``GPU`` or ``CPU``."""
    index: int
    """Among the devices of its kind on its host."""
    model: str
    limit_bytes: int | None
    """Its memory; None where it is not known."""
    stages: tuple[int, ...] = ()
    """The stages that it holds; empty for a device that the plan leaves idle."""
    memory: MemoryUse | None = None
    """What the plan needs of it; None for an idle device."""

    @property
    def idle(self) -> bool:
        """Whether the plan leaves it out."""
        return not self.stages


@dataclasses.dataclass(frozen=True)
class StageFacts:
    """One TaskGraph: a run of blocks that is placed as one."""

    number: int
    name: str
    start: int
    """Its first block, counted from 0."""
    stop: int
    """The first block that is no longer part of it."""
    first: str
    """Name of its first block."""
    last: str
    """Name of its last block."""
    folded: int
    """Its blocks that are equal to another one before them, and are costed once."""
    work: float
    """Its part of the model's FLOPs, forward and backward."""
    parameter_bytes: int
    """Of the variables that it reads, in 32 bits."""
    reduced_bytes: float
    """Gradients that a device hands to the reduction over the replicas, once a step; 0 for a single replica."""
    output_bytes: float
    """Activations of a whole step that go on to the next stage, over all replicas; as much comes back. 0 at the end."""
    devices: tuple[tuple[str, ...], ...]
    """Device strings of each replica."""
    divided: str
    """How operators are divided over a replica's devices: ``whole``, or ``4 devices``."""

    @property
    def blocks(self) -> int:
        """How many blocks it has."""
        return self.stop - self.start


@dataclasses.dataclass(frozen=True)
class ReplicaFacts:
    """One copy of the model."""

    number: int
    samples: float
    """Of a step."""
    part: float
    """Of the batch."""
    like: int
    """The first replica with equal devices, links and share; its timeline stands for this one's."""


@dataclasses.dataclass(frozen=True)
class Prediction:
    """What the cost model says of a step."""

    step_seconds: float
    samples_per_second: float
    bubble: float
    """Part of the pipeline's time in which its devices wait."""
    compute_seconds: float
    """Of the busiest device: forward and backward passes."""
    reduce_seconds: float
    """Reduction of gradients that no computation hides."""

    @property
    def other_seconds(self) -> float:
        """What is left of a step: waiting for other stages, the update, and starting a step."""
        return max(self.step_seconds - self.compute_seconds - self.reduce_seconds, 0.0)


@dataclasses.dataclass(frozen=True)
class TimelineEvent:
    """Something that occupies a device or a link, predicted."""

    kind: str
    """``forward``, ``backward``, ``send``, ``reduce`` or ``update``."""
    replica: int
    stage: int
    target: int
    """The stage that is sent to; -1 for anything but ``send``."""
    micro_batch: int
    """-1 for what is done once a step."""
    start: float
    """Seconds from the start of the step."""
    end: float


@dataclasses.dataclass(frozen=True)
class Timeline:
    """One step over time, for one replica of each set of equal ones."""

    events: tuple[TimelineEvent, ...]
    """In order of their start."""
    gap: tuple[float, float] | None = None
    """A stretch in the middle of a long step, seconds from its start, of which no event is kept."""
    replicas: tuple[int, ...] = ()
    """The replicas that are shown."""
    kinds: int = 1
    """Sets of equal replicas that there are; above the number shown, those that take longest are shown."""


@dataclasses.dataclass(frozen=True)
class OtherPlan:
    """A plan that was looked at and not chosen."""

    name: str
    """What it divides, such as ``data x pipeline``."""
    layout: str
    """Its replicas, stages and micro-batches in words."""
    step_seconds: float | None
    """None where it does not fit."""
    fits: bool
    refused: str
    """What of it cannot run yet; empty where all can, or where plans were asked for that need not run."""
    reason: str
    """Why it lost, as the search says it."""


@dataclasses.dataclass(frozen=True)
class SearchFacts:
    """How the plan was found."""

    exact: bool
    """Whether no plan of the space is faster by the cost model."""
    simulated: int
    """Plans that were simulated."""
    phases: tuple[tuple[str, float], ...]
    """(name, seconds) of the search's parts, in order."""


@dataclasses.dataclass(frozen=True)
class Measured:
    """What a run of the plan came to."""

    step_seconds: float | None = None
    peak_bytes: tuple[tuple[str, int], ...] = ()
    """(device string, peak bytes) of the devices that tell."""


@dataclasses.dataclass(frozen=True)
class PlanReport:
    """A plan, what it costs, and what it was compared with."""

    title: str
    """The script."""
    graph: GraphFacts
    batch: int
    """Samples of a step, over all replicas."""
    family: str
    """What the plan divides, such as ``data x pipeline``."""
    layout: str
    """Its replicas, stages and micro-batches in words."""
    devices: tuple[DeviceFacts, ...]
    """All devices of the cluster that plans may use, idle ones included, host by host."""
    stages: tuple[StageFacts, ...]
    rows: int
    """Stages with devices of their own; fewer than stages where the schedule is interleaved."""
    replicas: tuple[ReplicaFacts, ...]
    micro_batches: int
    schedule: str
    """Its name in whale, such as ``one_f_one_b``."""
    recomputation: str
    """``none``, ``selective`` or ``full``."""
    precision: str
    prediction: Prediction
    timeline: Timeline
    runners_up: tuple[OtherPlan, ...]
    """The best plan of each other family: fastest first, those that do not fit last."""
    left_out: OtherPlan | None
    """A faster plan that cannot run yet."""
    search: SearchFacts
    numerics: tuple[str, ...] = ()
    """What is promised of results: "exact: ..." or "approximate: ..."."""
    measured: Measured | None = None

    @property
    def idle(self) -> tuple[DeviceFacts, ...]:
        """Devices that the plan leaves out."""
        return tuple(device for device in self.devices if device.idle)

    @property
    def used(self) -> tuple[DeviceFacts, ...]:
        """Devices that the plan uses."""
        return tuple(device for device in self.devices if not device.idle)
