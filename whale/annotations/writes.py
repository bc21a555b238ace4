"""Which ops write which variables, and what for: to initialise, to restore, or to update."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

from whale import _tf
from whale.annotations.op_kinds import RESTORES
from whale.ir.flow import Flow
from whale.ir.program import Op
from whale.sharding.rules.state import HOLDERS, holder_of, writes_variable, written

_PLAIN_ASSIGNS = frozenset({"Assign", "AssignVariableOp"})
_GRADIENT_ARGUMENTS = ("grad", "delta", "updates", "value")
"""What OpDefs call the input that carries the new information of a write."""


@dataclasses.dataclass(frozen=True)
class Write:
    """One op that writes a variable."""

    op: Op
    """The op."""
    variable: str
    """Name of the op that holds the variable."""
    slots: tuple[str, ...]
    """Other variables the op takes by handle or reference: its optimizer slots."""
    value: str | None
    """Its gradient or new value."""


@dataclasses.dataclass(frozen=True)
class Writes:
    """The writes of a program."""

    initialisers: Mapping[str, Write]
    """By variable: the first plain assignment to it that does not come from a checkpoint."""
    restores: tuple[Write, ...]
    """Assignments of values that come from a checkpoint."""
    updates: tuple[Write, ...]
    """All other writes, in the order of the graph."""

    def by_variable(self) -> dict[str, list[Write]]:
        """The updates of each variable that has any."""
        found: dict[str, list[Write]] = {}
        for write in self.updates:
            found.setdefault(write.variable, []).append(write)
        return found

    def by_op(self) -> dict[str, Write]:
        """The updates by the name of their op."""
        return {write.op.name: write for write in self.updates}


def writes_of(edges: Flow) -> Writes:
    """Finds the writes of a program.

    An initialiser is told from an update by order alone: a variable's constructor makes the initialiser before anything
    else can name the variable.
    """
    restored = _restored(edges)
    initialisers: dict[str, Write] = {}
    restores: list[Write] = []
    updates: list[Write] = []
    for op in edges.ops.values():
        if not op.inputs or not writes_variable(op.type):
            continue
        variable = holder_of(edges.ops, op.inputs[0])
        if variable is None:
            continue
        write = _write(edges.ops, op, variable)
        if op.name in restored:
            restores.append(write)
        elif op.type in _PLAIN_ASSIGNS and variable not in initialisers:
            initialisers[variable] = write
        else:
            updates.append(write)
    return Writes(initialisers, tuple(restores), tuple(updates))


def _restored(edges: Flow) -> set[str]:
    """Ops whose value comes from a checkpoint and nothing else but constants."""
    found: set[str] = set()
    for op in edges.order:
        producers = edges.producers[op.name]
        follows = any(name in found for name in producers) and all(
            name in found or not edges.producers[name] for name in producers
        )
        if op.type in RESTORES or follows:
            found.add(op.name)
    return found


def _write(ops: Mapping[str, Op], op: Op, variable: str) -> Write:
    names = _arguments(op.type)
    slots = tuple(other for other in written(ops, op) if other != variable)
    value = None
    for wanted in _GRADIENT_ARGUMENTS:
        if wanted in names and names.index(wanted) < len(op.inputs):
            value = op.inputs[names.index(wanted)]
            break
    return Write(op, variable, slots, value)


@functools.cache
def _arguments(op_type: str) -> tuple[str, ...]:
    definition = _tf.op_definition(op_type)
    return () if definition is None else tuple(argument.name for argument in definition.input_arg)


def direct_reads(edges: Flow) -> set[str]:
    """Ops that do nothing but hand on a variable: the holder, its reads, and what carries its handle."""
    found: set[str] = set()
    for op in edges.order:
        producers = edges.producers[op.name]
        if op.type in HOLDERS or (
            op.type in ("ReadVariableOp", "Identity", "Enter", "RefEnter", "RefIdentity", "Switch", "RefSwitch")
            and producers
            and producers[0] in found
        ):
            found.add(op.name)
    return found
