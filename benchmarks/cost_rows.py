"""Measured rows of public tables as cases for the cost model: a model, a plan, a cluster, and what was measured.

A row that cannot be a case is skipped for a named reason. Nothing here depends on what a row measured.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from benchmarks.graphs.chains import chain
from benchmarks.graphs.sizes import Convolutional, Model, Transformer
from whale.cluster import Cluster, DeviceGroup, Host, Link
from whale.cost_model import ParallelPlan, Recompute, StagePlan

Row = Mapping[str, str]

Quantity = Literal[
    "seconds",
    "memory",
    "state bytes",
    "activation bytes",
    "activation ratio",
    "collective",
    "block",
    "flops",
    "out of memory",
]

GIB = 2**30
MIB = 2**20
VOCABULARY = 51200
"""Of GPT where a table does not say."""


@dataclasses.dataclass(frozen=True)
class Skip:
    """A row that is no case, and what kind of row it is."""

    reason: str


@dataclasses.dataclass(frozen=True)
class Setup:
    """What a plan runs on and with."""

    cluster: Cluster
    runtime: str


@dataclasses.dataclass(frozen=True)
class Case:
    """A measurement and all that a prediction of it needs."""

    table: str
    """The table it is from."""
    plan_key: str
    """Equal for rows that measure the same plan."""
    group: str
    """Model and device count: plans of one group compete."""
    quantity: Quantity
    measured: float
    """Seconds, bytes, or a part of 1."""
    setup: Setup
    model: Model | None = None
    plan: ParallelPlan | None = None
    size: float = 0.0
    """Bytes of a collective."""

    @property
    def held_back(self) -> bool:
        """Whether it is kept from the fit: every other plan, by a hash of the plan."""
        return zlib.crc32(self.plan_key.encode()) % 2 == 1


def read_cases(path: Path) -> Iterator[Case | Skip]:
    """The rows of a table."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    columns = set(rows[0]) if rows else set[str]()
    for row in rows:
        if {"metric", "num_gpus", "tp", "pp"} <= columns:
            yield _plan_row(path.name, row)
        elif {"block_fwdbwd_ms", "tp", "micro_batch"} <= columns:
            yield _profile_row(path.name, row)
        elif {"message_bytes", "out_of_place_ns"} <= columns:
            yield _collective_row(path.name, row)
        else:
            yield Skip("table without plans")


# -- models ------------------------------------------------------------------------------------------------------

_OPT = Transformer(24, 1024, 16, 2048, 50304)
_NEO = Transformer(32, 2560, 20, 2048, 50304, head="none")


def _model(row: Row) -> Model | Skip:
    name = row["model"]
    if name.startswith("OPT-350"):
        return _OPT
    if name.startswith("GPT-Neo-2.7"):
        return _NEO
    for title, key in (("ResNet-50", "resnet50"), ("ResNet-101", "resnet101"), ("ResNet-152", "resnet152")):
        if name.startswith(title):
            return Convolutional(key)  # type: ignore[arg-type]
    layers, hidden, heads = (_whole(row[c]) for c in ("layers", "hidden", "heads"))
    if not (layers and hidden) or not (name.startswith(("GPT", "gpt", "megatron", "turing", "BERT"))):
        return Skip(f"model not built: {name.split()[0]}")
    sequence = _whole(row["seq"]) or 1024
    if name.startswith("BERT"):
        head = "span" if "SQuAD" in row["notes"] else "masked words"
        return Transformer(
            layers, hidden, heads or 16, sequence, 30522, head, False, 0.1, 20 if sequence <= 128 else 80
        )
    heads = heads or hidden // 128
    while hidden % heads:
        heads -= 1
    vocabulary = _whole(row["vocab"]) or VOCABULARY
    return Transformer(layers, hidden, heads, sequence, vocabulary)


def _whole(text: str) -> int:
    text = text.replace(",", "").strip()
    return int(text) if text.isdecimal() else 0


