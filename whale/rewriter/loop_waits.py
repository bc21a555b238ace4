"""What waits for micro-batches that go through loops: for which of the loops, where several compute the same again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tensorflow.core.framework import node_def_pb2

from whale.rewriter.loop_checks import Unloopable
from whale.rewriter.node_types import input_types
from whale.sharding.rules.state import on_variable, writes_variable

if TYPE_CHECKING:
    from whale.rewriter.micro_loop import Wrapping


def is_wait_inside(wrapping: Wrapping, text: str) -> bool:
    """Whether an input is a wait for an op of a micro-batch."""
    return text.startswith("^") and text[1:] in wrapping.level and not wrapping.is_mark(text[1:])


def waits_outside(wrapping: Wrapping, bodies: Mapping[int, Sequence[str]]) -> dict[str, list[tuple[int, int]]]:
    """By node in no loop: the loops that it waits for, as copy and number; those before them have ended as well.

    What waits for an op of a micro-batch waits for the last loop with that op that does not come after it. A
    write waits for all such loops of its copy: any of them may compute again with what it overwrites.

    Raises:
        Unloopable: a write must wait for a loop that needs what it has written.
    """
    inside = {number: set(body) for number, body in bodies.items()}
    there = {(wrapping.shadow.origins[name].replica, number) for number, body in bodies.items() for name in body}
    feeds = _feeds(wrapping, bodies)
    found: dict[str, list[tuple[int, int]]] = {}
    for name, node in wrapping.nodes.items():
        if name in wrapping.level:
            continue
        before, writes = feeds.get(name, len(bodies) + 1), writes_variable(node.op)
        last: dict[int, int] = {}
        for other in (text[1:] for text in node.input if is_wait_inside(wrapping, text)):
            copy = wrapping.shadow.origins[other].replica
            within = [number for number, body in inside.items() if other in body]
            again = bool(within) and within[-1] >= before
            if writes and again and (on_variable(wrapping.nodes[other].op) or _is_reference(node)):
                raise Unloopable(f"{node.op} '{wrapping.shadow.origins[name].op}' writes what is read again after it")
            number = max((n for n in within if n < before), default=min(wrapping.level[other], before - 1))
            last[copy] = max(number, last.get(copy, 0))
        if writes:
            last[wrapping.shadow.origins[name].replica] = before - 1
        found[name] = [
            (copy, max(n for n in range(1, number + 1) if (copy, n) in there))
            for copy, number in last.items()
            if any((copy, n) in there for n in range(1, number + 1))
        ]
    return found


def _feeds(wrapping: Wrapping, bodies: Mapping[int, Sequence[str]]) -> dict[str, int]:
    """By node in no loop: the first loop that needs it."""
    found: dict[str, int] = {}
    for number, body in bodies.items():
        stack = [other for name in body for other in wrapping.reads[name]]
        while stack:
            name = stack.pop()
            if name in wrapping.nodes and name not in wrapping.level and name not in found:
                found[name] = number
                stack.extend(wrapping.reads[name])
    return found


def _is_reference(write: node_def_pb2.NodeDef) -> bool:
    """Whether a write of a variable changes the memory that earlier reads of it gave out."""
    return input_types(write)[0][1]
