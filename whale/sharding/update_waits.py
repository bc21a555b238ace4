"""Waits for updates, put off from ops that read nothing of what the updates write.

``with tf.control_dependencies(updates): train = optimizer.minimize(loss)`` makes the first ops of the backward pass
wait for the updates of moving averages, which no gradient reads. One device loses nothing by it; of micro-batches, each
would wait until all have given their part of the averages. An op without state of its own computes the same before an
update as after it, unless it reads the variable. So such an op need not wait, as long as what comes behind it does:

* what reads a variable that the update writes,
* what writes a variable, or has another effect (a print, a queue, a Python function),
* the run itself, where the op leads to what it fetches: the update becomes a target of the run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from whale.ir.program import Op, split_tensor
from whale.sharding.branches import branches
from whale.sharding.order import BACK_EDGES, ENTERS, EXITS, MERGES, SWITCHES, Order
from whale.sharding.rules.control import CONTAINERS
from whale.sharding.rules.source import RANDOM
from whale.sharding.rules.state import HOLDERS, READERS, holder_of, writes_variable, written

_GROUPS = frozenset({"NoOp", "ControlTrigger"})

_AS_THEY_ARE = HOLDERS | RANDOM
"""Ops that keep their waits and need no others: what holds a variable, and random ops, of which the one that waits is a
node of all plans."""

_HAND_ON = ENTERS | EXITS | MERGES | SWITCHES | BACK_EDGES | {"Identity", "RefIdentity"}
"""Ops that hand on a variable's handle without reading the variable."""

_SHARE_MEMORY = _HAND_ON | {"StopGradient", "PreventGradient", "Reshape", "ExpandDims", "Squeeze"}
"""Ops whose output may be the memory of a variable that their input is."""


@dataclasses.dataclass(frozen=True)
class PutOff:
    """A run in which only those ops wait for updates that must."""

    order: Order
    """The ops, with other control inputs."""
    awaited: tuple[str, ...]
    """The ops that the run must wait for: what leads to its fetches waited for them."""


def put_off(order: Order, feeds: frozenset[str], fetches: Sequence[str], targets: Sequence[str]) -> PutOff:
    """Moves waits for updates from pure ops to what comes behind them.

    A wait that would have to be moved into a loop stays where it is, and so does one for an op in a loop or a branch,
    which lets its readers live and die.

    Args:
        order: the ops of a run.
        feeds: fed tensors.
        fetches: fetched tensors.
        targets: ops that are run.
    """
    ends = [*(split_tensor(t)[0] for t in fetches if t not in feeds), *targets]
    moving = _Moving(order, feeds, frozenset(ends))
    while moving.goes_on():
        pass
    awaited = dict.fromkeys(name for end in ends for name in moving.pending_of(end) if name not in targets)
    if not moving.controls:
        return PutOff(order, ())
    others = {name: dataclasses.replace(moving.ops[name], controls=after) for name, after in moving.controls.items()}
    return PutOff(dataclasses.replace(order, ops=tuple(others.get(op.name, op) for op in order.ops)), tuple(awaited))


