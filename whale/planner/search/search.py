"""The search for a plan: proposals, simulation of the best of them, improvement, and why the others lost."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence

from whale.cluster import CATALOGUE, Catalogue, Cluster
from whale.cost_model import (
    Chain,
    Coefficients,
    Estimate,
    ParallelPlan,
    Runtime,
    World,
    packaged_coefficients,
    runtime,
)
from whale.errors import ClusterError, PlanError
from whale.planner.search.blocks import make_units
from whale.planner.search.devices import Grouping, make_pools
from whale.planner.search.exhaustive import search_all
from whale.planner.search.families import Judged, Loser, family_of, gibibytes, why_it_lost, why_not_executable
from whale.planner.search.improve import improve
from whale.planner.search.mixed import search_mixed
from whale.planner.search.options import SearchOptions
from whale.planner.search.order import joined_sets, link_costs, order_machines
from whale.planner.search.space import Space
from whale.planner.search.standings import Standings
from whale.planner.search.tables import Tables
from whale.planner.search.uniform import search_uniform
from whale.planner.search.world import Judge

_LEADERS = 4
"""Families whose best plans are improved."""


@dataclasses.dataclass(frozen=True)
class Found:
    """What a search found."""

    plan: ParallelPlan
    estimate: Estimate
    runners_up: tuple[Loser, ...]
    """The best plan of each other family, fastest first; those that do not fit last."""
    left_out: Loser | None
    """With ``executable_only``: the faster plan that cannot run yet, and what leaving it out costs."""
    exact: bool
    """Whether no plan of the space is faster; else the plan is the best of those that were looked at."""
    simulated: int
    """Plans that were simulated."""
    seconds: dict[str, float]
    """Time of the search by phase."""


def search(
    chain: Chain,
    cluster: Cluster,
    options: SearchOptions,
    *,
    execution: Runtime | None = None,
    catalogue: Catalogue = CATALOGUE,
    coefficients: Coefficients | None = None,
    progress: Callable[[str], None] | None = None,
) -> Found:
    """The plan with the shortest step that fits.

    Args:
        chain: the model.
        cluster: the devices that may be used; a plan may leave some out.
        options: the space of plans.
        execution: what will run the plan; TensorFlow by default.
        catalogue: what is known of devices and links.
        coefficients: fitted numbers; those that ship with Whale by default.
        progress: called with the name of each phase as it begins.

    Raises:
        PlanError: no plan fits; the message has the smallest memory that was found and what would make it fit.
        ClusterError: a device is unknown to the catalogue, or no plan can do without a link that is down.
    """
    world = World(cluster, execution or runtime("tensorflow"), catalogue, coefficients or packaged_coefficients())
    clock = _Clock(progress)
    clock.begin("devices")
    units = make_units(chain, options.max_units, options.stages)
    tables = Tables(chain, units, world, options.precision)
    judge = Judge(chain, world)
    standings = Standings(judge, options)
    spaces = _spaces(tables, standings)
    exact = len(units) - 1 == len(chain.blocks) or bool(options.stages)
    for space in spaces:
        clock.begin("every plan")
        if not search_all(space):
            exact = False
            clock.begin("pipelines")
            search_uniform(space)
            clock.begin("shares")
            search_mixed(space)
            clock.begin("improvement")
            for judged in standings.leaders(_LEADERS):
                improve(space, judged, options.simulations)
    clock.begin("")
    clock.seconds["of which simulation"] = judge.seconds
    return _report(standings, exact, clock)


def _spaces(tables: Tables, standings: Standings) -> list[Space]:
    """One space for each largest set of machines that are joined with each other."""
    topology = standings.judge.world.topology
    pools = make_pools(topology)
    machines, costs = link_costs(topology, pools)
    order = order_machines(machines, costs)
    place = {machine: number for number, machine in enumerate(order)}
    grouping = Grouping(topology)
    spaces: list[Space] = []
    for joined in joined_sets(machines, costs):
        chosen = make_pools(topology, sorted(joined, key=place.__getitem__))
        spaces.append(Space(tables, standings.options, chosen, grouping, standings))
    return spaces


def _report(standings: Standings, exact: bool, clock: _Clock) -> Found:
    options = standings.options
    best = standings.executable if options.executable_only else standings.best
    if best is None:
        raise _nothing_fits(standings)
    left_out: Loser | None = None
    faster = standings.best
    if options.executable_only and faster is not None and faster.plan != best.plan:
        refused = why_not_executable(faster.plan)
        gain = best.seconds / faster.seconds
        what = f"{faster.seconds:.4g} s a step, {gain:.2f} times as fast, cannot run yet: {refused}"
        left_out = Loser(family_of(faster.plan), faster, what)
    return Found(
        plan=best.plan,
        estimate=standings.judge.whole_step(best.plan),
        runners_up=_losers(standings, best),
        left_out=left_out,
        exact=exact,
        simulated=standings.judge.count,
        seconds=clock.seconds,
    )


def _losers(standings: Standings, best: Judged) -> tuple[Loser, ...]:
    options = standings.options
    losers: list[Loser] = []
    for family, judged in standings.families.items():
        if judged.plan == best.plan:
            continue
        refused = why_not_executable(judged.plan) if options.executable_only else ""
        losers.append(Loser(family, judged, why_it_lost(judged, best.seconds, refused)))
    return tuple(sorted(losers, key=_rank))


def _rank(loser: Loser) -> tuple[bool, float, str]:
    judged = loser.judged
    return (not judged.fits, judged.seconds if judged.fits else judged.shortage, loser.family.name)


def _nothing_fits(standings: Standings) -> PlanError | ClusterError:
    """The error for a model that fits nowhere: the smallest memory found, and what would make it fit."""
    options = standings.options
    candidates = [judged for judged in standings.families.values()]
    if options.executable_only:
        candidates = [judged for judged in candidates if standings.can_run(judged.plan)]
    if not candidates:
        if standings.broken_link is not None:
            return standings.broken_link
        down = [link for link in standings.judge.world.cluster.links if link.down]
        if down:
            joined = " and ".join(down[0].hosts)
            where = f"between {joined}" if len(down[0].hosts) > 1 else f"inside {joined}"
            return ClusterError(
                f"the {down[0].kind} link {where} is down, and no plan can do without it",
                fix="repair it, or leave what it joins out of the cluster file",
            )
        return PlanError(
            f"no plan for a batch of {options.global_batch} on these devices",
            fix="give another batch, or fewer stages or replicas",
        )
    nearest = min(candidates, key=lambda judged: judged.shortage)
    device = nearest.tightest
    limit = nearest.estimate.limits[device] or 0
    ways = _ways_to_fit(standings, nearest)
    return PlanError(
        f"the model fits on no plan of these devices: the smallest memory found is {gibibytes(nearest.most_bytes)} on "
        f"{device}, which has {gibibytes(limit)} ({family_of(nearest.plan).name}, {_kinds_of_memory(nearest, device)})",
        fix="; or ".join(ways),
    )


def _ways_to_fit(standings: Standings, nearest: Judged) -> Sequence[str]:
    options = standings.options
    ways = [f"use devices with {gibibytes(nearest.most_bytes)} or more"]
    use = nearest.estimate.memory[nearest.tightest]
    state = use.parameters + use.gradients + use.slots
    if state < use.activations + use.workspace:
        ways.append(f"make the batch smaller than {options.global_batch}, or its micro-batches")
    else:
        ways.append("use more devices, so that each holds fewer layers" if not options.stages else "cut more stages")
    fitting = standings.best
    if options.executable_only and fitting is not None:
        refused = why_not_executable(fitting.plan)
        ways.append(f"wait for {refused}, with which it would fit in {gibibytes(fitting.most_bytes)}")
    if options.precision in ("fp32", "tf32"):
        ways.append("compute with 16 bits")
    return ways


def _kinds_of_memory(judged: Judged, device: str) -> str:
    use = judged.estimate.memory[device]
    parts = [(field.name, float(getattr(use, field.name))) for field in dataclasses.fields(use)]
    return ", ".join(f"{name} {gibibytes(size)}" for name, size in parts if size)


class _Clock:
    """Adds up time by phase, and tells of phases as they begin."""

    def __init__(self, progress: Callable[[str], None] | None) -> None:
        self.seconds: dict[str, float] = {}
        self._progress = progress
        self._phase = ""
        self._since = time.perf_counter()

    def begin(self, phase: str) -> None:
        """Ends the phase before and begins another; an empty name begins none."""
        now = time.perf_counter()
        if self._phase:
            self.seconds[self._phase] = self.seconds.get(self._phase, 0.0) + now - self._since
        self._phase, self._since = phase, now
        if phase and self._progress is not None:
            self._progress(phase)
