"""Bytes, bytes per second and seconds as people write them: ``16 GiB``, ``35 Gb/s``, ``5 us``.

Writing is exact: what a ``format_`` function returns, the ``parse_`` function of the same unit reads back as the
same number.
"""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Mapping
from decimal import Decimal

from whale.errors import ClusterError

_NUMBER_AND_UNIT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,3})?)\s*(\S.*?)?\s*")

# Enough digits for any number below; a longer one is refused rather than rounded.
_EXACT = decimal.Context(prec=400, traps=[decimal.Inexact, decimal.InvalidOperation, decimal.Overflow])

_BYTES = {
    "B": Decimal(1),
    "kB": Decimal(10**3),
    "KiB": Decimal(2**10),
    "MB": Decimal(10**6),
    "MiB": Decimal(2**20),
    "GB": Decimal(10**9),
    "GiB": Decimal(2**30),
    "TB": Decimal(10**12),
    "TiB": Decimal(2**40),
}
_BYTES_PER_SECOND = {
    "B/s": Decimal(1),
    "kb/s": Decimal(125),
    "kB/s": Decimal(10**3),
    "Mb/s": Decimal(125 * 10**3),
    "MB/s": Decimal(10**6),
    "Gb/s": Decimal(125 * 10**6),
    "GB/s": Decimal(10**9),
    "Tb/s": Decimal(125 * 10**9),
    "TB/s": Decimal(10**12),
}
_SECONDS = {"ns": Decimal("1e-9"), "us": Decimal("1e-6"), "ms": Decimal("1e-3"), "s": Decimal(1)}


def parse_bytes(text: str) -> int:
    """A memory size in bytes: ``16 GiB``, ``16384 MiB``, ``16 GB``. Raises ClusterError."""
    return _whole(text, _BYTES, "16 GiB")


def format_bytes(size: int) -> str:
    """A memory size in the largest unit that leaves a whole number."""
    return _largest_unit(Decimal(size), _BYTES)


def parse_bytes_per_second(text: str) -> int:
    """A speed in bytes per second; ``b`` is a bit, ``B`` a byte: ``150 GB/s``, ``35 Gb/s``. Raises ClusterError."""
    return _whole(text, _BYTES_PER_SECOND, "150 GB/s")


def format_bytes_per_second(speed: int) -> str:
    """A link's speed in the largest unit that leaves a whole number."""
    return _largest_unit(Decimal(speed), _BYTES_PER_SECOND)


def parse_seconds(text: str) -> float:
    """A time in seconds: ``5 us``, ``0.5 ms``. Raises ClusterError."""
    seconds = float(_parse(text, _SECONDS, "5 us"))
    if math.isinf(seconds):
        raise ClusterError(f"{text!r} is out of range", fix="write it like '5 us'")
    return seconds


def format_seconds(seconds: float) -> str:
    """A time in the largest unit that leaves a whole number, or in seconds when none does."""
    return _largest_unit(Decimal(repr(seconds)), _SECONDS)


def _parse(text: str, units: Mapping[str, Decimal], example: str) -> Decimal:
    match = _NUMBER_AND_UNIT.fullmatch(text)
    if match is None:
        raise ClusterError(f"{text!r} is not a number with a unit", fix=f"write it like {example!r}")
    number, unit = match.group(1), match.group(2)
    if unit is None:
        raise ClusterError(f"{text!r} has no unit", fix=f"write it like {example!r}")
    if unit not in units:
        raise ClusterError(f"unknown unit {unit!r} in {text!r}", fix=f"known units: {', '.join(units)}")
    try:
        return _EXACT.multiply(_EXACT.create_decimal(number), units[unit])
    except decimal.DecimalException:
        raise ClusterError(f"{text!r} has too many digits", fix=f"write it like {example!r}") from None


def _whole(text: str, units: Mapping[str, Decimal], example: str) -> int:
    value = _parse(text, units, example)
    if value > 2**63 - 1:
        raise ClusterError(f"{text!r} is out of range", fix=f"write it like {example!r}")
    if value != value.to_integral_value():
        raise ClusterError(f"{text!r} is not a whole number of bytes", fix="round it, or use a smaller unit")
    return int(value)


def _largest_unit(value: Decimal, units: Mapping[str, Decimal]) -> str:
    """``value`` in the largest unit that leaves a whole number, else in the unit of size one; ``units`` ascend."""
    base = next(unit for unit, size in units.items() if size == 1)
    if not value:
        return f"0 {base}"
    for unit, size in reversed(list(units.items())):
        # Exact: every size is a product of twos and fives.
        number = _EXACT.divide(value, size)
        if number == number.to_integral_value():
            return f"{int(number)} {unit}"
    return f"{value} {base}"
