"""The sentences of a report: the answer, and why this plan was chosen."""

from __future__ import annotations

from whale.planner.report.ranges import range_words
from whale.planner.report.report import DeviceFacts, OtherPlan, PlanReport
from whale.planner.report.words import (
    bytes_words,
    counted,
    difference_words,
    number_words,
    part_words,
    rate_words,
    seconds_words,
)
from whale.planner.search.families import ONE_DEVICE

GLOSSARY = (
    ("data", "Each replica is a copy of the model and trains on its part of the batch; then gradients are summed."),
    ("pipeline", "The model is cut into stages on devices of their own, which work on different micro-batches."),
    ("operator", "Several devices divide each large product of a stage among them."),
    ("unequal shares", "Faster devices get more samples of the batch, so that all end at the same time."),
    ("micro-batch", "A piece of a replica's samples; gradients of all pieces are added up before the update."),
    ("recomputation", "Part of the forward pass is run again in the backward pass instead of being kept in memory."),
    ("bubble", "The part of a pipeline's time in which its devices wait for each other."),
)
"""Words that a reader may not know, and what they mean."""


def answer(report: PlanReport) -> str:
    """The plan in one sentence."""
    used, every = len(report.used), len(report.devices)
    devices = counted(every, "device") if used == every else f"{used:,} of {counted(every, 'device')}"
    return (
        f"A step of {counted(report.batch, 'sample')} takes {seconds_words(report.prediction.step_seconds)} "
        f"({rate_words(report.prediction.samples_per_second)}): {_copies(report)}, on {devices}."
    )


def _copies(report: PlanReport) -> str:
    """How the model is copied and cut: ``4 copies of the model, each cut into 3 stages``."""
    copies = len(report.replicas)
    parts = sorted({len(stage.devices[0]) for stage in report.stages})
    words = ["one copy of the model" if copies == 1 else f"{copies:,} copies of the model"]
    if len({replica.samples for replica in report.replicas}) > 1:
        words.append("with unequal shares of the batch")
    each = "each " if copies > 1 else ""
    if report.rows > 1:
        words.append(f", {each}cut into {report.rows} stages")
    if parts[-1] > 1:
        sizes = " or ".join(str(size) for size in parts)
        words.append(f", {'' if report.rows > 1 else each}with operators divided over {sizes} devices")
    if report.recomputation != "none":
        words.append(", with recomputation")
    return " ".join(words).replace(" ,", ",")


def reasons(report: PlanReport) -> tuple[str, ...]:
    """Why this plan was chosen, and what to know of it: a sentence each."""
    said = [_against_the_next(report), _against_one_device(report), _left_out(report), _tightest(report)]
    return tuple(sentence for sentence in (*said, _idle(report), certainty(report)) if sentence)


def certainty(report: PlanReport) -> str:
    """What the search promises."""
    if not report.search.simulated:
        return "Nothing was searched: the script, or a plan file, says all of it."
    plans = counted(report.search.simulated, "plan")
    if report.search.exact:
        return f"By the cost model no plan is faster: every one was looked at or ruled out ({plans} simulated)."
    return f"It is the best of {plans} that were simulated; a better one may exist."


def verdict(other: OtherPlan, report: PlanReport) -> str:
    """Why another plan was not chosen, in a few words."""
    if other.step_seconds is None or not other.fits:
        return f"does not fit: {other.reason}"
    difference = difference_words(other.step_seconds, report.prediction.step_seconds)
    if other.refused:
        return f"{difference}, but cannot run yet: {other.refused}"
    # The search prefers a simpler plan to one that is as good as equal.
    return f"{difference}, less simple" if other.step_seconds < report.prediction.step_seconds else difference


def samples_words(report: PlanReport, replicas: tuple[int, ...]) -> str:
    """The part of the batch of some equal replicas."""
    first = report.replicas[replicas[0]]
    each = " each" if len(replicas) > 1 else ""
    return f"{number_words(first.samples)} samples{each}, {part_words(first.part)} of the batch"


def rivals(report: PlanReport) -> tuple[OtherPlan, ...]:
    """The other plans that could have run in its place."""
    return tuple(other for other in report.runners_up if other.fits and not other.refused)


def _against_the_next(report: PlanReport) -> str:
    which = "that can run is" if any(other.refused for other in report.runners_up) else "is"
    for other in rivals(report):
        if other.step_seconds is not None:
            return f"The next best way {which} {other.name}: {verdict(other, report)}."
    if report.runners_up:
        return "Of the ways to divide the model that were looked at, it is the only one that fits and can run."
    return ""


def _against_one_device(report: PlanReport) -> str:
    for other in report.runners_up:
        if other.name == ONE_DEVICE:
            if other.step_seconds is None:
                return f"One device does not hold it: it {other.reason}."
            return f"One device is {difference_words(other.step_seconds, report.prediction.step_seconds)}."
    return ""


def _left_out(report: PlanReport) -> str:
    other = report.left_out
    if other is None or other.step_seconds is None:
        return ""
    difference = difference_words(other.step_seconds, report.prediction.step_seconds)
    step = f"{seconds_words(other.step_seconds)} a step, {difference}"
    return f"A faster plan cannot run yet ({other.refused}): {other.name} with {other.layout}, {step}."


def tightest(report: PlanReport) -> DeviceFacts | None:
    """The device that fills the largest part of its memory; None where no memory is known."""
    full = [(d.memory.total / d.limit_bytes, d) for d in report.used if d.memory is not None and d.limit_bytes]
    return max(full, key=lambda pair: pair[0])[1] if full else None


def _tightest(report: PlanReport) -> str:
    device = tightest(report)
    if device is None or device.memory is None or device.limit_bytes is None:
        return ""
    total, limit = device.memory.total, device.limit_bytes
    name = range_words([device], len({d.host for d in report.devices}))
    return f"The fullest device is {name}: {bytes_words(total)} of {bytes_words(limit)} ({part_words(total / limit)})."


def _idle(report: PlanReport) -> str:
    idle = report.idle
    if not idle:
        return ""
    names = range_words(idle, len({device.host for device in report.devices}))
    return f"{counted(len(idle), 'device stays', 'devices stay')} idle: {names}."
