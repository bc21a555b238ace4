"""Loops over micro-batches: which nodes are in them, and what waits for which of them."""

from __future__ import annotations

from typing import Any

import pytest
from tensorflow.core.framework import attr_value_pb2, node_def_pb2, types_pb2

from whale.rewriter.loop_checks import Unloopable
from whale.rewriter.micro_loop import Loops, wrap
from whale.rewriter.micro_loop_nodes import SUM
from whale.rewriter.shadow import Origin, Shadow

FLOAT = attr_value_pb2.AttrValue(type=types_pb2.DT_FLOAT)
BOOL = attr_value_pb2.AttrValue(type=types_pb2.DT_BOOL)
DEVICE = "/device:CPU:0"


class Graph:
    """Nodes of one lowering, put into loops."""

    def __init__(self) -> None:
        self.shadow = Shadow()
        self.divided: set[str] = set()

    def add(self, op: str, name: str, inputs: list[str], once: bool = False, **attrs: Any) -> None:
        """A node on floats; one on pieces, unless it is there ``once``."""
        node = node_def_pb2.NodeDef(op=op, name=self.shadow.unique(name), input=inputs, device=DEVICE)
        node.attr["T"].CopyFrom(FLOAT)
        for key, value in attrs.items():
            node.attr[key].CopyFrom(value)
        self.shadow.add(node, Origin(name, 0))
        if not once:
            self.divided.add(name)

    def wrapped(self, asked: tuple[str, ...] = (), conditional: tuple[str, ...] = (), **sent: list[str]) -> Loops:
        """Puts the nodes into loops of three micro-batches."""
        parts = frozenset(self.divided), frozenset(conditional), frozenset(asked)
        return wrap(self.shadow, "index", 3, [DEVICE], "", *parts, sent)

    @property
    def nodes(self) -> dict[str, node_def_pb2.NodeDef]:
        """The nodes by name."""
        return {node.name: node for node in self.shadow.pending}

    def after(self, name: str) -> set[str]:
        """All nodes that a node comes after."""
        found: set[str] = set()
        stack = [name]
        while stack:
            node = self.nodes.get(stack.pop())
            for text in node.input if node is not None else ():
                other = text.lstrip("^").partition(":")[0]
                if other not in found:
                    found.add(other)
                    stack.append(other)
        return found


def of_two_loops() -> Graph:
    """A sum that is read on the way to another: what both need is computed in both loops."""
    graph = Graph()
    graph.add("Cast", "piece", ["index:0"], SrcT=attr_value_pb2.AttrValue(type=types_pb2.DT_INT32), DstT=FLOAT)
    graph.add("Mul", "forward", ["piece:0", "weight/read:0"])
    graph.add(SUM, "first", ["forward:0"])
    graph.add("Sqrt", "root", ["first:0"], once=True)
    graph.add("Mul", "backward", ["forward:0", "root:0"])
    graph.add(SUM, "second", ["backward:0"])
    return graph


def test_a_loop_begins_when_the_one_before_has_ended() -> None:
    graph = of_two_loops()
    graph.nodes["root"].input[0] = "elsewhere:0"  # nothing of the first loop is read: its end is waited for
    graph.add("Identity", "other", ["root:0"], once=True)
    graph.nodes["root"].input.append("^first")
    assert graph.wrapped().count == 2
    assert "replica_0/whale/micro_batches_1/end" in graph.after("second")


@pytest.mark.parametrize(("op", "target"), [("ApplyGradientDescent", "weight:0"), ("AssignSub", "weight:0")])
def test_a_write_waits_for_every_loop_that_computes_with_what_it_overwrites(op: str, target: str) -> None:
    graph = of_two_loops()
    rest = ["rate:0", "first:0"] if op == "ApplyGradientDescent" else ["first:0"]
    graph.add(op, "update", [target, *rest, "^forward"], once=True)
    graph.wrapped()
    assert "replica_0/whale/micro_batches_2/end" in graph.after("update")


def test_a_write_that_a_later_loop_needs_and_must_come_after_is_no_loop() -> None:
    graph = of_two_loops()
    graph.add("AssignSub", "update", ["weight:0", "first:0", "^forward"], once=True)
    graph.nodes["root"].input.append("^update")
    with pytest.raises(Unloopable, match="writes what is read again after it"):
        graph.wrapped()


def test_what_is_there_once_and_written_is_never_in_a_loop() -> None:
    graph = of_two_loops()
    graph.add("AssignSub", "update", ["weight:0", "forward:0"], once=True)
    with pytest.raises(Unloopable, match="reads what each micro-batch has for itself"):
        graph.wrapped()


def test_what_is_asked_for_is_never_in_a_loop() -> None:
    graph = of_two_loops()
    with pytest.raises(Unloopable, match="'forward' reads what each micro-batch has for itself"):
        graph.wrapped(asked=("forward",))


def test_what_reads_a_random_op_comes_after_the_rows_it_is_sent() -> None:
    graph = of_two_loops()
    graph.add("_HostSend", "send", ["first:0"], once=True)
    graph.add("Mul", "drawn", ["piece:0", "random:0"])
    graph.add(SUM, "third", ["drawn:0"])
    graph.wrapped(random=["send"])
    assert "replica_0/whale/micro_batches_1/end" in graph.after("third")


def test_a_merge_in_a_loop_reads_no_enter() -> None:
    graph = of_two_loops()
    graph.add("Switch", "switch", ["forward:0", "predicate:0"])
    graph.add("Merge", "merge", ["switch:1", "outside:0"], N=attr_value_pb2.AttrValue(i=2))
    graph.add(SUM, "third", ["merge:0"])
    graph.wrapped()
    reads = [graph.nodes[text.partition(":")[0]] for text in graph.nodes["merge"].input]
    assert [node.op for node in reads] == ["Switch", "Identity"]
    assert any(text.startswith("^") for text in reads[1].input)  # else the graph optimizer takes it away


def test_what_waits_for_a_branch_in_a_loop_waits_for_what_enters_with_it() -> None:
    graph = of_two_loops()
    graph.add("NoOp", "alive", ["^elsewhere"], once=True)
    graph.nodes["forward"].input.append("^alive")
    graph.wrapped(conditional=("alive",))
    (wait,) = [text[1:] for text in graph.nodes["forward"].input if text.startswith("^")]
    assert graph.nodes[wait].op == "Enter"
    assert "alive" in graph.after(wait)


def test_what_leaves_a_branch_is_carried_whether_it_is_taken_or_not() -> None:
    graph = of_two_loops()
    graph.add("Switch", "switch", ["forward:0", "predicate:0"])
    graph.add("Identity", "taken", ["switch:1"])
    graph.add("Identity", "alive", ["elsewhere:1"], once=True, T=BOOL)
    graph.add("Identity", "absent", ["elsewhere:0"], once=True, T=BOOL)
    graph.add(SUM, "third", ["taken:0", "alive:0", "absent:0"])
    graph.wrapped()
    assert "^alive" in graph.nodes["third"].input
    (carried,) = [node for node in graph.nodes.values() if node.name.endswith("/or_nothing")]
    assert carried.op == "Merge"
    zero = graph.nodes[carried.input[1].partition(":")[0]]
    assert "absent" in graph.after(zero.name)
