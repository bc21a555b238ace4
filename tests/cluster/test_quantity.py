"""Sizes, speeds and times as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whale.cluster.quantity import (
    format_bytes,
    format_bytes_per_second,
    format_seconds,
    parse_bytes,
    parse_bytes_per_second,
    parse_seconds,
)
from whale.errors import ClusterError


@pytest.mark.parametrize(("text", "size"), [("16 GiB", 2**34), ("16GB", 16 * 10**9), ("1.5 KiB", 1536), ("7 B", 7)])
def test_bytes(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize(("text", "speed"), [("150 GB/s", 150 * 10**9), ("35 Gb/s", 4_375_000_000), ("8 kb/s", 1000)])
def test_bytes_per_second(text: str, speed: int) -> None:
    assert parse_bytes_per_second(text) == speed


@pytest.mark.parametrize(("text", "seconds"), [("5 us", 5e-6), ("0.5 ms", 5e-4), ("1e-3 s", 1e-3), ("0 s", 0.0)])
def test_seconds(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize(
    ("size", "text"), [(2**34, "16 GiB"), (16 * 10**9, "16 GB"), (3 * 2**29, "1536 MiB"), (7, "7 B"), (0, "0 B")]
)
def test_sizes_are_written_in_the_largest_unit_that_leaves_a_whole_number(size: int, text: str) -> None:
    assert format_bytes(size) == text


def test_times_without_a_whole_number_are_written_in_seconds() -> None:
    assert format_seconds(5e-6) == "5 us"
    assert format_seconds(1.25e-9) == "1.25E-9 s"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("16", "'16' has no unit"),
        ("16 GIB", "known units: B, kB, KiB"),
        ("-1 GiB", "is not a number with a unit"),
        ("nan GiB", "is not a number with a unit"),
        ("0.3 B", "is not a whole number of bytes"),
        ("1e300 GiB", "is out of range"),
        ("1" * 500 + " GiB", "has too many digits"),
    ],
)
def test_other_text_is_refused(text: str, what: str) -> None:
    with pytest.raises(ClusterError, match=what):
        parse_bytes(text)


def test_a_time_out_of_range_is_refused() -> None:
    with pytest.raises(ClusterError, match="is out of range"):
        parse_seconds("1e400 s")


@given(st.integers(0, 2**63 - 1))
def test_whole_numbers_survive_writing(value: int) -> None:
    assert parse_bytes(format_bytes(value)) == value
    assert parse_bytes_per_second(format_bytes_per_second(value)) == value


@given(st.floats(0, allow_infinity=False, allow_nan=False))
def test_times_survive_writing(seconds: float) -> None:
    assert parse_seconds(format_seconds(seconds)) == seconds
