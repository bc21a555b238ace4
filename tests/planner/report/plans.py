"""Plans written by hand, as if a search had found them, and reports of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tests.cost_model.models import GIB, block, coefficients
from whale.cluster import Cluster, DeviceGroup, Host, Link
from whale.cost_model import Chain, ParallelPlan, Recompute, StagePlan, World
from whale.planner.report import GraphFacts, Measured, PlanReport, make_report
from whale.planner.search.families import Judged, Loser, family_of, why_it_lost, why_not_executable
from whale.planner.search.options import SearchOptions
from whale.planner.search.search import Found
from whale.planner.search.world import Judge

EMBEDDINGS = dataclasses.replace(block(1e10, 60_000_000, 4e5, 4e5), name="embeddings")
LAYER = dataclasses.replace(block(5e10, 12_000_000, 2e7, 4e5), name="layer_1")
LOGITS = dataclasses.replace(block(3e10, 60_000_000, 2e6, 10.0), name="logits")
CHAIN = Chain((EMBEDDINGS, *(LAYER,) * 6, LOGITS))

GRAPH = GraphFacts(
    operations=4321,
    variables=98,
    parameter_bytes=768_000_000,
    notes=("batch size assumed: the script feeds it",),
)

KNOWN = coefficients().replaced(
    {
        "rate/T4/fp32/matmul": 1.0,
        "rate/T4/fp32/convolution": 1.0,
        "memory/T4": 1.0,
        "runtime/tensorflow/context_bytes": 0.9 * GIB,
        "communication/horovod/overlap": 0.3,
    },
    "test",
)


def two_hosts(memory: float = 16) -> Cluster:
    """Four V100 on one host and four T4 on another."""
    groups = (DeviceGroup("GPU", "V100", int(memory * GIB), 4), DeviceGroup("GPU", "T4", 16 * GIB, 4))
    hosts = tuple(
        Host.build(name, (group,), task=task, job="worker")
        for task, (name, group) in enumerate(zip(("fast", "slow"), groups))
    )
    return Cluster(hosts, (Link("network", ("fast", "slow"), 10**9, 0.0),))


def many_hosts(hosts: int) -> Cluster:
    """Hosts of eight V100 on one network."""
    group = DeviceGroup("GPU", "V100", 16 * GIB, 8)
    made = tuple(Host.build(f"host{n}", (group,), task=n, job="worker") for n in range(hosts))
    return Cluster(made, (Link("network", tuple(host.name for host in made), 10**10, 0.0),))


def data(cluster: Cluster, shares: tuple[int, ...] = (), **other: object) -> ParallelPlan:
    """A copy on every device."""
    replicas = tuple((device.name,) for device in cluster.devices)
    return _plan([StagePlan(0, len(CHAIN.blocks), replicas)], shares=shares, **other)


def pipeline(cluster: Cluster, rows: int, replicas: int = 1, parts: int = 1, chunks: int = 1, **other: object):
    """Stages on the cluster's devices in order."""
    names = [device.name for device in cluster.devices]
    placed = [
        tuple(tuple(names[(row * replicas + r) * parts + i] for i in range(parts)) for r in range(replicas))
        for row in range(rows)
    ]
    count = rows * chunks
    edges = [number * len(CHAIN.blocks) // count for number in range(count + 1)]
    stages = [StagePlan(edges[n], edges[n + 1], placed[n % rows]) for n in range(count)]
    return _plan(stages, **other)


def one_device(cluster: Cluster, **other: object) -> ParallelPlan:
    """All on the first device."""
    return _plan([StagePlan(0, len(CHAIN.blocks), ((cluster.devices[0].name,),))], **other)


def _plan(stages: Sequence[StagePlan], **other: object) -> ParallelPlan:
    return ParallelPlan(tuple(stages), **{"global_batch": 64, **other})  # type: ignore[arg-type]


def found(
    cluster: Cluster, plan: ParallelPlan, others: Sequence[ParallelPlan] = (), left_out: ParallelPlan | None = None
) -> Found:
    """What a search would have found, had it looked at these plans alone."""
    judge = Judge(CHAIN, World(cluster, coefficients=KNOWN))
    best = judge.estimate(plan)

    def loser(other: ParallelPlan) -> Loser:
        judged = Judged(other, judge.estimate(other))
        return Loser(family_of(other), judged, why_it_lost(judged, best.step_seconds, why_not_executable(other)))

    phases = {"devices": 0.01, "pipelines": 0.25, "of which simulation": 0.125}
    losers = tuple(loser(other) for other in others)
    return Found(plan, best, losers, loser(left_out) if left_out else None, False, 2 + len(others), phases)


def report(
    cluster: Cluster,
    plan: ParallelPlan,
    others: Sequence[ParallelPlan] = (),
    left_out: ParallelPlan | None = None,
    title: str = "train.py",
    measured: Measured | None = None,
    **other: object,
) -> PlanReport:
    """The report of a plan."""
    options = SearchOptions(plan.global_batch, executable_only=True)
    return make_report(
        found(cluster, plan, others, left_out),
        CHAIN,
        cluster,
        options,
        title=title,
        graph=GRAPH,
        numerics=("exact: equals one device up to rounding",),
        measured=measured,
        coefficients=KNOWN,
        **other,  # type: ignore[arg-type]
    )


def pipeline_report(**other: object) -> PlanReport:
    """Two replicas of three stages on six of eight devices, against what was not chosen."""
    cluster = two_hosts()
    plan = pipeline(cluster, rows=3, replicas=2, micro_batches=8)
    others = (
        data(cluster, (2, 2, 2, 2, 1, 1, 1, 1)),
        pipeline(cluster, rows=2, parts=4, micro_batches=8),
        one_device(cluster),
        one_device(cluster, micro_batches=64, recompute=Recompute.FULL),
    )
    names = ("bottom", "middle", "top")
    return report(cluster, plan, others, left_out=others[1], names=names, **other)  # type: ignore[arg-type]


def data_report(**other: object) -> PlanReport:
    """Eight replicas with unequal shares."""
    cluster = two_hosts()
    return report(cluster, data(cluster, (3, 3, 3, 3, 1, 1, 1, 1), micro_batches=4), **other)  # type: ignore[arg-type]
