"""What a lowering is given and what it leaves: the devices of the copies, and the handles of one run."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from whale.ir.schedule import Schedule
from whale.ir.task_graphs import TaskGraphs
from whale.rewriter.buckets import WORTH_A_MESSAGE, Reduced
from whale.rewriter.micro_loop import Loops
from whale.rewriter.shadow import Origin


@dataclasses.dataclass(frozen=True)
class Feed:
    """One value that a run feeds into the shadow graph."""

    node: str
    """Tensor of the shadow graph."""
    tensor: str
    """Tensor the user feeds."""
    kind: str
    """``whole``, ``piece`` (a copy's samples) or ``count`` (the number of samples)."""
    replica: int = 0
    """The copy, for a piece."""
    dim: int = 0
    """The dim that is cut or counted."""


@dataclasses.dataclass(frozen=True)
class Lowered:
    """A run of the shadow graph that computes a run of the user's graph."""

    fetches: tuple[str, ...]
    """Tensors of the shadow graph, one per fetched tensor."""
    targets: tuple[str, ...]
    """Ops of the shadow graph."""
    feeds: tuple[Feed, ...]
    """What is fed."""
    mirrored: frozenset[str]
    """Variables that every copy reads or writes: their mirrors must be in step before the run."""
    home_writes: frozenset[str]
    """Variables written at home only: other mirrors are out of step after the run."""
    collectives: tuple[tuple[Reduced, ...], ...] = ()
    """Buckets that are all-reduced."""
    observed: tuple[str, ...] = ()
    """The tensors that were asked to be observable, whole."""
    sent: tuple[str, ...] = ()
    """Those of the targets that an observing run needs: nodes that send random ops their inputs."""
    order: Ordered | None = None
    """For a pipeline: the order in which the tasks run."""
    loops: Loops | None = None
    """For gradient accumulation: the loops that micro-batches go through."""


@dataclasses.dataclass(frozen=True)
class Ordered:
    """The order of a pipeline's tasks in one run."""

    schedule: Schedule
    """What was to be kept."""
    waits: tuple[str, ...] = ()
    """Where micro-batches wait for one another, so that the schedule gives way there."""


@dataclasses.dataclass(frozen=True)
class Mesh:
    """The copies of a step: one per replica and micro-batch, each stage of it on a device of its own.

    Without a pipeline there is one stage and one micro-batch, and a copy is a replica. Copies are numbered replica by
    replica; the first copy is home. What works on pieces of the batch runs once per copy, what works on whole values
    once per device: by the *lead*, the first of the copies that the device serves.
    """

    devices: tuple[str, ...]
    """One device string per copy: where its first stage is."""
    shares: tuple[int, ...]
    """Relative batch share of each copy."""
    max_splits: int = 5
    """Most buckets per all-reduce, beside large tensors."""
    worth: int = WORTH_A_MESSAGE
    """Bytes from which a tensor travels alone."""
    communicators: int = 2
    """Buckets that may be under way at once."""
    local: bool = False
    """Whether every copy draws its own batch from the input pipeline."""
    micro_batches: int = 1
    """Micro-batches that each copy takes one after another, in a loop; 1 with a pipeline, whose copies they are."""
    pipeline: Pipeline | None = None
    """The stages after the first, and the order of micro-batches."""

    @property
    def hint(self) -> str:
        """Communication hint of collectives."""
        return "nccl" if all("GPU" in d for d in self.devices) else "ring"

    @property
    def copies(self) -> range:
        """Numbers of the copies."""
        return range(len(self.shares))

    def label(self, copy: int) -> str:
        """A copy in the names of nodes."""
        if self.pipeline is None or self.pipeline.micro_batches == 1:
            return f"replica_{copy}"
        replica, micro_batch = divmod(copy, self.pipeline.micro_batches)
        return f"replica_{replica}/micro_batch_{micro_batch}"

    def origin(self, op: str, copy: int, own: str = "") -> Origin:
        """Where a node of a copy comes from; ``own`` as in ``Origin``."""
        return Origin(op, copy, self.of_first_replica.stop, own)

    @property
    def has_micro_batches(self) -> bool:
        """Whether a step is taken apart in time as well: by a pipeline or by accumulation."""
        return self.pipeline is not None or self.micro_batches > 1

    @property
    def of_first_replica(self) -> range:
        """The copies of the first replica."""
        return range(self.pipeline.micro_batches if self.pipeline is not None else 1)

    @property
    def pieces(self) -> tuple[int, ...]:
        """Relative share of the batch of each micro-batch of each copy, copy by copy."""
        return tuple(share for share in self.shares for _ in range(self.micro_batches))

    @property
    def all_devices(self) -> tuple[str, ...]:
        """Every device once, stage by stage."""
        rows = self.pipeline.devices if self.pipeline is not None else (self.devices,)
        return tuple(dict.fromkeys(device for row in rows for device in row))

    def stage(self, op: str) -> int:
        """The stage of a user's op; ops that are not of the graph are in the first."""
        return self.pipeline.stages.of.get(op, 0) if self.pipeline is not None else 0

    def device(self, op: str, copy: int) -> str:
        """The device of a copy of a user's op."""
        if self.pipeline is None:
            return self.devices[copy]
        return self.pipeline.devices[self.stage(op)][copy]

    def lead(self, op: str, copy: int) -> int:
        """The copy that does for a device what is done on whole values: the first of those it serves."""
        return copy if self.pipeline is None else self.pipeline.lead_of[self.stage(op)][copy]

    def leads(self, op: str) -> Sequence[int]:
        """The leads of the devices of an op's stage."""
        return self.copies if self.pipeline is None else self.pipeline.leads[self.stage(op)]

    def led(self, op: str, lead: int) -> Sequence[int]:
        """The copies of an op that one device serves, in order."""
        if self.pipeline is None:
            return (lead,)
        return [copy for copy, first in enumerate(self.pipeline.lead_of[self.stage(op)]) if first == lead]


@dataclasses.dataclass(frozen=True)
class Pipeline:
    """How the stages of a pipeline lie on devices."""

    stages: TaskGraphs
    """The stage of every op."""
    devices: tuple[tuple[str, ...], ...]
    """By stage and copy: the device."""
    micro_batches: int
    """Micro-batches of one replica."""
    schedule: Schedule
    """The order of tasks for training steps."""
    idle: tuple[str, ...] = ()
    """Devices that no stage is on."""

    @functools.cached_property
    def lead_of(self) -> tuple[tuple[int, ...], ...]:
        """By stage and copy: the first copy on the same device."""
        return tuple(tuple(row.index(device) for device in row) for row in self.devices)

    @functools.cached_property
    def leads(self) -> tuple[tuple[int, ...], ...]:
        """By stage: the first copy of each device."""
        return tuple(tuple(dict.fromkeys(row)) for row in self.lead_of)

    @property
    def replicas(self) -> int:
        """Number of model replicas."""
        return len(self.devices[0]) // self.micro_batches
