"""Which sizes of fed values a plan serves."""

from __future__ import annotations

import pytest

from tests.sharding.programs import op
from whale.ir.program import Op, TensorType
from whale.runtime.fed_sizes import FedSizes, fed_sizes
from whale.sharding.order import order
from whale.sharding.propagate import Request, Source, propagate

NAMES = ("x:0", "y:0")

Shapes = tuple[tuple[int, ...], tuple[int, ...]]


def analysed(shapes: Shapes, inputs: tuple[str, str] = NAMES, cut: tuple[str, ...] = NAMES) -> FedSizes:
    """What is taken of the sizes of x and y, of two dims each and of open size, where they meet in a sum."""
    ops: list[Op] = [op("sum", "AddV2", inputs)]
    feeds = {name: TensorType("float32", (None, None)) for name in NAMES}
    given: dict[str, tuple[int, ...]] = dict(zip(NAMES, shapes))
    sources = tuple(Source(name, 0, None, given[name][0]) for name in cut)
    analysis = propagate(Request(order(ops, frozenset(feeds)), feeds, shapes=given), sources)
    return fed_sizes(analysis, NAMES)


@pytest.mark.parametrize(
    ("shapes", "fit"),
    [
        (((8, 3), (8, 3)), True),
        (((9, 4), (9, 4)), True),
        (((1, 3), (1, 3)), True),
        (((9, 3), (8, 3)), False),
        (((8, 3), (1, 3)), False),
        (((1, 3), (8, 3)), False),
        (((8, 3), (8, 4)), False),
        (((8, 3), (8, 1)), False),
    ],
)
def test_what_is_taken_to_be_equal_must_be_so_again(shapes: Shapes, fit: bool) -> None:
    assert analysed(((6, 5), (6, 5))).fit(NAMES, shapes) == fit


def test_a_batch_decides_where_only_one_of_the_two_is_cut() -> None:
    sizes = analysed(((6, 5), (6, 5)), cut=("x:0",))
    assert sizes.fit(NAMES, ((1, 5), (1, 5)))
    assert not sizes.fit(NAMES, ((6, 5), (1, 5)))
    assert not sizes.fit(NAMES, ((6, 5), (5, 5)))


@pytest.mark.parametrize(
    ("shapes", "fit"),
    [
        (((8, 3), (1, 3)), True),
        (((8, 3), (8, 3)), False),
        (((1, 3), (1, 3)), True),
    ],
)
def test_what_was_one_must_be_one_again(shapes: Shapes, fit: bool) -> None:
    sizes = analysed(((6, 5), (1, 5)), cut=("x:0",))
    assert sizes.clash is None
    assert sizes.fit(NAMES, shapes) == fit


def test_what_was_not_one_must_not_become_one() -> None:
    sizes = analysed(((6, 5), (7, 4)), inputs=("x:0", "x:0"), cut=("x:0",))
    assert sizes.fit(NAMES, ((6, 5), (9, 3)))
    assert not sizes.fit(NAMES, ((6, 5), (1, 3)))
    assert not sizes.fit(NAMES, ((6, 1), (9, 3)))


@pytest.mark.parametrize(
    ("shapes", "clashes"),
    [
        (((9, 5), (2, 5)), True),
        (((3, 5), (4, 5)), True),
        (((4, 5), (4, 5)), False),
        (((4, 5), (1, 5)), False),
        (((1, 5), (4, 5)), False),
    ],
)
@pytest.mark.parametrize("cut", [NAMES, NAMES[:1], NAMES[1:]])
def test_sizes_that_do_not_fit_are_told(cut: tuple[str, ...], shapes: Shapes, clashes: bool) -> None:
    assert analysed(((4, 5), (3, 5)), cut=cut).clashes(NAMES, shapes) == clashes


def test_a_dim_that_is_not_cut_may_not_fit() -> None:
    assert analysed(((4, 5), (4, 6))).clashes(NAMES, ((4, 6), (4, 5)))
    assert not analysed(((4, 5), (4, 6))).clashes(NAMES, ((4, 6), (9, 6)))


def test_the_smallest_batch() -> None:
    assert analysed(((6, 5), (6, 5))).smallest(NAMES, ((3, 5), (3, 5))) == 3
    assert analysed(((6, 5), (7, 5)), inputs=("x:0", "x:0")).smallest(NAMES, ((3, 5), (2, 5))) == 2
    assert analysed(((6, 5), (1, 5)), cut=()).smallest(NAMES, ((3, 5), (1, 5))) is None
