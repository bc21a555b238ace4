"""How values flow through a program: producers, readers, an order of evaluation, loop frames, reachability.

Built once for a program and shared by the analyses over it, each of which is then one or two sweeps over the ops.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Iterable, Mapping

from whale.ir.program import Op, Program

BACK_EDGES = frozenset({"NextIteration", "RefNextIteration"})
"""Ops whose output goes to the next iteration of a v1 loop: the only way an op may come before its input."""
MERGES = frozenset({"Merge", "RefMerge"})
"""Ops that such an edge leads to."""
ENTERS = frozenset({"Enter", "RefEnter"})
"""Ops that bring a value into a v1 loop."""
EXITS = frozenset({"Exit", "RefExit"})
"""Ops that bring a value out of a v1 loop."""


@dataclasses.dataclass(frozen=True)
class Flow:
    """The edges of a program by op name; tensors and controls that name no op are left out."""

    ops: Mapping[str, Op]
    """The ops of the program."""
    producers: Mapping[str, tuple[str, ...]]
    """For each op, the ops that make its data inputs, in order of the inputs, with repetition."""
    readers: Mapping[str, tuple[str, ...]]
    """For each op, the ops that read its outputs."""
    followers: Mapping[str, tuple[str, ...]]
    """For each op, the ops that wait for it by a control edge."""
    order: tuple[Op, ...]
    """Every op after its data inputs, but for back edges of loops (and for cycles, which ``verify`` reports)."""
    looping: bool
    """Whether there are back edges, so that one sweep along the order may not be enough."""

    def frames(self) -> dict[str, str]:
        """Name of the innermost v1 loop frame around each op that is inside of one, its Enter and Exit included."""
        if not self.looping:
            return {}
        parents: dict[str, str] = {}
        frames: dict[str, str] = {}
        for op in self.order:
            outer = ""
            for name in (*self.producers[op.name], *op.controls):
                frame = frames.get(name, "")
                if frame and self.ops[name].type in EXITS:
                    frame = parents[frame]
                # The deepest frame wins: constants and values made outside of the loop have none.
                if frame and (not outer or _encloses(parents, outer, frame)):
                    outer = frame
            if op.type in ENTERS:
                inner = str(op.attrs.get("frame_name", ""))
                parents.setdefault(inner, outer)
                outer = inner
            if outer:
                frames[op.name] = outer
        return frames

    def reach(self, marks: Mapping[str, int]) -> dict[str, int]:
        """Which marked ops each op leads to by data edges.

        Args:
            marks: a bit set for each marked op; an op reaches itself.
        """
        found: dict[str, int] = dict(marks)
        changed = True
        while changed:
            changed = False
            for op in reversed(self.order):
                bits = found.get(op.name, 0)
                if bits:
                    for name in self.producers[op.name]:
                        known = found.get(name, 0)
                        if known | bits != known:
                            found[name] = known | bits
                            changed = self.looping
        return found

    def ancestors(self, names: Iterable[str]) -> set[str]:
        """The ops that some ops depend on by data edges, themselves included."""
        return set(self.reach(dict.fromkeys(names, 1)))


def flow(program: Program) -> Flow:
    """Reads the edges of a program."""
    ops = program.ops
    producers: dict[str, tuple[str, ...]] = {}
    readers: dict[str, list[str]] = {name: [] for name in ops}
    followers: dict[str, list[str]] = {}
    looping = False
    for name, op in ops.items():
        made = tuple(p for p in (tensor.rpartition(":")[0] for tensor in op.inputs) if p in ops)
        producers[name] = made
        for producer in dict.fromkeys(made):
            readers[producer].append(name)
        for control in op.controls:
            followers.setdefault(control, []).append(name)
        looping = looping or op.type in BACK_EDGES
    return Flow(
        ops=ops,
        producers=producers,
        readers={name: tuple(found) for name, found in readers.items()},
        followers={name: tuple(found) for name, found in followers.items()},
        order=tuple(_sort(ops, producers)),
        looping=looping,
    )


def import_order(program: Program) -> list[Op]:
    """The ops as TensorFlow would make them when it imports the graph: each after all it waits for, else as they were.

    It differs from the order of the graph only where TensorFlow has added inputs to an op that was there (v2 loops,
    when their gradient is taken). Ops in a circle come last.
    """
    ops = program.ops
    place = {name: number for number, name in enumerate(ops)}
    waiting: dict[str, int] = {}
    unlocks: dict[str, list[str]] = {}
    for name, op in ops.items():
        before = {*_before(op, ops, tuple(t.rpartition(":")[0] for t in op.inputs if t.rpartition(":")[0] in ops))}
        before.update(control for control in op.controls if control in ops)
        waiting[name] = len(before)
        for other in before:
            unlocks.setdefault(other, []).append(name)
    names = list(ops)
    ready = [place[name] for name, count in waiting.items() if not count]
    result: list[Op] = []
    while ready:
        name = names[heapq.heappop(ready)]
        result.append(ops[name])
        for other in unlocks.get(name, ()):
            waiting[other] -= 1
            if not waiting[other]:
                heapq.heappush(ready, place[other])
    if len(result) < len(ops):
        done = {op.name for op in result}
        result.extend(op for op in ops.values() if op.name not in done)
    return result


def _encloses(parents: Mapping[str, str], outer: str, inner: str) -> bool:
    """Whether one frame is inside another, at any depth."""
    seen = inner
    while seen:
        seen = parents.get(seen, "")
        if seen == outer:
            return True
    return False


def _before(op: Op, ops: Mapping[str, Op], producers: tuple[str, ...]) -> Iterable[str]:
    if op.type in MERGES:
        return [name for name in producers if ops[name].type not in BACK_EDGES]
    return producers


def _sort(ops: Mapping[str, Op], producers: Mapping[str, tuple[str, ...]]) -> list[Op]:
    """A depth-first sort; a graph in order already, as nearly all are, comes out unchanged."""
    result: list[Op] = []
    done: set[str] = set()
    open_ops: set[str] = set()
    for root in ops:
        if root in done:
            continue
        stack = [root]
        while stack:
            name = stack[-1]
            if name in done:
                stack.pop()
                continue
            missing = [p for p in _before(ops[name], ops, producers[name]) if p not in done and p not in open_ops]
            if missing:
                open_ops.add(name)
                stack.extend(missing)
            else:
                stack.pop()
                open_ops.discard(name)
                done.add(name)
                result.append(ops[name])
    return result
