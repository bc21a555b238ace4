"""Two CPU devices: Whale beside hand-written towers with collectives and beside MirroredStrategy.

All variants train the same model from the same values on the same batches, so their losses must agree; the ways of
doing it are in `benchmarks.variants`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import measure, workers

VARIANTS = ("one", "towers", "mirrored", "whale")
DEVICES = 2
MODELS = ("mlp", "cnn")
STEPS = {"mlp": 2, "cnn": 10}
"""Steps of a block, some seconds on two cores."""
COMPARED_STEPS = 3
LOSS_TOLERANCE = 1e-4
GOAL_RATIO = 1.10


def rows(rounds: int, models: Sequence[str] = MODELS, variants: Sequence[str] = VARIANTS) -> list[measure.Row]:
    """Seconds a step, ratios and counts for each of ``models``; ``variants`` must include ``one``.

    Raises ValueError when a variant's losses are not those of one device: its speed would mean nothing.
    """
    result: list[measure.Row] = []
    for model in models:
        with contextlib.ExitStack() as stack:
            processes = {
                name: stack.enter_context(workers.Worker("benchmarks.variants", [name, model])) for name in variants
            }
            check_losses(model, processes)
            steps = STEPS[model]
            blocks = {name: functools.partial(worker.step_seconds, steps) for name, worker in processes.items()}
            samples = measure.alternate(blocks, rounds)
            facts = {name: worker.facts() for name, worker in processes.items()}
        result += time_rows(f"data parallel, {model}", samples)
        result += count_rows(f"data parallel, {model}", facts)
    return result


def check_losses(model: str, processes: Mapping[str, workers.Worker]) -> None:
    """Compare the losses of the first steps with those of one device."""
    losses = {name: [worker.first_loss, *worker.losses(COMPARED_STEPS)] for name, worker in processes.items()}
    for name, values in losses.items():
        for step, (value, expected) in enumerate(zip(values, losses["one"])):
            if abs(value - expected) > LOSS_TOLERANCE * abs(expected):
                raise ValueError(f"{model}, {name}: loss {value} at step {step}, {expected} on one device")


def time_rows(benchmark: str, samples: Mapping[str, Sequence[float]]) -> list[measure.Row]:
    """Milliseconds of each variant, then ratios: each to one device, and Whale to the faster of the others."""
    spreads = {name: measure.spread([1e3 * seconds for seconds in values]) for name, values in samples.items()}
    result = [measure.Row(benchmark, name, "ms per step", value) for name, value in spreads.items()]
    others = [name for name in samples if name not in ("one", "whale")]
    result += [
        measure.Row(benchmark, name, "time / one device's", measure.ratios(samples[name], samples["one"]))
        for name in samples
        if name != "one"
    ]
    if "whale" in samples and others:
        faster = min(others, key=lambda name: spreads[name].median)
        ratio = measure.ratios(samples["whale"], samples[faster])
        result.append(measure.Row(benchmark, "whale", "time / the faster other's", ratio, GOAL_RATIO, f"to {faster}"))
    return result


def count_rows(benchmark: str, facts: Mapping[str, Mapping[str, Any]]) -> list[measure.Row]:
    """What does not depend on time: bytes that cross devices in a step, in how many pieces, ops, peak memory."""
    # A sum over g devices moves at least 2 (g - 1) times its bytes: to have every device's part, and to hand it back.
    least = 2 * (DEVICES - 1) * facts["one"]["parameter_bytes"]
    result = [measure.Row(benchmark, "gradients", "least bytes per step", least)]
    for name, fact in facts.items():
        pieces = f"{fact['messages']} messages, {fact['reductions']} members of reductions, {fact['ops']} ops"
        result.append(measure.Row(benchmark, name, "bytes moved per step", fact["moved_bytes"], note=pieces))
    result += [measure.Row(benchmark, name, "peak MB", fact["peak_bytes"] >> 20) for name, fact in facts.items()]
    return result
