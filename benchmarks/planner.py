"""How long plans are searched for, how good they are, and what unequal shares gain.

    python benchmarks/planner.py [times] [shares] [quality]

Without arguments all three: search times of large cases by phase, in seconds of the clock and of the processor; models
on 8 V100 and 8 P100 with equal shares and with those of the planner; small cases against every plan there is.
"""

from __future__ import annotations

import dataclasses
import importlib
import pickle
import resource
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.graphs.chains import cache_directory, chain
from benchmarks.graphs.sizes import Convolutional, Transformer
from whale.cluster import Cluster, DeviceGroup, Host, Link, load
from whale.cost_model import Chain, Estimate, Fusion, ParallelPlan, Recompute, StagePlan, World
from whale.planner.search.options import SearchOptions
from whale.planner.search.search import Found, search
from whale.planner.search.world import Judge

ROOT = Path(__file__).parents[1]

BERT_LARGE = Transformer(24, 1024, 16, 128, 30522, "masked words", causal=False)
GPT_3 = Transformer(96, 12288, 96, 2048, 51200)
RESNET_50 = Convolutional("resnet50")


def cluster(machines: list[tuple[str, int]], bytes_per_second: float) -> Cluster:
    """Machines of eight equal devices on one network."""
    hosts: list[Host] = []
    for model, count in machines:
        for _ in range(count):
            number = len(hosts)
            hosts.append(Host.build(f"host{number}", (DeviceGroup("GPU", model, None, 8),), task=number, job="worker"))
    network = Link("network", tuple(host.name for host in hosts), int(bytes_per_second), 10e-6)
    return Cluster(tuple(hosts), (network,))


def times() -> None:
    """Search times of large cases."""
    cases = {
        "BERT-Large, 32 V100 + 16 P100 + 16 T4": (
            BERT_LARGE,
            cluster([("V100", 4), ("P100-PCIe", 2), ("T4", 2)], 35e9 / 8),
            SearchOptions(1024),
        ),
        "GPT-3 (96 layers), 1,024 A100": (
            GPT_3,
            cluster([("A100", 128)], 100e9),
            SearchOptions(1536, precision="bf16"),
        ),
    }
    for name, (model, devices, options) in cases.items():
        blocks = chain(model, Fusion.NONE)
        began, busy = time.perf_counter(), time.process_time()
        found = search(blocks, devices, options)
        wall, processor = time.perf_counter() - began, time.process_time() - busy
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"{name}: {wall:.1f} s (processor {processor:.1f} s), {peak:.2f} GiB, {found.simulated} plans simulated")
        print("   by phase: " + ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in found.seconds.items()))
        print(f"   {describe(found.plan, found.estimate)}")
        for loser in found.runners_up[:4]:
            print(f"   {loser.family.name}: {loser.reason}")


def describe(plan: ParallelPlan, estimate: Estimate) -> str:
    """A plan on one line."""
    parts = sorted({stage.tensor_parallel for stage in plan.stages})
    return (
        f"{estimate.step_seconds:.4g} s a step: {plan.num_replicas} replicas x {plan.rows} rows x {parts} devices, "
        f"{len(plan.stages)} stages, {plan.micro_batches} micro-batches, {plan.schedule}, "
        f"recomputation {plan.recompute.value}"
    )


def shares() -> None:
    """Equal shares against the planner's, on devices of two speeds."""
    models = (
        ("ResNet-50", chain(RESNET_50, Fusion.NONE), 1024),
        ("GNMT-like LSTM", _recurrent(), 4096),  # here the network between the machines takes half of a step
        ("GNMT-like LSTM", _recurrent(), 8192),
        ("BERT-Large", chain(BERT_LARGE, Fusion.NONE), 1920),
    )
    for memory in (16, 32):
        devices = _two_speeds(memory)
        for name, blocks, batch in models:
            free = SearchOptions(batch, recompute=(Recompute.NONE,), tensor_parallel=1, max_stages=1)
            every = dataclasses.replace(free, replicas=len(devices.compute_devices))
            equal = _equal(blocks, devices, batch)
            print(f"V100 of {memory} GiB, {name}, batch {batch}: equal shares {equal.step_seconds:.4g} s a step")
            for what, options in (("shares on all devices", every), ("free to leave some out", free)):
                found = search(blocks, devices, options)
                plan = found.plan
                given = sorted({round(plan.samples(r) * plan.micro_batches) for r in range(plan.num_replicas)})
                gain = equal.step_seconds / found.estimate.step_seconds
                print(
                    f"   {what}: {found.estimate.step_seconds:.4g} s, {gain:.2f} times as fast; {plan.num_replicas} "
                    f"replicas with {given} samples, {plan.micro_batches} micro-batches"
                )


def _two_speeds(memory: int) -> Cluster:
    """The example of eight V100 and eight P100, with so many GiB on a V100."""
    devices = load(ROOT / "examples" / "clusters" / "v100x8_p100x8.yaml")
    hosts: list[Host] = []
    for task, host in enumerate(devices.hosts):
        sizes = [dataclasses.replace(g, memory_bytes=memory << 30) if g.model == "V100" else g for g in host.groups]
        hosts.append(Host.build(host.name, sizes, address=host.address, task=task, job=devices.job))
    return Cluster(tuple(hosts), devices.links)


def _equal(blocks: Chain, devices: Cluster, batch: int) -> Estimate:
    """The best plan with equal shares on all devices that fits."""
    judge = Judge(blocks, World(devices))
    replicas = tuple((device.name,) for device in devices.compute_devices)
    stage = StagePlan(0, len(blocks.blocks), replicas)
    pieces = [m for m in range(1, batch + 1) if batch % (m * len(replicas)) == 0]
    estimates = [judge.estimate(ParallelPlan((stage,), batch, m)) for m in pieces]
    return min((e for e in estimates if e.fits), key=lambda e: e.step_seconds)


def _recurrent() -> Chain:
    path = cache_directory() / "planner_recurrent.pickle"
    if not path.exists():
        made = importlib.import_module("benchmarks.planner_recurrent").recurrent_chain()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps(made))
    return pickle.loads(path.read_bytes())


def quality() -> None:
    """Small cases against every plan there is."""
    models = importlib.import_module("tests.planner.search.models")
    cases = importlib.import_module("tests.planner.search.test_search")
    for name, (devices, options) in cases.CASES.items():
        world = World(devices, coefficients=models.known())
        best = models.brute_force(cases.UNEVEN, world, options)
        every: Found = search(cases.UNEVEN, devices, options, coefficients=models.known())
        few = dataclasses.replace(options, exhaustive_limit=0)
        structured: Found = search(cases.UNEVEN, devices, few, coefficients=models.known())
        print(
            f"{name}: best of all {best.seconds:.6g} s; search {every.estimate.step_seconds / best.seconds:.6f} of it "
            f"({every.simulated} simulated), structured search {structured.estimate.step_seconds / best.seconds:.6f}"
        )


if __name__ == "__main__":
    for part in sys.argv[1:] or ["times", "shares", "quality"]:
        print(f"== {part}")
        {"times": times, "shares": shares, "quality": quality}[part]()