class _Moving:
    """Passes over the ops in data-flow order, until loops and the waits that stay are settled.

    Sets of writing ops, of variables and of ops that are waited for are bits of integers.
    """

    def __init__(self, order: Order, feeds: frozenset[str], ends: frozenset[str]) -> None:
        self.order = order
        self.feeds = feeds
        self.ends = ends
        self.ops = {op.name: op for op in order.ops}
        self.inside = branches(order)
        self.writes: dict[str, int] = {}
        """By writing op: its bit."""
        self.writers: dict[str, int] = {}
        """By variable: the ops that write it; the empty name stands for variables that are not known."""
        for op in order.ops:
            variables = written(self.ops, op)
            if variables or writes_variable(op.type):
                bit = self.writes[op.name] = 1 << len(self.writes)
                for variable in variables or ("",):
                    self.writers[variable] = self.writers.get(variable, 0) | bit
        self.memory = self._memory()
        self.stay = set[str]()
        """Ops the waits for which stay where they are."""
        self.number: dict[str, int] = {}
        self.roots: list[str] = []
        """Ops that are waited for for an update's sake, by number."""
        self.waited = 0
        """The writes that any of them comes after."""
        self.behind: dict[str, int] = {}
        """By op: the writes that it comes after, by inputs and by the waits it has kept."""
        self.pending: dict[str, int] = {}
        """By op: the waits that it, or what leads to it, has put off."""
        self.rounds: dict[str, tuple[int, int]] = {}
        """By op that begins another turn of a loop: both of these, as the last pass found them."""
        self.controls: dict[str, tuple[str, ...]] = {}
        """The control inputs of ops that get others."""

    def _memory(self) -> dict[str, int]:
        """By tensor that may be the memory of variables, or their handle: the writes of these."""
        found: dict[str, int] = {}
        for op in self.order.ops:
            if op.type in HOLDERS:
                found[op.output()] = self.writers.get(op.name, 0) | self.writers.get("", 0)
                continue
            shared = 0
            if op.type in _SHARE_MEMORY or any(kind.dtype.endswith("_ref") for kind in op.outputs):
                for tensor in op.inputs:
                    shared |= 0 if tensor in self.feeds else found.get(tensor, 0)
            if shared:
                found.update((tensor, shared) for tensor in op.outputs_named())
        return found

    def goes_on(self) -> bool:
        """One pass; whether another is needed."""
        stayed, rounds = len(self.stay), dict(self.rounds)
        self.behind.clear()
        self.pending.clear()
        self.controls.clear()
        for op in self.order.ops if self.writes else ():
            self._visit(op)
        if len(self.stay) == stayed:
            return self.rounds != rounds
        self.rounds.clear()
        return True

    def _visit(self, op: Op) -> None:
        behind = pending = 0
        for name in (split_tensor(tensor)[0] for tensor in op.inputs if tensor not in self.feeds):
            turned = self.rounds.get(name, (0, 0))
            behind |= self.behind.get(name, turned[0])
            pending |= self.pending.get(name, turned[1])
        touched = self._touched(op)
        kept: list[str] = []
        for control in op.controls:
            pending |= self.pending.get(control, 0)
            if self._can_go(op, control, behind, touched):
                pending |= 1 << self._numbered(control)
                self.waited |= self.behind[control]
            else:
                kept.append(control)
        needed = 0 if op.type in _AS_THEY_ARE else self._needed(pending, touched)
        self.stay.update(n for n in self._named(needed) if self.order.frame(op.name) or n not in self.behind)
        controls = tuple(dict.fromkeys([*kept, *self._named(needed)]))
        if controls != op.controls:
            self.controls[op.name] = controls
        for control in controls:
            behind |= self.behind.get(control, 0)
        self.behind[op.name] = behind | self.writes.get(op.name, 0)
        # What is in a branch may never run, and nothing then waits by it.
        self.pending[op.name] = pending if op.name in self.inside else pending & ~needed
        if op.type in BACK_EDGES:
            self.rounds[op.name] = self.behind[op.name], self.pending[op.name]

    def _can_go(self, op: Op, control: str, behind: int, touched: int | None) -> bool:
        """Whether an op need not wait for another that comes after updates."""
        updates = self.behind.get(control, 0)
        if op.type in _GROUPS and (op.name in self.ends or all(self.behind.get(name) for name in op.controls)):
            return False  # a group of updates is one op to wait for
        if op.type in _AS_THEY_ARE or touched is None or updates & touched or not updates & ~behind:
            return False
        return not (control in self.stay or control in self.inside or self.order.frame(control))

    def _touched(self, op: Op) -> int | None:
        """The writes of the variables that an op reads; None for one that has effects."""
        if op.name in self.writes or (op.stateful and op.type not in CONTAINERS and op.type not in READERS):
            return None if op.type not in _AS_THEY_ARE else 0
        if op.type in READERS and holder_of(self.ops, op.inputs[0]) is None:
            return None
        touched = 0
        for tensor in op.inputs:
            # A resource that is handed on is not read.
            if tensor in self.memory and not (op.type in _HAND_ON and self._is_handle(tensor)):
                touched |= self.memory[tensor]
        return touched

    def _is_handle(self, tensor: str) -> bool:
        name, index = split_tensor(tensor)
        return self.ops[name].outputs[index].dtype == "resource"

    def _needed(self, pending: int, touched: int | None) -> int:
        """Which of the waits put off an op must have."""
        if touched is None or not pending:
            return pending
        needed = 0
        for number in _bits(pending) if touched & self.waited else ():
            if self.behind.get(self.roots[number], 0) & touched:
                needed |= 1 << number
        return needed

    def _numbered(self, root: str) -> int:
        number = self.number.setdefault(root, len(self.roots))
        if number == len(self.roots):
            self.roots.append(root)
        return number

    def _named(self, numbers: int) -> list[str]:
        return [self.roots[number] for number in _bits(numbers)]

    def pending_of(self, op: str) -> list[str]:
        """The ops that what leads to an op was to wait for, and that nothing on the way waits for."""
        return self._named(self.pending.get(op, 0))


def _bits(numbers: int) -> Iterator[int]:
    while numbers:
        low = numbers & -numbers
        yield low.bit_length() - 1
        numbers ^= low
