"""From a profiled script to what its training step took, as the cost model sees it."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping

from whale.cost_model import Chain, Precision
from whale.cost_model.block import Work
from whale.cost_model.calibration import Measured
from whale.errors import PlanError
from whale.runtime.options import Options
from whale.runtime.planning.training_step import Given, training_step
from whale.runtime.profiling.kernels import StepParts, take_apart, work_of
from whale.runtime.profiling.profiling import Profiled


@dataclasses.dataclass(frozen=True)
class MeasuredStep:
    """A training step, measured."""

    measured: Measured
    """For the fit."""
    chain: Chain
    """The same step as a plan has it."""
    parts: StepParts
    """Where its time went, as traced."""
    notes: tuple[str, ...]
    """What the cost model does not see."""


def measured_step(
    profiled: Profiled, options: Options, given: Given, *, precision: Precision = "fp32", title: str = "profile"
) -> MeasuredStep:
    """What a training step took.

    On a CPU, the same threads hand out kernels and compute: what passes between kernels is spread evenly over them, as
    far as the steps without a trace leave room for it.

    Args:
        profiled: the script's steps.
        options: the one device.
        given: sizes that the graph does not say.
        precision: what products compute with.
        title: what the numbers come from.

    Raises:
        PlanError: the step cannot be taken apart, a size is not known, or no op of it ran on the device.
    """
    step = training_step(profiled.graph, profiled.program, profiled.run, options, given)
    work = work_of(step.tensors)
    parts = take_apart(step.program, work, profiled.traces)
    (device,) = options.cluster.compute_devices
    if not parts.kernels:
        raise PlanError(
            f"no op of the training step ran on {device.name}",
            fix="profile on a machine with the devices that the script's tf.device names, or remove them",
        )
    step_seconds = statistics.median(profiled.seconds)
    kernels, dispatch = parts.kernels, min(parts.launch, step_seconds) / len(work)
    if device.kind == "CPU":
        dispatch = parts.handing
        busy = sum(kernel.seconds * kernel.runs for kernel in kernels)
        between = min(parts.between, max(step_seconds - busy, 0.0)) / sum(kernel.runs for kernel in kernels)
        kernels = tuple(dataclasses.replace(kernel, seconds=kernel.seconds + between) for kernel in kernels)
    measured = Measured(options.cluster, precision, step.batch, kernels, step_seconds, dispatch, title)
    return MeasuredStep(measured, step.chain, parts, (*step.notes, *_notes(parts, work)))


def _notes(parts: StepParts, work: Mapping[str, Work]) -> list[str]:
    notes: list[str] = []
    loops = sum(kernel.runs > 1 for kernel in parts.kernels)
    if loops:
        notes.append(f"{loops} ops ran more than once a step: the cost model counts one run of a loop")
    if parts.removed:
        notes.append(
            f"{len(parts.removed)} of {len(work)} ops that the cost model counts did not run: TensorFlow's graph "
            "optimizers removed them, or they ran elsewhere"
        )
    return notes
