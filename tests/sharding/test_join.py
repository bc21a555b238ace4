"""What is known of a tensor that arrives over several paths."""

from __future__ import annotations

import pytest

from whale.ir import dims as D
from whale.ir.placement import PARTIAL, REPLICATED, Placement, Sharded
from whale.sharding.batches import Batches
from whale.sharding.facts import Fact
from whale.sharding.join import common_dims, join, spans

CUT = Sharded(0, 0)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (CUT, CUT, CUT),
        (REPLICATED, CUT, CUT),
        (CUT, REPLICATED, CUT),
        (CUT, Sharded(1, 0), REPLICATED),
        (PARTIAL, CUT, REPLICATED),
        (PARTIAL, REPLICATED, REPLICATED),
        (PARTIAL, PARTIAL, PARTIAL),
    ],
)
def test_what_differs_is_whole_but_for_wholes_that_can_be_cut(
    one: Placement, other: Placement, expected: Placement
) -> None:
    assert join(one, other) == expected


def test_zeros_are_partial_too() -> None:
    assert join(REPLICATED, PARTIAL, a_zero=True) == PARTIAL
    assert join(PARTIAL, REPLICATED, b_zero=True) == PARTIAL


# -- sizes -----------------------------------------------------------------------------------------------------------


def test_sizes_that_differ_are_open() -> None:
    assert common_dims([(5, 4), (5, 3)], "a") == (5, None)
    assert common_dims([(5, 4), (5,)], "a") is None
    assert common_dims([(5, 4), None], "a") is None


def test_a_size_that_may_be_one_is_named_as_such() -> None:
    known = common_dims([(D.symbol("n0"), 4), (1, 4)], "a")
    assert known is not None
    size = known[0]
    assert size is not None and D.is_either(size)
    assert common_dims([known, (D.symbol("n0"), 4)], "a") == known
    assert common_dims([(1,), (2,)], "a") != common_dims([(1,), (2,)], "b")


def test_a_size_that_may_be_one_does_not_become_another() -> None:
    batches = Batches()
    size = batches.size(batches.add("x", None, 7))
    assert not batches.equate(D.either("a"), size)
    assert not batches.equate(D.symbol("b[0]"), D.either("a"))


# -- whether a whole value can be cut where it meets pieces ----------------------------------------------------------


def opened() -> tuple[Batches, D.Dim]:
    """A batch of open size, and that size."""
    batches = Batches()
    return batches, batches.size(batches.add("x", None, None))


def test_a_branch_must_be_known_to_have_the_samples() -> None:
    batches, size = opened()
    assert spans(batches, Fact(dims=(size, 4)), CUT, carried=False)
    assert not spans(batches, Fact(dims=(D.symbol("a[0]"), 4)), CUT, carried=False)
    assert not spans(batches, Fact(dims=(1, 4)), CUT, carried=False)
    assert not spans(batches, Fact(dims=(7, 4)), CUT, carried=False)
    assert not spans(batches, Fact(dims=None), CUT, carried=False)


def test_what_a_loop_carries_keeps_its_size() -> None:
    batches, size = opened()
    assert spans(batches, Fact(dims=(D.symbol("a[0]"), 4)), CUT, carried=True)
    assert batches.open("a[0]") == size
    assert not spans(batches, Fact(dims=(1, 4)), CUT, carried=True)
    assert not spans(batches, Fact(dims=None), CUT, carried=True)
    assert spans(batches, Fact(dims=(7, 4)), CUT, carried=True)
    assert batches.size(0) == 7
