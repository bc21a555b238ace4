"""What is known of a value of whose elements some are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sharding.programs import op
from whale.ir import dims as D
from whale.sharding.facts import Fact
from whale.sharding.parts import evaluate
from whale.sharding.values import array

BATCH = D.symbol("n0")


def known(items: Any) -> Fact:
    value = array(items)
    return Fact(dims=value.shape, value=value)


def partly(items: Any) -> Fact:
    """The fact of a tensor of which the elements that are not None are known."""
    part = np.array(items, dtype=object)
    return Fact(dims=part.shape, part=part)


def unknown(*dims: Any) -> Fact:
    return Fact(dims=dims)


def result(op_type: str, *facts: Fact, **attrs: Any) -> tuple[Any, Any]:
    inputs = [f"in{i}:0" for i in range(len(facts))]
    made = evaluate(op("made", op_type, inputs, dtype="int32", **attrs), facts)
    return tuple(None if value is None else value.tolist() for value in made)


@pytest.mark.parametrize(
    ("made", "part"),
    [
        (("Pack", known(BATCH), unknown(), known(3)), [BATCH, None, 3]),
        (("ConcatV2", known([0]), unknown(1), known(0)), [0, None]),
        (("Sub", partly([BATCH, None]), known([BATCH, 2])), [0, None]),
        (("AddV2", partly([BATCH, None]), known(1)), [D.add(BATCH, 1), None]),
        (("FloorMod", unknown(2), known([1, 4])), [0, None]),
        (("Neg", partly([2, None])), [-2, None]),
        (("Reshape", partly([None, 1]), known([2, 1])), [[None], [1]]),
        (("ExpandDims", partly([None, 1]), known(0)), [[None, 1]]),
        (("Identity", partly([None, 1])), [None, 1]),
    ],
)
def test_elements_that_are_known_stay_known(made: tuple[Any, ...], part: list[Any]) -> None:
    assert result(*made) == (None, part)


def test_a_part_without_unknown_elements_is_a_value() -> None:
    bounds = known([0]), known([1]), known([1])
    assert result("StridedSlice", partly([BATCH, None]), *bounds, shrink_axis_mask=1) == (BATCH, None)
    assert result("GatherV2", partly([None, 5]), known([1]), known(0)) == ([5], None)


@pytest.mark.parametrize(
    "made",
    [
        ("Pack", unknown(), unknown()),
        ("AddV2", unknown(2), known([1, 4])),
        ("StridedSlice", partly([BATCH, None]), known([1]), known([2]), known([1])),
        ("Sub", unknown(BATCH), known(1)),
        ("Prod", partly([2, None]), known([0])),
    ],
)
def test_nothing_is_made_up(made: tuple[Any, ...]) -> None:
    assert result(*made) == (None, None)
