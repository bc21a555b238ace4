"""Collectives that wait for themselves are found, and loops are none."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st
import pytest

from whale.errors import VerifyError
from whale.ir.waits import check_waits

PAIR = [("sum_0", "sum_1")]


def test_a_chain_through_a_collective_is_right() -> None:
    check_waits({"sum_0": ["a"], "sum_1": ["b"], "c": ["sum_0"], "d": ["c", "sum_1"]}, PAIR)


def test_what_one_member_waits_for_may_not_come_from_another() -> None:
    with pytest.raises(VerifyError, match=r"wait for themselves:\n  2 nodes wait for one another: .*sum_0"):
        check_waits({"sum_0": ["a"], "sum_1": ["b"], "b": ["sum_0"]}, PAIR)


def test_a_member_that_waits_for_itself_is_found() -> None:
    with pytest.raises(VerifyError, match="1 nodes wait"):
        check_waits({"sum_0": ["sum_1"], "sum_1": []}, PAIR)


def test_two_collectives_that_wait_for_each_other_are_found() -> None:
    reads = {"sum_0": ["other_0"], "other_1": ["sum_1"], "sum_1": [], "other_0": []}
    with pytest.raises(VerifyError, match="2 nodes wait"):
        check_waits(reads, [*PAIR, ("other_0", "other_1")])


LOOP = {"merge": ["enter", "next"], "switch": ["merge"], "body": ["switch"], "next": ["body"], "exit": ["switch"]}


def test_a_loop_before_and_one_behind_a_collective_are_right() -> None:
    behind = {f"{name}_2": [f"{i}_2" for i in inputs] for name, inputs in LOOP.items()}
    check_waits({**LOOP, **behind, "sum_0": ["exit"], "sum_1": [], "enter_2": ["sum_0"]}, PAIR)


def test_a_loop_that_needs_the_sum_of_what_it_gives_is_found() -> None:
    """The kind of a mean over the batch whose gradient comes out of a loop, in one bucket with the mean."""
    with pytest.raises(VerifyError, match="wait for themselves"):
        check_waits({**LOOP, "sum_0": ["exit"], "sum_1": [], "body": ["switch", "sum_1"]}, PAIR)


NODES = st.integers(0, 7)


@hypothesis.given(st.lists(st.tuples(NODES, NODES), max_size=16), st.sets(NODES, min_size=2, max_size=3))
def test_agrees_with_a_search_for_every_way_back(edges: list[tuple[int, int]], group: set[int]) -> None:
    reads: dict[str, list[str]] = {str(n): [] for n in range(8)}
    for reader, waited in edges:
        reads[str(reader)].append(str(waited))
    members = [str(n) for n in sorted(group)]
    stack, seen = [i for name in members for i in reads[name]], set[str]()
    while stack:
        name = stack.pop()
        if name not in seen:
            seen.add(name)
            stack.extend(reads[name])
    if seen.isdisjoint(members):
        check_waits(reads, [members])
    else:
        with pytest.raises(VerifyError):
            check_waits(reads, [members])


def test_long_chains_of_loops_need_no_recursion() -> None:
    size = 20_000
    reads = {str(n): [str(n - 1), str(n + 1)] if n % 7 == 1 else [str(n - 1)] for n in range(1, size)}
    check_waits({**reads, "sum_0": [str(size - 1)], "sum_1": []}, PAIR)
