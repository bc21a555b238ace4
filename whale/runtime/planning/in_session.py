"""The plan of a session that leaves its strategy to Whale, made of its graph before the first run."""

from __future__ import annotations

import dataclasses

import tensorflow.compat.v1 as tf

from whale.annotations.variables import complete
from whale.errors import PlanError
from whale.ir.program import Op, Program, reachable
from whale.planner.report.words import difference_words, layout_words, seconds_words
from whale.planner.search.families import why_not_executable
from whale.planner.search.search import Found
from whale.runtime.options import Options
from whale.runtime.planning.decide import Decided, decide
from whale.runtime.planning.training_step import Given, training_step, updates
from whale.runtime.signature import Run, Signature

SAMPLES = 32
"""Of a device's batch, assumed where a script feeds batches whose size its graph leaves open."""

LENGTH = 64
"""Other sizes that the graph leaves open, assumed alike."""


@dataclasses.dataclass(frozen=True)
class Planned:
    """What came of planning a session."""

    decided: Decided | None
    """The plan; None where the session runs as without a planner."""
    lines: tuple[str, ...]
    """What is told of it, or why there is none."""


def plan_session(graph: tf.Graph, program: Program, options: Options, space: str) -> Planned:
    """The plan for a graph.

    Args:
        graph: the user's; not changed.
        program: as it was captured, without phases.
        options: devices and modes.
        space: what is searched, one of ``decide.SPACES``.

    Raises:
        PlanError: no plan fits.
        ClusterError: a device is unknown to the catalogue.
    """
    completed = complete(program, graph)
    targets = updates(completed)
    if not targets:
        return Planned(None, ("not planned: the graph had no training step at its first run",))
    samples = SAMPLES * len(options.cluster.compute_devices)
    given = Given(assumed_batch=samples, assumed_size=LENGTH, assumes_feeds=True)
    try:
        step = training_step(graph, completed, _assumed(completed, targets, samples), options, given)
    except PlanError as error:
        return Planned(None, (f"not planned: {error.what}",))
    if step.is_fixed:
        return Planned(None, ())
    decided = decide(step, options.cluster, space, catalogue=options.catalogue, coefficients=options.coefficients)
    found = decided.found
    line = f"planned: {layout_words(found.plan)}; {seconds_words(found.estimate.step_seconds)} a step predicted"
    left = left_out(found, len(options.cluster.compute_devices))
    return Planned(decided, (line, *filter(None, [left]), *step.notes, *decided.notes))


def left_out(found: Found, devices: int) -> str:
    """Why a plan leaves devices without work; empty when it does not.

    Args:
        found: what a search found.
        devices: how many there are.
    """
    used = len(set(found.plan.devices))
    if used == devices:
        return ""
    said = f"{devices - used} of {devices} devices left out"
    for loser in found.runners_up:
        judged = loser.judged
        if judged.fits and not why_not_executable(judged.plan) and len(set(judged.plan.devices)) > used:
            slower = difference_words(judged.seconds, found.estimate.step_seconds)
            seconds = seconds_words(judged.seconds)
            return f"{said}: {layout_words(judged.plan)} are predicted to take {seconds}, {slower}"
    return f"{said}: no plan on more of them fits and can run"


def _assumed(program: Program, targets: tuple[str, ...], samples: int) -> Run:
    """A run of all updates that feeds every placeholder whose rank is known."""
    fed: dict[str, tuple[int, ...]] = {}
    for op in reachable(program, (), targets, ()):
        shape = op.outputs[0].shape if op.type == "Placeholder" else None
        if shape is not None:
            fed[op.output()] = tuple(_size(op, i, LENGTH if i else samples) for i in range(len(shape)))
    names = tuple(sorted(fed))
    signature = Signature((), targets, names, tuple(len(fed[name]) for name in names))
    return Run(signature, {name: program.tensor(name) for name in names}, {name: fed[name] for name in names})


def _size(op: Op, dim: int, otherwise: int) -> int:
    shape = op.outputs[0].shape
    size = shape[dim] if shape is not None else None
    return otherwise if size is None else size
