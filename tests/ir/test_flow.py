"""Edges, order, frames and reachability."""

from __future__ import annotations

from tests.ir.programs import op, program
from whale.ir.flow import flow
from whale.ir.program import Program


def nested_loops() -> Program:
    """A loop within a loop, each with a constant that hangs in it by a control edge."""
    return program(
        op("zero", "Const"),
        op("enter", "Enter", "zero", frame_name="outer"),
        op("merge", "Merge", "enter", "next", shapes=((), ())),
        op("one", "Const", controls=("merge",)),
        op("inner_enter", "Enter", "merge", frame_name="inner"),
        op("inner_merge", "Merge", "inner_enter", "inner_next", shapes=((), ())),
        op("two", "Const", controls=("inner_merge",)),
        op("inner_add", "Add", "inner_merge", "two"),
        op("inner_next", "NextIteration", "inner_add"),
        op("inner_exit", "Exit", "inner_merge"),
        op("add", "Add", "inner_exit", "one"),
        op("next", "NextIteration", "add"),
        op("exit", "Exit", "merge"),
        op("after", "Relu", "exit"),
    )


def test_frames_of_nested_loops() -> None:
    frames = flow(nested_loops()).frames()
    outer = {"enter", "merge", "one", "add", "next", "exit"}
    inner = {"inner_enter", "inner_merge", "two", "inner_add", "inner_next", "inner_exit"}
    assert {name for name, frame in frames.items() if frame == "outer"} == outer
    assert {name for name, frame in frames.items() if frame == "inner"} == inner


def test_values_are_followed_around_a_loop() -> None:
    edges = flow(nested_loops())
    reach = edges.reach({"after": 1, "two": 2})
    assert reach["one"] == 1 and reach["inner_add"] == 1
    assert reach["two"] == 3
    assert edges.ancestors(["zero"]) == {"zero"}


def test_the_order_keeps_to_data() -> None:
    edges = flow(program(op("c", "Add", "a", "b"), op("a", "Const"), op("b", "Relu", "a")))
    assert [o.name for o in edges.order] == ["a", "b", "c"]
    assert edges.producers["c"] == ("a", "b")
    assert edges.readers["a"] == ("c", "b")


def test_edges_to_nowhere_are_left_out() -> None:
    edges = flow(program(op("a", "Relu", "gone", controls=("lost",))))
    assert edges.producers["a"] == ()
    assert [o.name for o in edges.order] == ["a"]


def test_a_circle_does_not_hang() -> None:
    assert len(flow(program(op("a", "Relu", "b"), op("b", "Relu", "a"))).order) == 2
