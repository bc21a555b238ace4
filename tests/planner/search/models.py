"""Small models and clusters of unequal devices, and every plan of them, written without the search's own parts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tests.cost_model.models import GIB, coefficients
from whale.cluster import Cluster, DeviceGroup, Host, Link
from whale.cost_model import (
    Amount,
    Block,
    Chain,
    Coefficients,
    Curve,
    Exchange,
    ParallelPlan,
    Parameter,
    StagePlan,
    Work,
    WorkClass,
    World,
)
from whale.ir.program import Phase
from whale.planner.search.families import Judged
from whale.planner.search.options import SearchOptions
from whale.planner.search.standings import better
from whale.planner.search.world import Judge

Machine = tuple[tuple[str, int, float], ...]
"""(model, count, memory in GiB) of the devices of one host."""


def known() -> Coefficients:
    """Round numbers for two kinds of devices; a step over a network loses a little."""
    values = {f"rate/{m}/fp32/{k}": 1.0 for m in ("P100", "T4") for k in ("matmul", "convolution")}
    values |= {"memory/P100": 1.0, "memory/T4": 1.0, "communication/horovod/overlap": 0.3}
    return coefficients().replaced(values, "test")


def block(flops: float, parameters: int, kept: float, output: float, fixed: float = 0.0) -> Block:
    """A product: ``flops`` a sample, ``fixed`` a micro-batch; what it keeps and hands on in elements a sample."""
    return Block(
        name="block",
        work=(
            Work(WorkClass.MATMUL, Phase.FORWARD, Curve((fixed, flops)), Curve(), split=True),
            Work(WorkClass.MATMUL, Phase.BACKWARD, Curve((fixed, 2 * flops)), Curve(), split=True),
            Work(WorkClass.MEMORY, Phase.UPDATE, Curve(), Curve((float(parameters),)), split=True),
        ),
        parameters=(Parameter(parameters, split=True, trainable=True, slots=2),),
        stash=(Amount(Curve((0.0, kept)), split=True),),
        selective_stash=(Amount(Curve((0.0, kept / 2)), split=True),),
        exchanges=(Exchange(Phase.FORWARD, Curve((0.0, output))), Exchange(Phase.BACKWARD, Curve((0.0, output)))),
        output=Curve((0.0, output)),
        workspace=Amount(Curve((0.0, output))),
    )


def cluster(*machines: Machine, network: float = 5e9, bus: float = 0.0) -> Cluster:
    """Hosts on one network of so many bytes a second."""
    job = "worker" if len(machines) > 1 else ""
    hosts = tuple(
        Host.build(
            f"host{number}",
            tuple(DeviceGroup("GPU", model, int(memory * GIB), count) for model, count, memory in machine),
            task=number,
            job=job,
        )
        for number, machine in enumerate(machines)
    )
    names = tuple(host.name for host in hosts)
    links = [Link("network", names, int(network), 0.0)] if len(hosts) > 1 else []
    links += [Link("pcie", (name,), int(bus), 0.0) for name in names if bus]
    return Cluster(hosts, tuple(links))


def every_plan(chain: Chain, world: World, options: SearchOptions) -> Iterator[ParallelPlan]:
    """All plans over all ordered choices of devices; nothing is left out for being like another."""
    devices = [d.name for d in world.cluster.compute_devices]
    blocks = len(chain.blocks)
    for rows in range(1, min(blocks, len(devices)) + 1):
        for parts in itertools.product(options.group_sizes(8), repeat=rows):
            for replicas in range(1, len(devices) // sum(parts) + 1):
                for chosen in itertools.permutations(devices, replicas * sum(parts)):
                    placed = _rows(chosen, parts, replicas)
                    if all(_is_group(world, group) for row in placed for group in row):
                        yield from _plans_on(placed, blocks, options)


def _rows(chosen: tuple[str, ...], parts: tuple[int, ...], replicas: int) -> list[tuple[tuple[str, ...], ...]]:
    found = iter(chosen)
    return [tuple(tuple(next(found) for _ in range(size)) for _ in range(replicas)) for size in parts]


def _is_group(world: World, names: tuple[str, ...]) -> bool:
    devices = [world.topology.device(name) for name in names]
    kinds = {(d.model, d.memory_bytes, world.topology.machine(d)) for d in devices}
    return len(kinds) == 1 and list(names) == sorted(names)


def _plans_on(placed: list[tuple[tuple[str, ...], ...]], blocks: int, options: SearchOptions) -> Iterator[ParallelPlan]:
    rows, replicas = len(placed), len(placed[0])
    tensor = any(len(row[0]) > 1 for row in placed)
    for chunks in range(1, blocks // rows + 1):
        if chunks > 1 and (rows == 1 or "interleaved" not in options.schedules):
            continue
        schedules = [s for s in options.schedules if (s == "interleaved") == (chunks > 1)]
        for inner in itertools.combinations(range(1, blocks), rows * chunks - 1):
            edges = (0, *inner, blocks)
            stages = tuple(
                StagePlan(start, stop, placed[number % rows])
                for number, (start, stop) in enumerate(zip(edges, edges[1:]))
            )
            for pieces, schedule, recompute in itertools.product(options.divisors(), schedules, options.recompute):
                for shares in itertools.product(range(1, options.global_batch // pieces + 1), repeat=replicas):
                    if sum(shares) != options.global_batch // pieces:
                        continue
                    for sequence in (False, True) if tensor and options.sequence_parallel else (False,):
                        yield ParallelPlan(
                            stages,
                            options.global_batch,
                            pieces,
                            shares,
                            schedule,
                            recompute,
                            sequence,
                            options.precision,
                        )


def brute_force(chain: Chain, world: World, options: SearchOptions) -> Judged | None:
    """The best of every plan, each simulated; None where none fits."""
    judge = Judge(chain, world)
    best: Judged | None = None
    for plan in every_plan(chain, world, options):
        judged = Judged(plan, judge.estimate(plan))
        if better(judged, best):
            best = judged
    return best if best is not None and best.fits else None
