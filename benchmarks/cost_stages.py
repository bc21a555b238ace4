"""Stages of the plans in public tables: which blocks, on which devices."""

from __future__ import annotations

import functools

from benchmarks.graphs.chains import chain
from benchmarks.graphs.sizes import Model
from whale.cluster import Cluster
from whale.cost_model import Fusion, StagePlan


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
def layers_of(model: Model) -> tuple[int, int, int]:
    """First block of the repeated layers, how many they are, and the number of all blocks."""
    whole = chain(model, Fusion.HAND)
    start, count = max(whole.runs(), key=lambda run: run[1])
    return start, count, len(whole.blocks)


def even_stages(model: Model, number: int) -> list[tuple[int, int]]:
    """Layers in equal parts; what comes before and after them is with the first and the last."""
    start, count, total = layers_of(model)
    cuts = [start + count * i // number for i in range(1, number)]
    bounds = [0, *cuts, total]
    return list(zip(bounds, bounds[1:]))


def listed_stages(model: Model, layers: list[int]) -> list[tuple[int, int]]:
    """Layers as a table lists them, which counts embedding and head as a layer each."""
    start, count, total = layers_of(model)
    places = [0, *(start + i for i in range(count)), start + count]
    bounds, at = [0], 0
    for number in layers[:-1]:
        at += number
        bounds.append(places[at])
    bounds.append(total)
    return list(zip(bounds, bounds[1:]))
