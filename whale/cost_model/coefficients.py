"""Fitted numbers: what the model cannot know from data sheets. They ship with the package; see docs/cost-model.md.

Names are paths: ``rate/A100/fp16/matmul`` is the part of the peak rate that large products reach on that device. Where
a device was never fitted, the geometric mean of those that were stands in, and ``Coefficients.guessed`` tells.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import importlib.resources
import io
import math
import os
from collections.abc import Mapping

from whale.errors import PlanError, Site

HEADER = ("name", "value", "rows", "fitted_to")


@dataclasses.dataclass(frozen=True)
class Coefficient:
    """One fitted number."""

    value: float
    rows: int
    """How many measured rows it was fitted to; 0 where it was set, not fitted."""
    fitted_to: str
    """The tables, separated by blanks, or why it was set."""


@dataclasses.dataclass(frozen=True, eq=False)
class Coefficients:
    """All numbers of a model of the world."""

    values: Mapping[str, Coefficient]

    def get(self, *names: str) -> float:
        """The first of some names that there is; a ``*`` part takes the geometric mean over all that fit.

        Raises:
            KeyError: there is none.
        """
        for name in names:
            found = self.values.get(name)
            if found is not None:
                return found.value
            mean = self._mean(name) if "*" in name else None
            if mean is not None:
                return mean
        raise KeyError(names[0])

    def known(self, name: str) -> bool:
        """Whether a number was fitted or set under just this name."""
        return name in self.values

    def replaced(self, values: Mapping[str, float], fitted_to: str, rows: int = 0) -> Coefficients:
        """With other values, for example those of a profile of the devices at hand."""
        changed = {name: Coefficient(value, rows, fitted_to) for name, value in values.items()}
        return Coefficients({**self.values, **changed})

    def _mean(self, pattern: str) -> float | None:
        parts = pattern.split("/")
        logs = [
            math.log(coefficient.value)
            for name, coefficient in self.values.items()
            if _fits(name.split("/"), parts) and coefficient.value > 0
        ]
        return math.exp(sum(logs) / len(logs)) if logs else None


def _fits(name: list[str], pattern: list[str]) -> bool:
    return len(name) == len(pattern) and all(p in ("*", n) for n, p in zip(name, pattern))


def read_coefficients(path: str | os.PathLike[str]) -> Coefficients:
    """Coefficients of a file. Raises PlanError, naming file and line, when it is not one."""
    name = os.fspath(path)
    try:
        with open(name, encoding="utf-8", newline="") as file:
            return _parse(file.read(), name)
    except OSError as error:
        raise PlanError(f"cannot read the coefficients {name!r}: {error.strerror}", fix="correct the path") from None


def write_coefficients(coefficients: Coefficients) -> str:
    """The text of a file that ``read_coefficients`` reads back, to six digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADER)
    for name, c in coefficients.values.items():
        writer.writerow((name, f"{c.value:.6g}", c.rows, c.fitted_to))
    return text.getvalue()


@functools.lru_cache(maxsize=1)
def packaged_coefficients() -> Coefficients:
    """The coefficients that ship with Whale."""
    file = importlib.resources.files("whale.cost_model") / "data" / "coefficients.csv"
    return _parse(file.read_text(encoding="utf-8"), "coefficients.csv")


def _parse(text: str, path: str) -> Coefficients:
    reader = csv.reader(io.StringIO(text))
    if tuple(next(reader, ())) != HEADER:
        raise PlanError("not a file of coefficients", site=Site(path, 1), fix=f"its first line is {','.join(HEADER)}")
    values: dict[str, Coefficient] = {}
    for row in reader:
        try:
            name, value, rows, fitted_to = row
            values[name] = Coefficient(float(value), int(rows), fitted_to)
        except ValueError:
            raise PlanError(f"cannot read {','.join(row)!r}", site=Site(path, reader.line_num)) from None
    return Coefficients(values)
