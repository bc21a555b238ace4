"""What waits for itself is found: nodes, collectives, loops but for their own turns."""

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


LOOP = {
    "enter": [],
    "merge": ["enter", "next"],
    "switch": ["merge"],
    "body": ["switch"],
    "next": ["body"],
    "exit": ["switch"],
}
FRAME = dict.fromkeys(LOOP, "frame")


def test_a_loop_before_and_one_behind_a_collective_are_right() -> None:
    behind = {f"{name}_2": [f"{i}_2" for i in inputs] for name, inputs in LOOP.items()}
    reads = {**LOOP, **behind, "sum_0": ["exit"], "sum_1": [], "enter_2": ["sum_0"]}
    check_waits(reads, PAIR, {**FRAME, **dict.fromkeys(behind, "frame_2")})


def test_a_loop_that_needs_the_sum_of_what_it_gives_is_found() -> None:
    """The kind of a mean over the batch whose gradient comes out of a loop, in one bucket with the mean."""
    with pytest.raises(VerifyError, match="wait for themselves"):
        check_waits({**LOOP, "sum_0": ["exit"], "sum_1": [], "body": ["switch", "sum_1"]}, PAIR, FRAME)


def test_a_loop_that_waits_for_what_one_of_its_variables_becomes_is_found() -> None:
    """The variable that enters and leaves as it is does not wait for the turns in data, and does all the same."""
    reads = {**LOOP, "enter_too": ["done"], "body": ["switch", "enter_too"], "done": ["exit"]}
    with pytest.raises(VerifyError, match="2 nodes wait for one another: enter, done"):
        check_waits(reads, [], {**FRAME, "enter_too": "frame"})


def test_two_loops_that_wait_for_one_another_are_found() -> None:
    other = {f"{name}_2": [f"{i}_2" for i in inputs] for name, inputs in LOOP.items()}
    reads = {**LOOP, **other, "enter": ["exit_2"], "enter_2": ["exit"]}
    with pytest.raises(VerifyError, match="2 nodes wait for one another: enter, enter_2"):
        check_waits(reads, [], {**FRAME, **dict.fromkeys(other, "frame_2")})


NODES = st.integers(0, 7)


@hypothesis.given(
    st.lists(st.tuples(NODES, NODES), max_size=12),
    st.sets(NODES, min_size=2, max_size=3),
    st.sets(NODES, max_size=3),
)
def test_agrees_with_a_search_for_every_way_back(edges: list[tuple[int, int]], group: set[int], loop: set[int]) -> None:
    """Each node leads to all that are one with it; a way back that leaves the loop, or none, is a fault."""
    loop -= group
    reads: dict[str, list[str]] = {str(n): [] for n in range(8)}
    for reader, waited in edges:
        reads[str(reader)].append(str(waited))
    units = {n: group if n in group else loop if n in loop else {n} for n in range(8)}

    def waited(start: int) -> set[int]:
        """The nodes of other units that a node's unit waits for, and its own where it waits for itself."""
        direct = {w for r, w in edges if r in units[start]}
        return direct - loop if start in loop else direct

    def comes_back(start: int) -> bool:
        stack, seen = list(waited(start)), set[int]()
        while stack:
            node = stack.pop()
            if node not in seen:
                seen.add(node)
                stack.extend(waited(node))
        return not seen.isdisjoint(units[start])

    groups, loops = [[str(n) for n in sorted(group)]], {str(n): "frame" for n in loop}
    if any(comes_back(n) for n in range(8)):
        with pytest.raises(VerifyError):
            check_waits(reads, groups, loops)
    else:
        check_waits(reads, groups, loops)


def test_long_chains_of_loops_need_no_recursion() -> None:
    size = 20_000
    reads = {str(n): [str(n - 1), str(n + 1)] if n % 7 == 1 else [str(n - 1)] for n in range(1, size)}
    loops = {str(n): str(n // 7) for n in range(1, size) if n % 7 in (1, 2)}
    check_waits({**reads, "sum_0": [str(size - 1)], "sum_1": []}, PAIR, loops)
    with pytest.raises(VerifyError):
        check_waits({**reads, "0": [str(size - 1)]}, PAIR, loops)
