"""BERT-Large: what Whale adds between the end of the user's graph building and the end of the first step.

The graph has the 24 layers and some 24,000 ops of the real one, for the cost of capture, planning, rewriting and
binding is one of graph size. The hidden size is reduced, for 8 replicas of 335 million parameters with their two Adam
slots are 30 GB. In each process plain TensorFlow takes its first step first, on the graph that Whale then takes its
first step on: excess = Whale's time less plain TensorFlow's, as a share of the time the user's code took to build.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks import measure

BENCHMARK = "BERT-Large first step"
GOALS = {1: 0.25, 8: 2.0}
"""Largest excess over the building time, by replicas."""
REPLICAS = tuple(GOALS)


def run_once(replicas: int, width: int) -> dict[str, Any]:
    """The figures of one fresh process of `benchmarks.bert_step`."""
    command = [sys.executable, "-m", "benchmarks.bert_step", f"--replicas={replicas}", f"--width={width}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def rows(rounds: int, width: int = 64, replicas: Sequence[int] = REPLICAS) -> list[measure.Row]:
    """Building time, first steps, excess by number of replicas, phases and peak memory.

    ``replicas`` of ``[0]`` measures plain TensorFlow alone.
    """
    samples: dict[int, list[dict[str, Any]]] = {count: [] for count in replicas}
    for _ in range(rounds):
        for count in replicas:
            samples[count].append(run_once(count, width))
    every = [figures for count in replicas for figures in samples[count]]
    result = [
        measure.Row(BENCHMARK, "user", "ops in the graph", every[0]["ops"], note=f"24 layers, hidden size {width}"),
        measure.Row(BENCHMARK, "user", "seconds to build the graph", _spread(every, "build_seconds")),
        measure.Row(BENCHMARK, "plain", "seconds, session to first step", _spread(every, "plain", "seconds")),
        measure.Row(BENCHMARK, "plain", "seconds of the second step", _spread(every, "plain", "second_run_seconds")),
        measure.Row(BENCHMARK, "plain", "peak MB", max(f["plain"]["peak_bytes"] for f in every) >> 20),
    ]
    for count in replicas:
        if count:
            result += _whale_rows(count, samples[count])
    return result


def _whale_rows(replicas: int, samples: Sequence[dict[str, Any]]) -> list[measure.Row]:
    case = f"whale, {replicas} replica{'s' if replicas > 1 else ''}"
    excess = [(f["whale"]["seconds"] - f["plain"]["seconds"]) / f["build_seconds"] for f in samples]
    result = [
        measure.Row(BENCHMARK, case, "seconds, session to first step", _spread(samples, "whale", "seconds")),
        measure.Row(BENCHMARK, case, "seconds of the second step", _spread(samples, "whale", "second_run_seconds")),
        measure.Row(BENCHMARK, case, "excess / building time", measure.spread(excess), GOALS.get(replicas)),
        measure.Row(
            BENCHMARK,
            case,
            "peak MB",
            max(f["whale"]["peak_bytes"] for f in samples) >> 20,
            note="of a process that took plain TensorFlow's step before",
        ),
    ]
    return result + [
        measure.Row(BENCHMARK, case, f"seconds of phase {phase}", _spread(samples, "whale", "phases", phase))
        for phase in samples[0]["whale"]["phases"]
    ]


def _spread(samples: Sequence[dict[str, Any]], *path: str) -> measure.Spread:
    """Spread of one figure, found by its keys from the outside in."""
    values: list[float] = []
    for figures in samples:
        value: Any = figures
        for key in path:
            value = value[key]
        values.append(value)
    return measure.spread(values)
