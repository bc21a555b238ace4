"""Words of a report that its table and its page share: quantities, names of schedules, a plan in one line."""

from __future__ import annotations

from whale.cost_model import ParallelPlan

SCHEDULES = {
    "gpipe": "GPipe",
    "one_f_one_b": "1F1B",
    "prefer_backward_optimizer": "1F1B with one more forward pass ahead",
    "interleaved": "interleaved 1F1B",
}
"""Schedules by their published names."""

RECOMPUTATIONS = {
    "none": "none",
    "selective": "products of activations",
    "full": "the forward pass of each block",
}
"""What runs again in the backward pass."""


def layout_words(plan: ParallelPlan) -> str:
    """A plan in a few words: ``4 replicas x 3 stages, 16 micro-batches``."""
    parts = sorted({stage.tensor_parallel for stage in plan.stages})
    counts = [counted(plan.num_replicas, "replica")]
    if plan.rows > 1:
        counts.append(f"{plan.rows} stages")
    if plan.rows < len(plan.stages):
        counts.append(f"{len(plan.stages) // plan.rows} chunks")
    if parts[-1] > 1:
        counts.append(f"{' or '.join(str(p) for p in parts)} devices")
    return f"{' x '.join(counts)}, {counted(plan.micro_batches, 'micro-batch', 'micro-batches')}"


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its noun: ``1 stage``, ``1,024 devices``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def seconds_words(seconds: float) -> str:
    """A time to four digits: ``3.129 s``, ``45.20 ms``, ``812.0 us``."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        # What rounds up to the next unit is written in it.
        if seconds >= 0.99995 * size:
            return f"{_digits(seconds / size)} {unit}"
    return f"{_digits(seconds / 1e-6)} us" if seconds else "0 s"


def _digits(number: float) -> str:
    for least, digits in ((999.95, 0), (99.995, 1), (9.9995, 2), (0.9999, 3)):
        if number >= least:
            return f"{number:,.{digits}f}"
    return f"{number:.4g}"


def bytes_words(size: float) -> str:
    """A size in the binary unit that suits it: ``14.21 GiB``, ``512.0 MiB``."""
    for unit, power, digits in (("TiB", 40, 2), ("GiB", 30, 2), ("MiB", 20, 1), ("KiB", 10, 1)):
        if size >= 0.9995 * 2**power:
            return f"{size / 2**power:,.{digits}f} {unit}"
    return f"{size:.0f} B"


def gibibytes_words(size: float) -> str:
    """Gibibytes without the unit, for columns of them; a dash for nothing."""
    return "-" if not size else f"{size / 2**30:.2f}" if size >= 0.005 * 2**30 else "<0.01"


def rate_words(samples_per_second: float) -> str:
    """A speed: ``1,969 samples/s``, ``3.27 samples/s``."""
    digits = 0 if samples_per_second >= 100 else 1 if samples_per_second >= 10 else 3
    return f"{samples_per_second:,.{digits}f} samples/s"


def number_words(number: float) -> str:
    """A number of samples, which may be broken: ``1,024``, ``85.3``."""
    rounded = round(number, 1)
    return f"{rounded:,.0f}" if rounded == int(rounded) else f"{rounded:,.1f}"


def part_words(part: float) -> str:
    """A part of a whole: ``12.5 %``."""
    percent = 100 * part
    return f"{percent:.0f} %" if abs(percent - round(percent)) < 0.05 else f"{percent:.1f} %"


def difference_words(seconds: float, best_seconds: float) -> str:
    """How a step compares with the best one: ``4.1 % slower``, ``2.6 times as long``, ``16 % faster``."""
    ratio = seconds / best_seconds if best_seconds else 1.0
    if ratio >= 2:
        return f"{ratio:.1f} times as long"
    percent = 100 * (ratio - 1)
    if abs(percent) < 0.05:
        return "as fast"
    shown = f"{abs(percent):.1f}" if abs(percent) < 10 else f"{abs(percent):.0f}"
    return f"{shown} % {'slower' if percent > 0 else 'faster'}"


def duration_words(seconds: float) -> str:
    """A long time: ``41.2 s``, ``12 min 30 s``, ``3 h 05 min``, ``4 d 02 h``."""
    if seconds < 60:
        return seconds_words(seconds)
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(seconds / 60)
    if minutes < 48 * 60:
        return f"{minutes // 60:,} h {minutes % 60:02d} min"
    hours = round(seconds / 3600)
    return f"{hours // 24:,} d {hours % 24:02d} h"


def money_words(amount: float) -> str:
    """A price without its currency; what is below a cent is not called nothing."""
    return f"{amount:,.2f}" if amount >= 0.01 or not amount else f"{amount:.2g}"
