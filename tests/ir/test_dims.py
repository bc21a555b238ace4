"""Sizes obey the laws of arithmetic, whatever the symbols stand for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whale.ir import dims as D
from whale.ir.dims import Dim, Poly

NAMES = ("b", "t", "h")

monomials = st.lists(st.sampled_from(NAMES), max_size=3).map(lambda names: tuple(sorted(names)))
integers = st.integers(-6, 6)


@st.composite
def sizes(draw: st.DrawFn) -> Dim:
    """An integer or a polynomial of up to three terms."""
    total: Dim = draw(integers)
    for monomial in draw(st.lists(monomials, max_size=3)):
        total = D.add(total, D.multiply(draw(integers), D.product(D.symbol(name) for name in monomial)))
    return total


values = st.fixed_dictionaries({name: st.integers(0, 9) for name in NAMES})


@given(sizes(), sizes(), sizes())
def test_addition_and_multiplication_form_a_ring(a: Dim, b: Dim, c: Dim) -> None:
    assert D.add(a, b) == D.add(b, a)
    assert D.multiply(a, b) == D.multiply(b, a)
    assert D.add(a, D.add(b, c)) == D.add(D.add(a, b), c)
    assert D.multiply(a, D.multiply(b, c)) == D.multiply(D.multiply(a, b), c)
    assert D.multiply(a, D.add(b, c)) == D.add(D.multiply(a, b), D.multiply(a, c))
    assert D.add(a, 0) == a
    assert D.multiply(a, 1) == a
    assert D.multiply(a, 0) == 0
    assert D.add(a, D.negate(a)) == 0


@given(sizes(), sizes())
def test_a_product_has_no_zero_divisors(a: Dim, b: Dim) -> None:
    assert (D.multiply(a, b) == 0) == (a == 0 or b == 0)


@given(sizes(), sizes(), values)
def test_evaluation_commutes_with_the_operations(a: Dim, b: Dim, numbers: dict[str, int]) -> None:
    left, right = D.evaluate(a, numbers), D.evaluate(b, numbers)
    assert left is not None and right is not None
    assert D.evaluate(D.add(a, b), numbers) == left + right
    assert D.evaluate(D.multiply(a, b), numbers) == left * right
    assert D.evaluate(D.negate(a), numbers) == -left


@given(sizes(), monomials, st.integers(1, 6))
def test_division_by_a_monomial_undoes_multiplication(a: Dim, monomial: tuple[str, ...], scale: int) -> None:
    divisor = D.multiply(scale, D.product(D.symbol(name) for name in monomial))
    assert D.divide(D.multiply(a, divisor), divisor) == a


@given(sizes(), sizes())
def test_a_quotient_is_exact(a: Dim, b: Dim) -> None:
    quotient = D.divide(a, b)
    if quotient is not None:
        assert D.multiply(quotient, b) == a


@given(sizes(), monomials, st.integers(1, 4))
def test_a_polynomial_times_a_monomial_is_divided_by_the_polynomial(
    a: Dim, monomial: tuple[str, ...], scale: int
) -> None:
    factor = D.multiply(scale, D.product(D.symbol(name) for name in monomial))
    if a != 0:
        assert D.divide(D.multiply(a, factor), a) == factor


@given(sizes())
def test_constants_are_plain_integers_and_terms_are_in_order(a: Dim) -> None:
    if isinstance(a, Poly):
        assert list(a.terms) == sorted(a.terms)
        assert all(coefficient for _, coefficient in a.terms)
        assert any(monomial for monomial, _ in a.terms)


@given(sizes(), st.sampled_from(NAMES))
def test_the_degree_of_a_symbol_that_does_not_occur_is_zero(a: Dim, name: str) -> None:
    low, high = D.degree(a, name)
    assert 0 <= low <= high
    assert (high > 0) == (name in D.symbols_of(a))


def test_evaluation_needs_every_symbol() -> None:
    assert D.evaluate(D.multiply(D.symbol("b"), D.symbol("t")), {"b": 3}) is None


@given(sizes(), st.integers(1, 5))
def test_a_floor_division_and_its_rest_make_up_the_size(a: Dim, divisor: int) -> None:
    whole, rest = D.floor_divide(a, divisor), D.modulo(a, divisor)
    assert D.add(D.multiply(whole, divisor), rest) == a
    assert D.divide(D.add(a, D.negate(rest)), divisor) == whole


@given(sizes(), sizes(), st.integers(1, 5))
def test_whole_multiples_leave_a_floor_division(a: Dim, b: Dim, divisor: int) -> None:
    larger = D.add(D.multiply(a, divisor), b)
    assert D.floor_divide(larger, divisor) == D.add(a, D.floor_divide(b, divisor))
    assert D.modulo(larger, divisor) == D.modulo(b, divisor)


@given(st.integers(-20, 20), st.integers(-5, 5))
def test_numbers_are_divided_as_numbers(a: int, b: int) -> None:
    assert D.floor_divide(a, b) == (a // b if b else 0)
    assert D.modulo(a, b) == (a % b if b else 0)


def test_what_is_not_divided_by_a_number_keeps_a_name() -> None:
    b, t = D.symbol("b"), D.symbol("t")
    assert D.floor_divide(D.multiply(b, t), t) == b
    assert D.modulo(D.multiply(b, t), t) == 0
    assert str(D.floor_divide(b, t)) == "floordiv(b,t)"
    assert str(D.modulo(b, t)) == "mod(b,t)"


def test_nothing_is_divided_by_zero() -> None:
    assert D.divide(4, 0) is None
    assert D.divide(D.symbol("b"), 0) is None


def test_a_division_with_a_remainder_is_declined() -> None:
    b = D.symbol("b")
    assert D.divide(7, 2) is None
    assert D.divide(b, 2) is None
    assert D.divide(D.multiply(b, 3), D.symbol("t")) is None
    assert D.divide(D.add(D.multiply(b, b), 1), D.add(b, 1)) is None


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (D.symbol("b"), "b"),
        (D.multiply(2, D.symbol("b")), "2*b"),
        (D.add(D.multiply(D.symbol("b"), D.symbol("a")), 3), "3+a*b"),
        (D.opaque("floordiv", D.symbol("b"), 2), "floordiv(b,2)"),
    ],
)
def test_sizes_print_readably(size: Dim, text: str) -> None:
    assert str(size) == text
