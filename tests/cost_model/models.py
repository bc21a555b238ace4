"""A chain, a cluster and plans written by hand, without TensorFlow."""

from __future__ import annotations

from whale.cluster import Cluster, DeviceGroup, Host, Link
from whale.cost_model import (
    Amount,
    Block,
    Chain,
    Coefficient,
    Coefficients,
    Curve,
    Exchange,
    ParallelPlan,
    Parameter,
    StagePlan,
    Work,
    WorkClass,
)
from whale.ir.program import Phase

GIB = 2**30


def coefficients(**changed: float) -> Coefficients:
    """Round numbers: devices at their peak, nothing lost. Names with ``__`` for ``/``."""
    values = {
        "tensor_seconds": 0.0,
        "wide": 0.0,
        "traffic": 1.0,
        "rate/elementwise": 1.0,
        "fill_seconds": 0.0,
        "rate/V100/fp32/matmul": 1.0,
        "rate/V100/fp32/convolution": 1.0,
        "batch_matmul/fp32": 0.5,
        "memory/V100": 1.0,
        "runtime/tensorflow/dispatch": 0.0,
        "runtime/tensorflow/step": 0.0,
        "runtime/tensorflow/context_bytes": 0.0,
        "communication/horovod/overlap": 0.0,
        "communication/horovod/network": 1.0,
        "collective/nvlink/start": 0.0,
        "collective/nvlink/hop": 0.0,
        "collective/pcie/start": 0.0,
        "collective/pcie/hop": 0.0,
        "collective/network/start": 0.0,
        "collective/network/hop": 0.0,
        "collective/memory/start": 0.0,
        "collective/memory/hop": 0.0,
        "collective/NVLink-2/efficiency": 1.0,
        "collective/PCIe-3.0/efficiency": 1.0,
        "collective/PCIe-3.0/sockets": 1.0,
    }
    values.update({name.replace("__", "/"): value for name, value in changed.items()})
    return Coefficients({name: Coefficient(value, 0, "test") for name, value in values.items()})


def block(flops: float = 1e12, parameters: int = 1000, kept: float = 100.0, output: float = 50.0) -> Block:
    """One product: ``flops`` a sample forward, twice that backward; ``kept`` and ``output`` elements a sample."""
    return Block(
        name="block",
        work=(
            Work(WorkClass.MATMUL, Phase.FORWARD, Curve((0.0, flops)), Curve(), split=True),
            Work(WorkClass.MATMUL, Phase.BACKWARD, Curve((0.0, 2 * flops)), Curve(), split=True),
            Work(WorkClass.MEMORY, Phase.UPDATE, Curve(), Curve((parameters,)), split=True),
        ),
        parameters=(Parameter(parameters, split=True, trainable=True, slots=2),),
        stash=(Amount(Curve((0.0, kept)), split=True),),
        selective_stash=(Amount(Curve((0.0, kept / 2)), split=True),),
        exchanges=(Exchange(Phase.FORWARD, Curve((0.0, output))), Exchange(Phase.BACKWARD, Curve((0.0, output)))),
        output=Curve((0.0, output)),
        workspace=Amount(Curve((0.0, output))),
    )


def chain(count: int = 4, **sizes: float) -> Chain:
    """Equal blocks."""
    return Chain((block(**sizes),) * count)  # type: ignore[arg-type]


def cluster(hosts: int = 1, devices: int = 4, network: float = 10e9, memory: int = 16, down: bool = False) -> Cluster:
    """Hosts of V100."""
    job = "worker" if hosts > 1 else ""
    made = tuple(
        Host.build(f"host{i}", (DeviceGroup("GPU", "V100", memory * GIB, devices),), task=i, job=job)
        for i in range(hosts)
    )
    links = (Link("network", tuple(h.name for h in made), int(network), 0.0, down),) if hosts > 1 else ()
    return Cluster(made, links)


def plan(
    cluster: Cluster, stages: int = 1, replicas: int = 1, parts: int = 1, blocks: int = 4, **other: object
) -> ParallelPlan:
    """Equal stages on the cluster's devices in order."""
    names = [device.name for device in cluster.compute_devices]
    made = []
    for stage in range(stages):
        base = stage * replicas * parts
        groups = tuple(tuple(names[base + r * parts + i] for i in range(parts)) for r in range(replicas))
        made.append(StagePlan(stage * blocks // stages, (stage + 1) * blocks // stages, groups))
    return ParallelPlan(tuple(made), **{"global_batch": 8, **other})  # type: ignore[arg-type]
