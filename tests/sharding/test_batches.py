"""Union of batches, sizes that become one, order of ops, frames of loops."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sharding.programs import op
from whale.ir import dims as D
from whale.sharding.batches import Batches
from whale.sharding.order import order


def test_sizes_are_numbers_where_the_script_fixed_them() -> None:
    batches = Batches()
    fixed, open_ = batches.add("x:0", 5, 5), batches.add("y:0", None, 7)
    assert batches.size(fixed) == 5
    assert batches.size(open_) == D.symbol("n1")


def test_meeting_joins() -> None:
    batches = Batches()
    a, b, c = (batches.add(name, None, 7) for name in "abc")
    assert batches.meet(c, b)
    assert batches.stale
    assert batches.find(c) == batches.find(b) == b
    assert batches.roots() == [a, b]
    assert batches[c].sources == ["b", "c"]
    assert batches.meet(c, a)
    assert batches.roots() == [a]
    assert batches[c].sources == ["a", "b", "c"]


def test_what_is_one_already_makes_nothing_stale() -> None:
    batches = Batches()
    a, b = batches.add("a", None, None), batches.add("b", None, None)
    batches.meet(a, b)
    batches.stale = False
    assert batches.meet(b, a)
    assert not batches.stale


def test_batches_of_different_sizes_do_not_meet() -> None:
    batches = Batches()
    a, b = batches.add("a", None, 7), batches.add("b", None, 5)
    assert not batches.meet(a, b)
    assert batches.roots() == [a, b]
    assert not batches.stale


def test_joining_keeps_the_size_that_is_known() -> None:
    batches = Batches()
    a, b = batches.add("drawn", None, None), batches.add("fed", 5, 5)
    assert batches.meet(a, b)
    assert batches.size(a) == batches.size(b) == 5


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=8))
def test_joined_batches_are_the_components_of_what_met(pairs: list[tuple[int, int]]) -> None:
    batches = Batches()
    group = {batches.add(f"s{i}", None, None): {i} for i in range(6)}
    for a, b in pairs:
        batches.meet(a, b)
        merged = group[a] | group[b]
        group.update({member: merged for member in merged})
    for member, expected in group.items():
        assert batches.find(member) == min(expected)
        assert sorted(batches[member].sources) == [f"s{i}" for i in sorted(expected)]
    assert batches.roots() == sorted({min(members) for members in group.values()})


def test_an_open_size_that_meets_a_batch_becomes_it() -> None:
    batches = Batches()
    a = batches.add("a", None, None)
    assert batches.equate(batches.open("op:0[0]"), batches.size(a))
    assert batches.stale
    assert batches.open("op:0[0]") == batches.size(a)


def test_open_sizes_that_meet_are_one() -> None:
    batches = Batches()
    a = batches.add("a", None, None)
    assert batches.equate(batches.open("p:0[0]"), batches.open("q:0[1]"))
    assert batches.open("p:0[0]") == batches.open("q:0[1]")
    assert batches.equate(batches.open("p:0[0]"), batches.size(a))
    assert batches.open("p:0[0]") == batches.open("q:0[1]") == batches.size(a)
    assert batches.equate(batches.open("q:0[1]"), batches.open("p:0[0]"))


def test_numbers_are_not_renamed() -> None:
    batches = Batches()
    a = batches.add("a", None, None)
    assert not batches.equate(4, batches.size(a))
    assert not batches.equate(batches.open("op:0[0]"), 4)
    assert batches.size(a) == D.symbol("n0")


def test_an_open_batch_takes_a_size_that_the_script_wrote() -> None:
    batches = Batches()
    drawn, other = batches.add("drawn", None, None), batches.add("other", None, 7)
    batches.fix(drawn, 5)
    batches.fix(other, 5)
    assert (batches.size(drawn), batches.size(other)) == (5, D.symbol("n1"))
    assert batches.pinned == {drawn}


def test_pinning_is_remembered_for_open_batches_only() -> None:
    batches = Batches()
    fixed, fed, drawn = batches.add("x", 5, 5), batches.add("y", None, 7), batches.add("z", None, None)
    assert (batches.pin(fixed), batches.pin(fed), batches.pin(drawn)) == (5, 7, None)
    assert batches.pinned == {fed}


def test_every_op_comes_after_its_inputs_and_controls() -> None:
    ops = [op("c", "Add", ["a:0", "b:0"]), op("b", "Neg", ["a:0"], controls=["d"]), op("a", "Const"), op("d", "NoOp")]
    names = [o.name for o in order(ops, frozenset()).ops]
    assert sorted(names) == ["a", "b", "c", "d"]
    assert names.index("a") < names.index("b") < names.index("c")
    assert names.index("d") < names.index("b")


def test_what_is_fed_has_no_producer() -> None:
    ops = [op("late", "Neg", ["fed:0"]), op("fed", "Identity", ["late:0"])]
    names = [o.name for o in order(ops, frozenset({"fed:0"})).ops]
    assert names == ["late", "fed"]


def test_a_loop_is_cut_at_its_back_edge_and_framed() -> None:
    ops = [
        op("start", "Const"),
        op("enter", "Enter", ["start:0"], frame_name="loop"),
        op("merge", "Merge", ["enter:0", "next:0"]),
        op("switch", "Switch", ["merge:0", "cond:0"]),
        op("cond", "LoopCond", ["less:0"]),
        op("less", "Less", ["merge:0", "merge:0"]),
        op("inner", "Enter", ["switch:1"], frame_name="inner"),
        op("leave", "Exit", ["inner:0"]),
        op("next", "NextIteration", ["leave:0"]),
        op("exit", "Exit", ["switch:0"]),
        op("after", "Neg", ["exit:0"]),
    ]
    found = order(ops, frozenset())
    names = [o.name for o in found.ops]
    assert names.index("merge") < names.index("switch") < names.index("next")
    assert found.frame("start") == ()
    assert found.frame("merge") == found.frame("next") == ("loop",)
    assert found.frame("inner") == ("loop", "inner")
    assert found.frame("after") == ()


# -- pieces that may be empty ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "shares", "filled"),
    [(5, (1, 1), True), (2, (1, 1, 1), False), (5, (1, 9), False), (10, (1, 9), True), (None, (1, 1), False)],
)
def test_a_batch_fills_every_piece_or_not(count: int | None, shares: tuple[int, ...], filled: bool) -> None:
    batches = Batches(shares)
    batch = batches.add("x", None, count)
    assert batches.filled(batch) is filled
    assert batches.pinned == ({batch} if filled else set())


# -- numbers of elements -----------------------------------------------------------------------------------------------


def test_a_reshape_to_the_shape_of_another_source_makes_one_batch_of_two() -> None:
    batches = Batches()
    one, other = batches.add("x", None, 7), batches.add("y", None, 7)
    batches.equate_products(D.multiply(batches.size(one), 12), D.multiply(12, batches.size(other)))
    assert batches.find(one) == batches.find(other)


def test_numbers_of_elements_with_several_unknowns_say_nothing() -> None:
    batches = Batches()
    one, other = batches.add("x", None, 7), batches.add("y", None, 7)
    batches.equate_products(D.multiply(batches.size(one), D.symbol("a[1]")), D.multiply(12, batches.size(other)))
    batches.equate_products(D.multiply(batches.size(one), 4), D.multiply(batches.size(other), 8))
    assert batches.find(one) != batches.find(other)


def test_sizes_known_to_differ_do_not_become_one() -> None:
    batches = Batches(known={"x[0]": 4, "y[0]": 3, "z[0]": 4})
    x, y, z = (batches.open(name) for name in ("x[0]", "y[0]", "z[0]"))
    assert not batches.equate(x, y)
    assert batches.equate(x, z)
    assert not batches.equate(z, y)
    assert batches.open("y[0]") == y
    fed = batches.add("w", None, 5)
    assert not batches.equate(batches.size(fed), x)
    assert not batches.equate(3, batches.size(fed))


def test_a_clash_is_between_sizes_of_several() -> None:
    batches = Batches(known={"x[0]": 4, "y[0]": 1})
    x, y = batches.open("x[0]"), batches.open("y[0]")
    assert not batches.must_agree(x, y)
    assert batches.clash is None
    assert batches.must_agree(x, D.symbol("unknown"))
    assert not batches.must_agree(x, 3)
    assert not batches.must_agree(x, 5)
    assert batches.clash == (x, 3)
