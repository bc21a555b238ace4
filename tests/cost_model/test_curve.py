"""Amounts as polynomials in the number of samples."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from whale.cost_model.curve import Curve, curve, from_dim, grows, total
from whale.ir import dims as D

coefficients = st.lists(st.floats(-1e6, 1e6).map(round).map(float), max_size=4)


def test_a_size_becomes_a_curve_over_the_batch() -> None:
    batch, length = D.symbol("n0"), D.symbol("tokens:0[1]")
    size = D.add(D.product((3, batch, batch, length)), 7)
    assert from_dim(size, {"tokens:0[1]": 5}) == Curve((7.0, 0.0, 15.0))
    assert from_dim(size, {}) == Curve((7.0, 0.0, 3.0))
    assert grows(size)
    assert not grows(length)


def test_a_stated_batch_is_a_rate_per_sample() -> None:
    assert from_dim(320, {}, static=32) == Curve((0.0, 10.0))


def test_no_zeros_at_the_end() -> None:
    assert curve([1.0, 0.0, 0.0]) == Curve((1.0,))
    assert curve([0.0]) == Curve()


@given(coefficients, coefficients, st.integers(0, 50))
def test_sums_and_products_are_those_of_the_values(a: list[float], b: list[float], samples: int) -> None:
    one, other = curve(a), curve(b)
    assert total((one, other)).at(samples) == one.at(samples) + other.at(samples)
    assert one.scaled(3.0).at(samples) == 3.0 * one.at(samples)
