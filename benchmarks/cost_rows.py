"""Measured rows of public tables as cases for the cost model: a model, a plan, a cluster, and what was measured.

A row that cannot be a case is skipped for a named reason. Nothing here depends on what a row measured.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.cost_cases import Case, Quantity, Setup, Skip
from benchmarks.cost_machines import GIB, cluster_of, find_machine, uniform
from benchmarks.cost_stages import even_stages, layers_of, listed_stages, place
from benchmarks.graphs.sizes import Convolutional, Model, Transformer
from whale.cluster import Cluster
from whale.cost_model import ParallelPlan, Recompute, StagePlan

Row = Mapping[str, str]

MIB = 2**20
VOCABULARY = 51200
"""Of GPT where a table does not say."""


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

_OPT = Transformer(24, 1024, 16, 2048, 50304, tied=False)
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


# -- plans -------------------------------------------------------------------------------------------------------


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
    cluster = cluster_of(row["gpu"], count, tp)
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
    blocks = listed_stages(model, [int(n) for n in listed.split("/")]) if listed else even_stages(model, pp * chunks)
    if any(start >= stop for start, stop in blocks):
        return Skip("more stages than layers")
    plan = ParallelPlan(
        stages=place(blocks, tp, dp, cluster, chunks),
        global_batch=batch[0],
        micro_batches=micro,
        schedule="interleaved" if chunks > 1 else "one_f_one_b",
        recompute=_recompute(row),
        sequence_parallel=_note(row, "mode").startswith("seq") or "seq-par" in row["source"],
        precision=_PRECISIONS.get(row["precision"], "tf32"),  # PyTorch: where there is that
    )
    setup = Setup(cluster, _runtime(row))
    key = f"{row['model']},{row['gpu']},{count},{tp},{pp},{row['dp']},{batch},{row['seq']},{row['precision']},{listed}"
    what = (row[c] for c in ("model", "layers", "hidden", "seq", "precision", "gpu"))
    group = f"{','.join(what)},{count},{setup.runtime}"
    return Case(table, key, group, quantity, measured, setup, model, plan)


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
    machine = find_machine(row["gpu"])
    if isinstance(machine, Skip):
        return machine
    tp, micro = int(row["tp"]), int(row["micro_batch"])
    cluster = uniform(machine, max(tp, 1))
    total = layers_of(model)[2]
    plan = ParallelPlan(
        stages=place([(0, total)], tp, 1, cluster),
        global_batch=micro,
        precision="tf32",
    )
    key = f"{row['model']},{row['gpu']},{tp},{micro}"
    setup = Setup(cluster, "deepspeed")
    seconds = float(row["block_fwdbwd_ms"]) * 1e-3
    return Case(table, key, f"{row['model']},{row['gpu']},{tp},{micro}", "block", seconds, setup, model, plan)


def _collective_row(table: str, row: Row) -> Case | Skip:
    machine = find_machine(row["gpu"])
    if isinstance(machine, Skip):
        return machine
    count, size = int(row["num_gpus_one_node"]), float(row["message_bytes"])
    setup = Setup(uniform(machine, machine.size), "megatron")
    key = f"{row['gpu']},{count},{row['message_bytes']}"
    seconds = float(row["out_of_place_ns"]) * 1e-9
    return Case(table, key, key, "collective", seconds, setup, size=size, plan=_group_plan(setup.cluster, count))


def _group_plan(cluster: Cluster, count: int) -> ParallelPlan:
    """A plan that names the first devices, for a collective over them."""
    names = tuple(device.name for device in cluster.compute_devices[:count])
    return ParallelPlan(stages=(StagePlan(0, 1, (names,)),), global_batch=1)
