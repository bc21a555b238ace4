"""What a strategy leaves to the search."""

from __future__ import annotations

import dataclasses
import math

from whale.config.schedule_names import canonical
from whale.cost_model import Precision, Recompute
from whale.cost_model.plan import ScheduleName
from whale.errors import PlanError
from whale.planner.search.options import SCHEDULES, SearchOptions


@dataclasses.dataclass(frozen=True)
class Ask:
    """A script's training step and a cluster, as far as they fix the plan."""

    batch: int
    """Samples of one batch of the script: the global one, or, drawn locally, that of one micro-batch."""
    local: bool
    """Whether every copy draws its own batch."""
    devices: int
    """How many there are."""
    replicas: int | None = None
    """Copies of the model, where they are fixed."""
    micro_batches: int = 0
    """Micro-batches of a replica that the script asks for; 0 where it leaves them open."""
    stages: tuple[int, ...] = ()
    """The first block of each stage that the script names."""
    schedule: str = ""
    """Its schedule, as the script or the configuration writes it."""
    precision: Precision = "fp32"
    """Of products."""
    needs_whole_batch: bool = False
    """Whether the model takes statistics over the batch, for which micro-batches would wait for one another."""
    copies: bool = True
    """Whether the model may be copied."""
    pipelines: bool = True
    """Whether a model without stages may be cut into some."""


def everything(ask: Ask) -> SearchOptions:
    """All that the script leaves open. Plans that cannot run yet are looked at too, to say what they would gain.

    Raises:
        PlanError: as ``SearchOptions``.
    """
    return SearchOptions(
        global_batch=_global_batch(ask),
        precision=ask.precision,
        micro_batches=_micro_batches(ask),
        schedules=_schedules(ask),
        max_stages=None if ask.pipelines or ask.stages else 1,
        stages=ask.stages,
        replicas=ask.replicas if ask.copies else 1,
        executable_only=True,
    )


def what_runs(ask: Ask) -> SearchOptions:
    """All that the script leaves open and that can run."""
    return dataclasses.replace(everything(ask), tensor_parallel=1, recompute=(Recompute.NONE,))


def shares_only(ask: Ask) -> SearchOptions:
    """Copies on all devices, with the micro-batches of the script: only their shares of the batch are open."""
    options = what_runs(ask)
    stages = ask.stages or (0,)
    return dataclasses.replace(
        options,
        micro_batches=_micro_batches(ask) or (1,),
        max_stages=1 if not ask.stages else None,
        replicas=ask.replicas or max(1, ask.devices // len(stages)),
    )


def _global_batch(ask: Ask) -> int:
    """Samples of a step, rounded up: in a run pieces may differ by a sample, and no plan has such pieces."""
    if not ask.local:
        pieces = max(ask.micro_batches, 1)
        return math.ceil(ask.batch / pieces) * pieces
    if ask.replicas is None:
        raise PlanError(
            "copies draw batches of their own, so that their number sets the batch of a step, and it is open",
            fix="cut one global batch: --batch global",
        )
    return ask.batch * ask.replicas * max(ask.micro_batches, 1)


def _micro_batches(ask: Ask) -> tuple[int, ...]:
    if ask.micro_batches:
        return (ask.micro_batches,)
    return (1,) if ask.stages or ask.local or ask.needs_whole_batch else ()


def _schedules(ask: Ask) -> tuple[ScheduleName, ...]:
    if not ask.stages:
        return SCHEDULES
    wanted = canonical(ask.schedule)
    return tuple(name for name in SCHEDULES if name == wanted)
