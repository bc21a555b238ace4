"""Amounts as functions of the batch: polynomials in the number of samples."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping

from whale.ir import dims as D
from whale.ir.dims import Dim

_BATCH = re.compile(r"n[0-9]+")
"""Names of the symbols that the partitioner gives to batches."""


@dataclasses.dataclass(frozen=True)
class Curve:
    """``coefficients[0] + coefficients[1] * n + coefficients[2] * n ** 2 + ...`` for n samples."""

    coefficients: tuple[float, ...] = ()
    """Without zeros at the end; empty for zero."""

    def at(self, samples: float) -> float:
        """The amount for a number of samples."""
        total = 0.0
        for coefficient in reversed(self.coefficients):
            total = total * samples + coefficient
        return total

    def __add__(self, other: Curve) -> Curve:
        longer, shorter = sorted((self.coefficients, other.coefficients), key=len, reverse=True)
        padded = (*shorter, *(0.0,) * (len(longer) - len(shorter)))
        return curve(a + b for a, b in zip(longer, padded))

    def scaled(self, factor: float) -> Curve:
        """The curve times a number."""
        return curve(factor * c for c in self.coefficients)


ZERO = Curve()


def curve(coefficients: Iterable[float]) -> Curve:
    """A curve without zeros at the end."""
    values = list(coefficients)
    while values and not values[-1]:
        values.pop()
    return Curve(tuple(values))


def total(curves: Iterable[Curve]) -> Curve:
    """The sum of curves."""
    result = ZERO
    for item in curves:
        result = result + item
    return result


def from_dim(size: Dim, sizes: Mapping[str, int], static: int | None = None) -> Curve:
    """A size of the graph as a curve.

    Args:
        size: an integer or a polynomial.
        sizes: values of symbols that are no batch; those that are missing count as 1.
        static: for an amount that grows with a batch whose size the script states: that size.
    """
    if isinstance(size, int):
        return curve((0.0, size / static)) if static else curve((float(size),))
    powers: dict[int, float] = {}
    for monomial, coefficient in size.terms:
        power, value = 0, float(coefficient)
        for name in monomial:
            if _BATCH.fullmatch(name):
                power += 1
            else:
                value *= sizes.get(name, 1)
        powers[power] = powers.get(power, 0.0) + value
    return curve(powers.get(power, 0.0) for power in range(max(powers) + 1))


def grows(size: Dim) -> bool:
    """Whether a size depends on a batch."""
    return any(_BATCH.fullmatch(name) for name in D.symbols_of(size))
