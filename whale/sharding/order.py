"""Order of evaluation and loop frames of a set of ops."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from whale.ir.program import Op, split_tensor

BACK_EDGES = frozenset({"NextIteration", "RefNextIteration"})
MERGES = frozenset({"Merge", "RefMerge"})
ENTERS = frozenset({"Enter", "RefEnter"})
SWITCHES = frozenset({"Switch", "RefSwitch"})
EXITS = frozenset({"Exit", "RefExit"})


@dataclasses.dataclass(frozen=True)
class Order:
    """Ops in data-flow order, loops cut at their back edges."""

    ops: tuple[Op, ...]
    """Every op after its inputs, except a loop's Merge, which comes before the NextIteration that feeds it."""
    frames: Mapping[str, tuple[str, ...]]
    """For each op inside a loop: names of the frames around it, outermost first."""

    def frame(self, op: str) -> tuple[str, ...]:
        """Frames around an op, outermost first."""
        return self.frames.get(op, ())


def order(ops: Iterable[Op], feeds: frozenset[str]) -> Order:
    """Sorts ops by data flow and finds the loop frame of each."""
    by_name = {op.name: op for op in ops}
    sorted_ops = _sort(by_name, feeds)
    frames: dict[str, tuple[str, ...]] = {}
    for op in sorted_ops:
        frame: tuple[str, ...] = ()
        for name in _before(op, by_name, feeds):
            other = frames.get(name, ())
            if by_name[name].type in EXITS:
                other = other[:-1]
            if len(other) > len(frame):
                frame = other
        if op.type in ENTERS:
            frame = (*frame, op.attrs.get("frame_name", ""))
        if frame:
            frames[op.name] = frame
    return Order(tuple(sorted_ops), frames)


def _before(op: Op, by_name: Mapping[str, Op], feeds: frozenset[str]) -> list[str]:
    names = [split_tensor(t)[0] for t in op.inputs if t not in feeds]
    names.extend(op.controls)
    return [n for n in names if n in by_name and not (op.type in MERGES and by_name[n].type in BACK_EDGES)]


def _sort(by_name: Mapping[str, Op], feeds: frozenset[str]) -> list[Op]:
    result: list[Op] = []
    done: set[str] = set()
    for root in by_name.values():
        if root.name in done:
            continue
        stack: list[tuple[Op, bool]] = [(root, False)]
        while stack:
            op, expanded = stack.pop()
            if expanded:
                if op.name not in done:
                    done.add(op.name)
                    result.append(op)
                continue
            if op.name in done:
                continue
            stack.append((op, True))
            stack.extend((by_name[n], False) for n in _before(op, by_name, feeds) if n not in done)
    return result
