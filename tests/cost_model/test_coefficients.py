"""The fitted numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from whale.cost_model import Coefficient, Coefficients, packaged_coefficients, read_coefficients
from whale.cost_model.coefficients import write_coefficients
from whale.errors import PlanError

SOME = Coefficients({"a/x/r": Coefficient(2.0, 3, "t.csv"), "a/y/r": Coefficient(8.0, 0, "set")})


def test_the_first_name_that_there_is_counts() -> None:
    assert SOME.get("a/x/r", "a/y/r") == 2.0
    assert SOME.get("b", "a/y/r") == 8.0


def test_a_star_is_the_geometric_mean() -> None:
    assert SOME.get("a/z/r", "a/*/r") == pytest.approx(4.0)


def test_what_is_nowhere_is_an_error() -> None:
    with pytest.raises(KeyError):
        SOME.get("b", "b/*")


def test_a_file_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    path.write_text(write_coefficients(SOME), encoding="utf-8")
    assert read_coefficients(path).values == SOME.values


@pytest.mark.parametrize(
    "text", ["", "a,b\n", "name,value,rows,fitted_to\nx,y,1,t\n", "name,value,rows,fitted_to\nx\n"]
)
def test_a_bad_file_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "c.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PlanError, match=r"c\.csv"):
        read_coefficients(path)


def test_a_profile_overrides() -> None:
    mine = SOME.replaced({"a/x/r": 5.0}, "profile")
    assert mine.get("a/x/r") == 5.0
    assert mine.values["a/x/r"].fitted_to == "profile"
    assert SOME.get("a/x/r") == 2.0


def test_packaged_coefficients_are_possible() -> None:
    values = packaged_coefficients().values
    assert all(c.value > 0 for name, c in values.items() if not name.endswith(("tensor_seconds", "wide", "/overlap")))
    parts = [n for n in values if n.startswith(("rate/", "memory/")) or n.endswith(("/network", "/efficiency"))]
    assert all(values[name].value <= 1 for name in parts)
    assert all(c.fitted_to for c in values.values())