# -- clusters ----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Machine:
    """The machines of a table."""

    model: str
    memory: int
    size: int
    """Devices on one."""
    network: float
    """Bytes per second between two, nominal."""


_MACHINES: tuple[tuple[str, _Machine], ...] = (
    ("A100-SXM-80GB", _Machine("A100", 80, 8, 200e9)),
    ("A100-SXM-40GB", _Machine("A100", 40, 8, 200e9)),
    ("A100-40GB", _Machine("A100", 40, 8, 200e9)),
    ("A100-40", _Machine("A100", 40, 4, 12.5e9)),
    ("A100-80", _Machine("A100", 80, 4, 25e9)),
    ("A100", _Machine("A100", 80, 8, 100e9)),
    ("H100", _Machine("H100", 80, 8, 400e9)),
    ("V100-SXM3", _Machine("V100", 32, 16, 100e9)),
    ("V100-SXM2-32GB", _Machine("V100", 32, 8, 50e9)),
    ("V100-SXM2-16GB (DGX-1)", _Machine("V100", 16, 8, 50e9)),
    ("V100-SXM2-16GB", _Machine("V100", 16, 8, 12.5e9)),
    ("V100-16", _Machine("V100", 16, 4, 12.5e9)),
    ("V100", _Machine("V100", 16, 8, 12.5e9)),
    ("GH-96", _Machine("GH200", 96, 4, 100e9)),
    ("P100", _Machine("P100", 16, 8, 12.5e9)),
    ("K80", _Machine("K80", 12, 8, 1.25e9)),
    ("RTX-2080", _Machine("RTX-2080-Ti", 11, 8, 3.125e9)),
    ("RTX-3090", _Machine("RTX-3090", 24, 8, 0.125e9)),
    ("Titan-RTX", _Machine("Titan-RTX", 24, 8, 3.125e9)),
)
"""By the begin of a table's device column; DGX machines have several network adapters."""

_FASTEST_FIRST = ("GH200", "A100", "RTX-3090", "V100", "Titan-RTX", "RTX-2080-Ti")
"""Mixed tables do not say which device has which stage: the faster by peak rate come first."""


def _machine(text: str) -> _Machine | Skip:
    for begin, machine in _MACHINES:
        if text.startswith(begin):
            return machine
    return Skip(f"device unknown: {text.split(';')[0]}")


@functools.lru_cache(maxsize=256)
def _uniform(machine: _Machine, count: int) -> Cluster:
    """So many devices on machines of one kind."""
    hosts: list[Host] = []
    left, task = count, 0
    job = "worker" if count > machine.size else ""
    while left:
        here = min(left, machine.size)
        group = DeviceGroup("GPU", machine.model, machine.memory * GIB, here)
        hosts.append(Host.build(f"host{task}", (group,), task=task, job=job))
        left, task = left - here, task + 1
    links = (Link("network", tuple(h.name for h in hosts), int(machine.network), 0.0),) if len(hosts) > 1 else ()
    return Cluster(tuple(hosts), links)


