"""Sizes of tensor dims as integers or polynomials over symbols.

A batch whose size is known only at run time is a symbol; so is every other unknown dim. Shape arithmetic of a script
(``shape(x)[0] * num_heads``) stays exact as long as it adds and multiplies; anything else becomes a new symbol named
after the expression, so that equal expressions stay equal.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Union

Monomial = tuple[str, ...]
"""Symbols multiplied together, sorted, with repetition; the empty tuple is the constant term."""


@dataclasses.dataclass(frozen=True)
class Poly:
    """A polynomial with integer coefficients over named symbols; never constant (constants are plain ints)."""

    terms: tuple[tuple[Monomial, int], ...]
    """(monomial, coefficient) pairs, sorted by monomial, without zero coefficients."""

    def __str__(self) -> str:
        parts: list[str] = []
        for monomial, coefficient in self.terms:
            factors = [str(coefficient)] if coefficient != 1 or not monomial else []
            parts.append("*".join(factors + list(monomial)))
        return "+".join(parts)


Dim = Union[int, Poly]


def symbol(name: str) -> Poly:
    """The polynomial that is one symbol."""
    return Poly((((name,), 1),))


def _terms(value: Dim) -> Mapping[Monomial, int]:
    return dict(value.terms) if isinstance(value, Poly) else ({(): value} if value else {})


def _make(terms: Mapping[Monomial, int]) -> Dim:
    kept = {m: c for m, c in terms.items() if c}
    if not kept:
        return 0
    if set(kept) == {()}:
        return kept[()]
    return Poly(tuple(sorted(kept.items())))


def add(a: Dim, b: Dim) -> Dim:
    """a + b."""
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    total = dict(_terms(a))
    for monomial, coefficient in _terms(b).items():
        total[monomial] = total.get(monomial, 0) + coefficient
    return _make(total)


def multiply(a: Dim, b: Dim) -> Dim:
    """a * b."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    total: dict[Monomial, int] = {}
    for ma, ca in _terms(a).items():
        for mb, cb in _terms(b).items():
            monomial = tuple(sorted(ma + mb))
            total[monomial] = total.get(monomial, 0) + ca * cb
    return _make(total)


def product(dims: Iterable[Dim]) -> Dim:
    """The product of the sizes; 1 for none."""
    result: Dim = 1
    for dim in dims:
        result = multiply(result, dim)
    return result


def total(dims: Iterable[Dim]) -> Dim:
    """The sum of the sizes; 0 for none."""
    result: Dim = 0
    for dim in dims:
        result = add(result, dim)
    return result


def negate(a: Dim) -> Dim:
    """-a."""
    return multiply(a, -1)


def reduced(a: Dim, b: Dim) -> tuple[Dim, Dim]:
    """Two sizes without the factors that are seen to be common to both; neither may be zero."""
    first, second = _terms(a), _terms(b)
    if not first or not second:
        return a, b
    scale = math.gcd(*first.values(), *second.values())
    shared: list[str] = []
    for name in next(iter(first)):
        for monomials in (first, second):
            if any(monomial.count(name) <= shared.count(name) for monomial in monomials):
                break
        else:
            shared.append(name)
    factor: Dim = multiply(scale, product(symbol(name) for name in shared))
    one, other = divide(a, factor), divide(b, factor)
    return (a, b) if one is None or other is None else (one, other)


def divide(a: Dim, b: Dim) -> Dim | None:
    """a / b when the division is exact for every value of the symbols, else None."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b and a % b == 0 else None
    if b == 0:
        return None
    if a == b:
        return 1
    divisor = _terms(b)
    if len(divisor) != 1:
        return _divide_polynomial(a, b)
    ((factor, scale),) = divisor.items()
    result: dict[Monomial, int] = {}
    for monomial, coefficient in _terms(a).items():
        rest = _cancel(monomial, factor)
        if rest is None or coefficient % scale:
            return None
        result[rest] = coefficient // scale
    return _make(result)


def _cancel(monomial: Monomial, factor: Monomial) -> Monomial | None:
    """The symbols of a monomial without those of a factor; None where it lacks one."""
    rest = list(monomial)
    for name in factor:
        if name not in rest:
            return None
        rest.remove(name)
    return tuple(rest)


def _divide_polynomial(a: Dim, b: Dim) -> Dim | None:
    """a / b for a polynomial divisor with several terms: only the case a = b * monomial is found."""
    lead, scale = max(_terms(b).items())
    for monomial, coefficient in _terms(a).items():
        rest = _cancel(monomial, lead)
        if rest is None or coefficient % scale:
            continue
        quotient = _make({rest: coefficient // scale})
        if multiply(quotient, b) == a:
            return quotient
    return None


def floor_divide(a: Dim, b: Dim) -> Dim:
    """The floor of a / b, for any value of the symbols; 0 where b is 0.

    Whole multiples of a number are taken out, so that ``b * floor_divide(a, b) + modulo(a, b)`` is ``a``.
    """
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b else 0
    if not isinstance(b, int) or b < 1:
        exact = divide(a, b)
        return exact if exact is not None else opaque("floordiv", a, b)
    whole = _make({monomial: coefficient // b for monomial, coefficient in _terms(a).items()})
    rest = add(a, multiply(whole, -b))
    return whole if isinstance(rest, int) else add(whole, opaque("floordiv", rest, b))


def modulo(a: Dim, b: Dim) -> Dim:
    """What a floor division of a by b leaves; 0 where b is 0."""
    if isinstance(a, int) and isinstance(b, int):
        return a % b if b else 0
    if isinstance(b, int) and b > 0:
        return add(a, multiply(floor_divide(a, b), -b))
    return 0 if divide(a, b) is not None else opaque("mod", a, b)


def symbols_of(value: Dim) -> frozenset[str]:
    """Names of the symbols in a size."""
    return frozenset(name for monomial in _terms(value) for name in monomial)


def degree(value: Dim, name: str) -> tuple[int, int]:
    """Lowest and highest power of a symbol over the terms of a size; (0, 0) where it does not occur."""
    powers = [monomial.count(name) for monomial in _terms(value)] or [0]
    return min(powers), max(powers)


def evaluate(value: Dim, values: Mapping[str, int]) -> int | None:
    """The size with symbols replaced by numbers; None when one is missing."""
    total = 0
    for monomial, coefficient in _terms(value).items():
        if any(name not in values for name in monomial):
            return None
        total += coefficient * math.prod(values[name] for name in monomial)
    return total


def opaque(operation: str, *operands: Dim) -> Poly:
    """The symbol of an expression that is not a polynomial (a floor division, a maximum, ...)."""
    return symbol(f"{operation}({','.join(str(o) for o in operands)})")


def either(name: str) -> Dim:
    """A size that is one, to be broadcast, or another one: which of them only the run shows."""
    return symbol(f"either({name})")


def is_either(value: Dim) -> bool:
    """Whether a size may or may not be one, to be broadcast."""
    return any(name.startswith("either(") for name in symbols_of(value))


def substitute(value: Dim, sizes: Mapping[str, Dim]) -> Dim:
    """The size with some symbols replaced by sizes."""
    result: Dim = 0
    for monomial, coefficient in _terms(value).items():
        result = add(result, multiply(coefficient, product(sizes.get(n, symbol(n)) for n in monomial)))
    return result
