"""What a search may choose from."""

from __future__ import annotations

import dataclasses

from whale.cost_model import Precision, Recompute
from whale.cost_model.plan import ScheduleName
from whale.errors import PlanError

SCHEDULES: tuple[ScheduleName, ...] = ("one_f_one_b", "gpipe", "prefer_backward_optimizer", "interleaved")
"""In the order in which they are preferred where they cost the same."""


@dataclasses.dataclass(frozen=True)
class SearchOptions:
    """The space of plans."""

    global_batch: int
    """Samples of a step."""
    precision: Precision = "fp32"
    micro_batches: tuple[int, ...] = ()
    """Numbers of micro-batches to look at, each a divisor of the batch; empty for all divisors."""
    schedules: tuple[ScheduleName, ...] = SCHEDULES
    recompute: tuple[Recompute, ...] = (Recompute.NONE, Recompute.SELECTIVE, Recompute.FULL)
    tensor_parallel: int = 8
    """The most devices of a tensor-parallel group; sizes are the powers of two up to it. 1 leaves it out."""
    sequence_parallel: bool = True
    """Whether sequence parallelism may accompany tensor parallelism."""
    max_stages: int | None = None
    """The most stages of a pipeline; 1 leaves pipelines out."""
    stages: tuple[int, ...] = ()
    """For a script that names its stages: the first block of each, beginning with 0. They are then kept as they are."""
    replicas: int | None = None
    """Copies of the model, where the script says how many."""
    executable_only: bool = False
    """Whether only plans count that the rewriter can emit today; what is left out is reported."""
    max_units: int = 128
    """Longer chains are merged into so many units before stages are cut."""
    exhaustive_limit: int = 20_000
    """A space of at most so many (layout, cut, share) combinations is looked at as a whole."""
    simulations: int = 32
    """How many plans of a larger space are simulated before the best is improved."""

    def __post_init__(self) -> None:
        """Raises PlanError for options that no plan can meet."""
        if self.global_batch < 1:
            raise PlanError(f"a batch of {self.global_batch}", fix="give at least one sample")
        bad = [m for m in self.micro_batches if m < 1 or self.global_batch % m]
        if bad:
            raise PlanError(
                f"{bad[0]} micro-batches do not divide a batch of {self.global_batch}",
                fix="micro-batches of a replica are of one size: choose divisors of the batch",
            )
        if self.stages and (self.stages[0] or list(self.stages) != sorted(set(self.stages))):
            raise PlanError(f"the stages begin at the blocks {list(self.stages)}", fix="begin with 0, and go up")
        if not self.schedules or not self.recompute or self.tensor_parallel < 1:
            raise PlanError("an empty space of plans", fix="allow one schedule, one recomputation, groups of one")

    def divisors(self) -> tuple[int, ...]:
        """The numbers of micro-batches to look at, in ascending order."""
        if self.micro_batches:
            return tuple(sorted(set(self.micro_batches)))
        return divisors(self.global_batch)

    def group_sizes(self, most: int) -> tuple[int, ...]:
        """Sizes of tensor-parallel groups, on machines with up to ``most`` equal devices."""
        return tuple(1 << i for i in range(10) if 1 << i <= min(most, self.tensor_parallel))


def divisors(number: int) -> tuple[int, ...]:
    """All divisors, in ascending order."""
    small = [i for i in range(1, int(number**0.5) + 1) if number % i == 0]
    return tuple(dict.fromkeys((*small, *(number // i for i in reversed(small)))))
