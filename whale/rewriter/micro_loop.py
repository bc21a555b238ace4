"""Gradient accumulation as a loop: micro-batches go one after another through one copy of the model per device.

A lowering in this mode makes the nodes of one micro-batch, the *index* of which is an input that no node makes yet.
Where a value leaves the micro-batch (a sum over the batch that is read as a sum, rows that are fetched) it leaves a
*mark*: a node that stands for the sum or the rows of all micro-batches. ``wrap`` then puts everything that depends on
the index into a loop of TensorFlow (Enter, Merge, Switch, NextIteration, Exit; "Dynamic control flow in large-scale
machine learning", Yu et al., EuroSys 2018), with one variable of the loop per mark, one iteration at a time.

What of a micro-batch needs the value of a mark first (a count of labels, the root of a mean) goes into a loop of its
own after the first, with all it reads computed again: the numbers are exact, and no more than one micro-batch's
activations are kept.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence

from tensorflow.core.framework import node_def_pb2

from whale.rewriter.frames import producer
from whale.rewriter.loop_checks import Unloopable
from whale.rewriter.loop_waits import is_wait_inside, waits_outside
from whale.rewriter.micro_loop_nodes import MARKS, Loop
from whale.rewriter.shadow import Shadow
from whale.sharding.order import BACK_EDGES, ENTERS, EXITS, MERGES
from whale.sharding.rules.source import RANDOM
from whale.sharding.rules.state import writes_variable

MOST_LOOPS = 4
"""Loops one after another up to which computing again is thought to be worth it."""


@dataclasses.dataclass(frozen=True)
class Loops:
    """What ``wrap`` made."""

    count: int
    """Number of loops, one after another, of each copy."""
    again: int
    """Nodes that are computed once more in a later loop."""


def wrap(
    shadow: Shadow,
    index: str,
    micro_batches: int,
    devices: Sequence[str],
    prefix: str,
    divided: frozenset[str],
    conditional: frozenset[str],
    asked: frozenset[str],
    sent: Mapping[str, Sequence[str]],
) -> Loops:
    """Puts the collected nodes that depend on the index into loops.

    Args:
        shadow: its pending nodes are those of one lowering.
        index: name of the node that is to hold the number of the micro-batch.
        micro_batches: M, iterations of each loop.
        devices: of the copies; each has loops of its own.
        prefix: of the names of new nodes.
        divided: the user's ops that run once per micro-batch.
        conditional: the nodes that run only where a branch of a conditional is taken.
        asked: the nodes that a run fetches or aims at.
        sent: by op of the script's graph, the nodes that send what it depends on from here.

    Raises:
        Unloopable: a node with state, one that is there once for all micro-batches and reads what each of them has,
            or too many sums that wait for one another; nothing is changed.
    """
    wrapping = Wrapping(shadow, index, micro_batches, devices, prefix, divided, conditional, sent)
    return wrapping.run(asked)


class Wrapping:
    """One call of ``wrap``: which nodes are of a micro-batch, and in which loop."""

    def __init__(
        self,
        shadow: Shadow,
        index: str,
        micro_batches: int,
        devices: Sequence[str],
        prefix: str,
        divided: frozenset[str],
        conditional: frozenset[str],
        sent: Mapping[str, Sequence[str]],
    ) -> None:
        self.shadow = shadow
        self.divided = divided
        self.conditional = conditional
        self.index = index
        self.micro_batches = micro_batches
        self.devices = devices
        self.prefix = prefix
        self.nodes = {node.name: node for node in shadow.pending}
        self.reads = {name: [producer(text) for text in node.input] for name, node in self.nodes.items()}
        for reads in self.reads.values():
            reads.extend([sender for other in reads for sender in sent.get(other, ())])
        self.level: dict[str, int] = {}
        """By node of a micro-batch, marks included: the first loop it can be in, from 1."""
        self.after: dict[str, int] = {}
        """By any other node: the loops that come before it."""

    def run(self, asked: frozenset[str]) -> Loops:
        """Puts the nodes into loops."""
        inside = self._inside()
        for name in inside:
            if writes_variable(self.nodes[name].op) or (name in asked and not self.is_mark(name)):
                raise Unloopable(f"'{self.shadow.origins[name].op}' reads what each micro-batch has for itself")
        self._number(inside)
        loops = max(self.level.values(), default=0)
        if loops > MOST_LOOPS:
            raise Unloopable(f"{loops} sums over the batch wait for one another")
        bodies = {number: self._body(number) for number in range(1, loops + 1)}
        again = self._check_repeated(bodies)
        waits = waits_outside(self, bodies)
        result: list[node_def_pb2.NodeDef] = [node for name, node in self.nodes.items() if name not in self.level]
        ends: dict[tuple[int, int], str] = {}
        taken: set[str] = set()
        for number, body in bodies.items():
            for copy in range(len(self.devices)):
                own = [name for name in body if self.shadow.origins[name].replica == copy]
                before = [ends[copy, earlier] for earlier in range(1, number) if (copy, earlier) in ends]
                loop = Loop(self, number, copy, own, taken, before[-1] if before else "")
                if own:
                    ends[copy, number] = loop.exit
                    result.extend(loop.build())
            taken.update(body)
        for node in result:
            if node.name in waits:
                kept = [text for text in node.input if not is_wait_inside(self, text)]
                del node.input[:]
                node.input.extend([*kept, *(f"^{ends[key]}" for key in waits[node.name])])
        self.shadow.replace_pending(result)
        return Loops(loops, again)

    def _inside(self) -> set[str]:
        """The nodes of a micro-batch: all that depends on the index, up to marks, and what has state of its own."""
        readers: dict[str, list[str]] = {}
        grouping = self._grouping_writes()
        for name, node in self.nodes.items():
            if name in grouping:
                continue
            waits_only = not any(not text.startswith("^") for text in node.input)
            for text in node.input:
                # An op that works on whole values and waits for one of a micro-batch is not of it.
                if not text.startswith("^") or (waits_only and self.shadow.origins[name].op in self.divided):
                    readers.setdefault(producer(text), []).append(name)
        roots = self._frames()
        by_root: dict[str, list[str]] = {}
        for name, root in roots.items():
            by_root.setdefault(root, []).append(name)
        found = {name for name, node in self.nodes.items() if node.op in MARKS or self._draws(name)}
        stack = [self.index, *(name for name in found if self.nodes[name].op not in MARKS)]
        while stack:
            name = stack.pop()
            more = list(readers.get(name, ()))
            more.extend(by_root.get(roots.get(name, ""), ()))  # with a node of a loop goes the whole loop
            if name in self.nodes:
                more.extend(other for other in self.reads[name] if other in self.nodes and _holds(self.nodes[other]))
            for other in more:
                if other not in found:
                    found.add(other)
                    stack.append(other)
        return found

    def _grouping_writes(self) -> set[str]:
        """The nodes that only wait, for a write among others: they are of no micro-batch."""
        found: set[str] = set()
        for name in self._sorted():
            waits_only = self.nodes[name].op == "NoOp"
            if waits_only and any(
                other in found or (other in self.nodes and writes_variable(self.nodes[other].op))
                for other in self.reads[name]
            ):
                found.add(name)
        return found

    def _draws(self, name: str) -> bool:
        """Whether a node draws random numbers for one micro-batch."""
        return self.nodes[name].op in RANDOM and self.shadow.origins[name].op in self.divided

    def _frames(self) -> dict[str, str]:
        """By node of one of the script's own loops: the outermost of them that it is in."""
        frames: dict[str, str] = {}
        parents: dict[str, str] = {}
        for name in self._sorted():
            node = self.nodes[name]
            frame = ""
            for other in self.reads[name]:
                around = frames.get(other, "")
                if around and self.nodes[other].op in EXITS:
                    around = parents[around]
                frame = around or frame
            if node.op in ENTERS:
                parents[node.attr["frame_name"].s.decode()] = frame
                frame = node.attr["frame_name"].s.decode()
            if frame:
                frames[name] = frame
        roots: dict[str, str] = {}
        for name, frame in frames.items():
            while parents.get(frame):
                frame = parents[frame]
            roots[name] = frame
        return roots

    def _sorted(self) -> list[str]:
        """The nodes, each after what it reads, but for what comes round a loop."""
        done: dict[str, None] = {}
        for root in self.nodes:
            stack = [root]
            while stack:
                name = stack[-1]
                if name in done:
                    stack.pop()
                    continue
                merge = self.nodes[name].op in MERGES
                missing = [
                    other
                    for other in self.reads[name]
                    if other in self.nodes and other not in done and not (merge and self.nodes[other].op in BACK_EDGES)
                ]
                if missing:
                    stack.extend(missing)
                else:
                    stack.pop()
                    done[name] = None
        return list(done)

    def _number(self, inside: set[str]) -> None:
        """Finds the first loop that each node can be in; the nodes of one of the script's own loops stay together."""
        order, roots = self._sorted(), self._frames()
        floor: dict[str, int] = {}
        while True:
            self.level.clear()
            self.after.clear()
            for name in order:
                reads = self.reads[name]
                before = [self.after.get(other, 0) for other in reads]
                inner = [self.level[other] + self.is_mark(other) for other in reads if other in self.level]
                if name in inside:
                    least = floor.get(roots.get(name, ""), 1)
                    self.level[name] = max([least, *(b + 1 for b in before), *inner])
                else:
                    before.extend(self.level[other] for other in reads if other in self.level)
                    self.after[name] = max(before, default=0)
            highest: dict[str, int] = {}
            for name, level in self.level.items():
                root = roots.get(name)
                if root is not None:
                    highest[root] = max(level, highest.get(root, 1))
            if highest == floor or max(self.level.values(), default=0) > MOST_LOOPS:
                return
            floor = highest

    def is_mark(self, name: str) -> bool:
        """Whether a node stands for the value of all micro-batches."""
        return name in self.nodes and self.nodes[name].op in MARKS

    def _body(self, number: int) -> list[str]:
        """The nodes of one loop: the marks that it ends with, and all of a micro-batch that they read."""
        body: set[str] = set()
        stack = [name for name, level in self.level.items() if level == number and self.is_mark(name)]
        while stack:
            name = stack.pop()
            if name in body:
                continue
            body.add(name)
            stack.extend(other for other in self.reads[name] if other in self.level and not self.is_mark(other))
        return [name for name in self.level if name in body]

    def _check_repeated(self, bodies: Mapping[int, Sequence[str]]) -> int:
        """The number of nodes that are in several loops.

        Raises:
            Unloopable: one of them has state, or reads what another copy's loop makes.
        """
        origins = self.shadow.origins
        for name in (name for body in bodies.values() for name in body):
            for other in self.reads[name]:
                if other in self.level and not self.is_mark(other) and origins[other].replica != origins[name].replica:
                    raise Unloopable(f"copies exchange values in each micro-batch, at '{origins[other].op}'")
        counts = collections.Counter(name for body in bodies.values() for name in body if not self.is_mark(name))
        for name, count in counts.items():
            if count > 1 and _has_state(self.nodes[name]):
                raise Unloopable(
                    f"{self.nodes[name].op} '{self.shadow.origins[name].op}' cannot be run twice in a step"
                )
        return sum(count - 1 for count in counts.values())


def _has_state(node: node_def_pb2.NodeDef) -> bool:
    return node.op in RANDOM or node.op.startswith(("PyFunc", "EagerPyFunc"))


def _holds(node: node_def_pb2.NodeDef) -> bool:
    """Whether a node makes a container, of which each micro-batch needs its own."""
    return node.op in ("TensorArrayV3", "StackV2", "Stack", "TensorArrayGradV3")
