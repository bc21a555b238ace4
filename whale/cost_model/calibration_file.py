"""Calibration files: coefficients of the devices at hand, which win over those that ship with Whale."""

from __future__ import annotations

import math
from collections.abc import Iterable

from whale.cost_model.coefficients import Coefficients, packaged_coefficients, read_coefficients
from whale.errors import PlanError, nearest

_RATES = frozenset({"batch_matmul", "memory", "rate"})
"""What times are divided by."""


def merge(coefficients: Coefficients, over: Coefficients) -> Coefficients:
    """Coefficients with others in the places of those of the same names."""
    return Coefficients({**coefficients.values, **over.values})


def read_calibration(path: str) -> Coefficients:
    """Coefficients that a profile, or a person, wrote.

    Raises:
        PlanError: the file is none of coefficients, or a name or value is one that the cost model cannot use.
    """
    found = read_coefficients(path)
    known = {name.split("/")[0] for name in packaged_coefficients().values}
    for name, coefficient in found.values.items():
        first = name.split("/")[0]
        if first not in known:
            raise PlanError(f"{path}: {name!r} is no coefficient of the cost model", fix=nearest(first, known))
        if not math.isfinite(coefficient.value) or coefficient.value < 0 or (first in _RATES and not coefficient.value):
            raise PlanError(f"{path}: {name} cannot be {coefficient.value:g}", fix="run `whale profile` again")
    return found


def calibrated_models(coefficients: Coefficients) -> frozenset[str]:
    """The device models that coefficients are of, by their names."""
    found = (name.split("/") for name in coefficients.values)
    return frozenset(parts[1] for parts in found if len(parts) > 1 and parts[0] in ("rate", "memory"))


def check_models(calibration: Coefficients, models: Iterable[str], path: str) -> None:
    """Refuses a calibration of other devices than those it is to be used for.

    Args:
        calibration: what a file holds.
        models: those of the devices it is used for.
        path: the file, for the message.

    Raises:
        PlanError: it names device models, and none of these is among them.
    """
    measured, wanted = calibrated_models(calibration), frozenset(models)
    if measured and measured.isdisjoint(wanted):
        raise PlanError(
            f"{path}: the calibration is of {', '.join(sorted(measured))}, and the cluster has "
            f"{', '.join(sorted(wanted))}",
            fix="run `whale profile` on a machine with such a device, or leave out --calibration",
        )