@functools.lru_cache(maxsize=64)
def _mixed(text: str, per_host: int) -> Cluster | Skip:
    """``RTX-3090x2+Titan-RTXx2`` as hosts of ``per_host`` devices each, the fastest first."""
    kinds: list[tuple[_Machine, int]] = []
    for part in text.split("+"):
        match = re.fullmatch(r"(.+)x([0-9]+)", part)
        machine = _machine(match.group(1)) if match else Skip(f"device unknown: {text}")
        if isinstance(machine, Skip) or match is None:
            return machine if isinstance(machine, Skip) else Skip(f"device unknown: {text}")
        kinds.append((machine, int(match.group(2))))
    kinds.sort(key=lambda kind: _FASTEST_FIRST.index(kind[0].model))
    hosts: list[Host] = []
    speeds: list[float] = []
    for machine, count in kinds:
        for _ in range(count // min(per_host, machine.size)):
            group = DeviceGroup("GPU", machine.model, machine.memory * GIB, min(per_host, machine.size))
            hosts.append(Host.build(f"host{len(hosts)}", (group,), task=len(hosts), job="worker"))
            speeds.append(machine.network)
    links = [
        Link("network", (a.name, b.name), int(min(speeds[i], speeds[j])), 0.0)
        for i, a in enumerate(hosts)
        for j, b in enumerate(hosts)
        if i < j
    ]
    if len({machine.network for machine, _ in kinds}) == 1:
        links = [Link("network", tuple(h.name for h in hosts), int(speeds[0]), 0.0)] if len(hosts) > 1 else []
    return Cluster(tuple(hosts), tuple(links))


# -- plans -------------------------------------------------------------------------------------------------------


def place(blocks: list[tuple[int, int]], tp: int, dp: int, cluster: Cluster, chunks: int = 1) -> tuple[StagePlan, ...]:
    """Stages on the devices in order: devices of a tensor-parallel group are neighbours, then replicas, then stages."""
    names = [device.name for device in cluster.compute_devices]
    rows = len(blocks) // chunks
    stages: list[StagePlan] = []
    for number, (start, stop) in enumerate(blocks):
        base = number % rows * tp * dp
        replicas = tuple(tuple(names[base + r * tp + i] for i in range(tp)) for r in range(dp))
        stages.append(StagePlan(start, stop, replicas))
    return tuple(stages)


@functools.lru_cache(maxsize=128)
def _layers(model: Model) -> tuple[int, int, int]:
    """First block of the repeated layers, how many they are, and the number of all blocks."""
    whole = chain(model, True)
    start, count = max(whole.runs(), key=lambda run: run[1])
    return start, count, len(whole.blocks)


def _even_stages(model: Model, number: int) -> list[tuple[int, int]]:
    """Layers in equal parts; what comes before and after them is with the first and the last."""
    start, count, total = _layers(model)
    cuts = [start + count * i // number for i in range(1, number)]
    bounds = [0, *cuts, total]
    return list(zip(bounds, bounds[1:]))


def _listed_stages(model: Model, layers: list[int]) -> list[tuple[int, int]]:
    """Layers as a table lists them, which counts embedding and head as a layer each."""
    start, count, total = _layers(model)
    places = [0, *(start + i for i in range(count)), start + count]
    bounds, at = [0], 0
    for number in layers[:-1]:
        at += number
        bounds.append(places[at])
    bounds.append(total)
    return list(zip(bounds, bounds[1:]))


_PRECISIONS = {"fp16": "fp16", "float16": "fp16", "mixed": "fp16", "bf16": "bf16", "fp32": "fp32", "tf32": "tf32"}

_RECOMPUTE = {"full": Recompute.FULL, "attn_only": Recompute.SELECTIVE, "none": Recompute.NONE}


def _note(row: Row, name: str) -> str:
    match = re.search(rf"(?:^|;)\s*{name}=([^;]+)", row["notes"])
    return match.group(1).strip() if match else ""


def _runtime(row: Row) -> str:
    """What ran the row, as its source says."""
    source, notes, model = row["source"], row["notes"], row["model"]
    if "Sailor" in source:
        return "deepspeed"
    if "OneFlow (static graph)" in source:
        return "oneflow"
    if "DeepSpeed" in model:
        return "megatron-deepspeed"
    if model.startswith(("GPT", "gpt", "megatron", "turing")):
        return "megatron"
    if "parameter_server" in notes:
        return "parameter-server"
    # NVIDIA's scripts for BERT switch XLA on.
    nvidia_bert = "DeepLearningExamples" in source and model.startswith("BERT")
    compiled = ("XLA" in notes and "no XLA" not in notes) or nvidia_bert
    if "official TF models" in model:
        return "distribute-xla" if compiled else "distribute"
    return "xla" if compiled else "tensorflow"


def _recompute(row: Row) -> Recompute:
    stated = _note(row, "recompute")
    if stated:
        return _RECOMPUTE[stated]
    megatron = row["model"].startswith(("GPT", "gpt"))
    # Every table of GPT runs says or implies activation checkpointing, but those of Sailor and of Megatron Core, which
    # recompute attention alone.
    if "selective" in row["source"] or "Megatron-Core" in row["source"]:
        return Recompute.SELECTIVE
    return Recompute.FULL if megatron and "Sailor" not in row["source"] else Recompute.NONE


_METRICS: Mapping[str, Quantity] = {
    "iteration_time": "seconds",
    "measured_iteration_time": "seconds",
    "training_throughput": "seconds",
    "gpu_memory": "memory",
    "fig1_par_opt_memory": "state bytes",
    "fig1_act_memory": "activation bytes",
    "activation_memory_relative_to_none": "activation ratio",
    "achieved_tflops_per_gpu": "flops",
}

_OUT_OF_MEMORY = re.compile(r"\boom\b|out of memory", re.IGNORECASE)

_UNITS = {"ms": 1e-3, "s": 1.0, "MiB": MIB, "GiB": GIB, "bytes": 1, "%": 0.01, "TFLOP/s": 1e12}


def _plan_row(table: str, row: Row) -> Case | Skip:
    quantity = _METRICS.get(row["metric"])
    if _OUT_OF_MEMORY.search(f"{row['value']} {row['notes']}"):
        quantity = "out of memory"
    if quantity is None:
        return Skip(f"metric: {row['metric']}")
    if quantity == "flops" and ("DLPerf" in row["source"] or "v2 README" in row["source"]):
        return Skip("metric: the same run is there as a time")
    if row["notes"].startswith("real data"):
        return Skip("real data: the input pipeline is measured as well")
    model = _model(row)
    count = _whole(row["num_gpus"])
    if isinstance(model, Skip):
        return model
    if not count or not row["tp"] or not row["pp"]:
        return Skip("no plan")
    tp, pp, dp = int(row["tp"]), int(row["pp"]), int(row["dp"].split("/")[0])
    cluster = _cluster(row["gpu"], count, tp)
    if isinstance(cluster, Skip):
        return cluster
    if tp * pp * dp != count:
        return Skip("tp x pp x dp is not the number of devices")
    batch = _batch(row, dp)
    if batch is None:
        return Skip("no batch size")
    if pp > 1 and not _whole(row["micro_batch"]):
        return Skip("a pipeline without the size of its micro-batches")
    measured = _measured(row, quantity, batch, model)
    if measured is None:
        return Skip(f"unit: {row['unit']}")
    micro = batch[1]
    listed = _note(row, "layers per stage")
    chunks = int(_note(row, "interleave") or 1) if pp > 1 else 1
    blocks = _listed_stages(model, [int(n) for n in listed.split("/")]) if listed else _even_stages(model, pp * chunks)
    if any(start >= stop for start, stop in blocks):
        return Skip("more stages than layers")
    plan = ParallelPlan(
        stages=place(blocks, tp, dp, cluster, chunks),
        global_batch=batch[0],
        micro_batches=micro,
        schedule="interleaved" if chunks > 1 else "one_f_one_b",
        recompute=_recompute(row),
        sequence_parallel=_note(row, "mode").startswith("seq") or "seq-par" in row["source"],
        precision=_PRECISIONS.get(row["precision"], _sailor_precision(cluster)),  # type: ignore[arg-type]
    )
    setup = Setup(cluster, _runtime(row))
    key = f"{row['model']},{row['gpu']},{count},{tp},{pp},{row['dp']},{batch},{row['seq']},{row['precision']},{listed}"
    what = (row[c] for c in ("model", "layers", "hidden", "seq", "precision", "gpu"))
    group = f"{','.join(what)},{count},{setup.runtime}"
    return Case(table, key, group, quantity, measured, setup, model, plan)


def _sailor_precision(cluster: Cluster) -> str:
    """PyTorch's default: 32 bits, in TF32 where there is that."""
    ampere = all(d.model in ("A100", "GH200", "H100", "RTX-3090") for d in cluster.compute_devices)
    return "tf32" if ampere else "fp32"


def _cluster(gpu: str, count: int, tp: int) -> Cluster | Skip:
    if "+" in gpu:
        return _mixed(gpu, tp)
    machine = _machine(gpu)
    return machine if isinstance(machine, Skip) else _uniform(machine, count)


def _batch(row: Row, dp: int) -> tuple[int, int] | None:
    """Samples of a step, and micro-batches."""
    whole, each, micro = _whole(row["global_batch"]), _whole(row["per_gpu_batch"]), _whole(row["micro_batch"])
    if not whole and not each:
        return None
    whole = whole or each * dp
    size = micro or each or whole // dp
    return whole, max(1, round(whole / dp / size))


def _measured(row: Row, quantity: Quantity, batch: tuple[int, int], model: Model) -> float | None:
    if quantity == "out of memory":
        return 0.0
    value = float(row["value"])
    if row["metric"] == "training_throughput":
        return batch[0] / value
    scale = _UNITS.get(row["unit"])
    if scale is None:
        return None
    if quantity != "flops":
        return value * scale
    if not isinstance(model, Transformer):
        return None
    return model_flops(model, batch[0], row["source"]) / (value * scale * _whole(row["num_gpus"]))


def model_flops(model: Transformer, batch: int, source: str) -> float:
    """FLOPs of a step as the authors of Megatron count them (SC 2021, section 5.1).

    With full recomputation the forward pass counts twice; Megatron Core counts it once.
    """
    passes = 3 if "Core" in source else 4
    layers, h, s = model.layers, model.hidden, model.sequence
    return passes * 24 * batch * s * layers * h * h * (1 + s / (6 * h)) + 6 * batch * s * h * model.vocabulary


def _profile_row(table: str, row: Row) -> Case | Skip:
    """Forward and backward of one layer on tensor-parallel devices."""
    model = {"OPT-350": _OPT, "GPT-Neo-2.7": _NEO}.get(row["model"])
    if model is None:
        return Skip(f"model not built: {row['model']}")
    machine = _machine(row["gpu"])
    if isinstance(machine, Skip):
        return machine
    tp, micro = int(row["tp"]), int(row["micro_batch"])
    cluster = _uniform(machine, max(tp, 1))
    total = _layers(model)[2]
    plan = ParallelPlan(
        stages=place([(0, total)], tp, 1, cluster),
        global_batch=micro,
        precision=_sailor_precision(cluster),  # type: ignore[arg-type]
    )
    key = f"{row['model']},{row['gpu']},{tp},{micro}"
    setup = Setup(cluster, "deepspeed")
    seconds = float(row["block_fwdbwd_ms"]) * 1e-3
    return Case(table, key, f"{row['model']},{row['gpu']},{tp},{micro}", "block", seconds, setup, model, plan)


def _collective_row(table: str, row: Row) -> Case | Skip:
    machine = _machine(row["gpu"])
    if isinstance(machine, Skip):
        return machine
    count, size = int(row["num_gpus_one_node"]), float(row["message_bytes"])
    setup = Setup(_uniform(machine, machine.size), "megatron")
    key = f"{row['gpu']},{count},{row['message_bytes']}"
    seconds = float(row["out_of_place_ns"]) * 1e-9
    return Case(table, key, key, "collective", seconds, setup, size=size, plan=_group_plan(setup.cluster, count))


def _group_plan(cluster: Cluster, count: int) -> ParallelPlan:
    """A plan that names the first devices, for a collective over them."""
    names = tuple(device.name for device in cluster.compute_devices[:count])
    return ParallelPlan(stages=(StagePlan(0, 1, (names,)),), global_batch=1)
