"""What a well-formed program is.

* Every input and control names an op of the program, and every input an output that op has.
* An op is stored under its own name, and its name, type, inputs and controls are those of its node.
* Ops wait for one another in no circle, but for the back edges of v1 loops (NextIteration to Merge).
* A forward op that is named exists; only ops of the backward pass name one once phases are known.
* Initialisers and restores feed no op of a training step: what one of them computes, only others of them read.
* Every variable is held by an op that is there, once; its initial value, updates and gradients are there; a slot
  belongs to another variable, which is no slot itself.

All violations are found at once. ``check`` raises, and shows the ops around the first.

A rewritten run has one rule more, ``check_groups``: it reaches every member of a collective or none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from whale.errors import VerifyError
from whale.ir.flow import BACK_EDGES, MERGES
from whale.ir.program import Op, Phase, Program
from whale.ir.text import op_line

NEIGHBOURHOOD = 5
"""Ops shown on either side of a violation."""

_STEP = frozenset({Phase.FORWARD, Phase.BACKWARD})
_SETUP = frozenset({Phase.INIT, Phase.SAVE})


@dataclasses.dataclass(frozen=True)
class Violation:
    """One broken rule."""

    op: str
    """The op where it shows."""
    text: str
    """What is wrong."""

    def __str__(self) -> str:
        return f"{self.op}: {self.text}"


def verify(program: Program) -> list[str]:
    """Every violation, in the order of the ops; empty for a well-formed program."""
    return [str(violation) for violation in _violations(program)]


def check(program: Program) -> None:
    """Checks a program.

    Raises:
        VerifyError: it is not well-formed; the message lists the violations and the ops around the first.
    """
    violations = list(_violations(program))
    if not violations:
        return
    lines = [f"{len(violations)} violation{'s' if len(violations) > 1 else ''} in the program:"]
    lines += [f"  {violation}" for violation in violations]
    lines += ["around the first:", *_neighbourhood(program, violations[0])]
    op = program.ops.get(violations[0].op)
    raise VerifyError("\n".join(lines), site=op.site if op is not None else None)


def check_groups(
    reads: Mapping[str, Sequence[str]],
    groups: Iterable[Sequence[str]],
    devices: Mapping[str, str],
    roots: Iterable[str],
) -> None:
    """Checks that a run completes its collectives: a member that is reached waits for ever for one that is not.

    Args:
        reads: the nodes that each node reads or waits for; nodes that are absent read nothing.
        groups: the members of each collective.
        devices: where each member runs. TensorFlow tells members apart by their devices.
        roots: the nodes that the run asks for.

    Raises:
        VerifyError: a run would hang; the message lists the members of every such group.
    """
    reached: set[str] = set()
    stack = list(roots)
    while stack:
        name = stack.pop()
        if name not in reached:
            reached.add(name)
            stack.extend(reads.get(name, ()))
    faults: list[str] = []
    for members in groups:
        missing = [name for name in members if name not in reached]
        if missing and len(missing) < len(members):
            there = [name for name in members if name in reached]
            faults.append(f"the run reaches {', '.join(there)} but not {', '.join(missing)} of the same group")
        held = [devices[name] for name in members]
        twice = sorted({device for device in held if held.count(device) > 1})
        if twice:
            faults.append(f"several of {', '.join(members)}, one group, are on {', '.join(twice)}")
    if faults:
        raise VerifyError("\n  ".join(["collectives that would wait for ever:", *faults]))


def _violations(program: Program) -> Iterator[Violation]:
    for key, op in program.ops.items():
        yield from _op_violations(program, key, op)
    yield from _cycles(program)
    yield from _variable_violations(program)


def _op_violations(program: Program, key: str, op: Op) -> Iterator[Violation]:
    if op.name != key:
        yield Violation(key, f"is stored under this name but named {op.name!r}")
    for tensor in op.inputs:
        fault = tensor_fault(program, tensor)
        if fault:
            yield Violation(key, f"input {fault}")
    for control in op.controls:
        if control not in program.ops:
            yield Violation(key, f"waits for {control!r}, which is not an op of the program")
    if op.forward is not None:
        if op.forward not in program.ops:
            yield Violation(key, f"is the gradient of {op.forward!r}, which is not an op of the program")
        elif op.forward == key:
            yield Violation(key, "is its own forward op")
        elif op.phase not in (Phase.BACKWARD, Phase.OTHER):
            yield Violation(key, f"is {op.phase.value} but names the forward op {op.forward!r}")
    if op.phase in _STEP:
        yield from _phase_violations(program, op)


def _phase_violations(program: Program, op: Op) -> Iterator[Violation]:
    for tensor in op.inputs:
        producer = program.ops.get(tensor.rpartition(":")[0])
        if producer is not None and producer.phase in _SETUP:
            yield Violation(op.name, f"is {op.phase.value} but reads {tensor!r}, which is {producer.phase.value}")


def tensor_fault(program: Program, tensor: str) -> str:
    """Why a tensor name means nothing in a program; empty where it names a tensor."""
    name, _, index = tensor.rpartition(":")
    if not name or not index.isdecimal():
        return f"{tensor!r} is not the name of a tensor (op:index)"
    producer = program.ops.get(name)
    if producer is None:
        return f"{tensor!r} comes from no op of the program"
    if int(index) >= len(producer.outputs):
        count = len(producer.outputs)
        return f"{tensor!r} does not exist: {name!r} has {count} output{'' if count == 1 else 's'}"
    return ""


def _edges(program: Program, op: Op) -> list[str]:
    """Ops that run before another in the same iteration."""
    names = [tensor.rpartition(":")[0] for tensor in op.inputs]
    names.extend(op.controls)
    known = [name for name in names if name in program.ops]
    if op.type in MERGES:
        return [name for name in known if program.ops[name].type not in BACK_EDGES]
    return known


def _cycles(program: Program) -> Iterator[Violation]:
    """One violation for each circle that a depth-first search closes."""
    done: set[str] = set()
    for root in program.ops:
        path: dict[str, None] = {}
        stack: list[tuple[str, bool]] = [(root, False)]
        while stack:
            name, leaving = stack.pop()
            if leaving:
                path.pop(name)
                done.add(name)
                continue
            if name in done:
                continue
            if name in path:
                names = list(path)
                circle = names[names.index(name) :]
                yield Violation(name, f"is in a circle: {' <- '.join([*circle, name])}")
                continue
            path[name] = None
            stack.append((name, True))
            before = dict.fromkeys(_edges(program, program.ops[name]))
            stack.extend((other, False) for other in before if other not in done)


def _variable_violations(program: Program) -> Iterator[Violation]:
    shared: dict[str, str] = {}
    for key, variable in program.variables.items():
        if variable.name != key:
            yield Violation(key, f"the variable stored under this name is named {variable.name!r}")
        holder = program.ops.get(key)
        if holder is None:
            yield Violation(key, "is a variable but no op holds it")
        elif holder.attrs.get("shared_name") and holder.type == "VarHandleOp":
            place = f"{holder.device}|{holder.attrs.get('container', '')}|{holder.attrs['shared_name']}"
            if place in shared:
                yield Violation(key, f"is the same variable as {shared[place]!r}: they share the name in one container")
            shared.setdefault(place, key)
        for tensor in (variable.initial_value, *variable.gradients):
            fault = tensor_fault(program, tensor) if tensor is not None else ""
            if fault:
                yield Violation(key, f"the variable's initial value or gradient {fault}")
        for update in variable.updates:
            if update not in program.ops:
                yield Violation(key, f"is updated by {update!r}, which is not an op of the program")
        owner = variable.slot_of
        if owner is not None and (owner == key or owner not in program.variables):
            yield Violation(key, f"is a slot of {owner!r}, which is not another variable")
        elif owner is not None and program.variables[owner].slot_of is not None:
            yield Violation(key, f"is a slot of {owner!r}, which is a slot itself")


def _neighbourhood(program: Program, violation: Violation) -> list[str]:
    """The ops before and after in the graph, and those that the op reads from elsewhere."""
    names = list(program.ops)
    if violation.op not in program.ops:
        return [f"    {violation.op} is not in the program"]
    at = names.index(violation.op)
    near = names[max(0, at - NEIGHBOURHOOD) : at + NEIGHBOURHOOD + 1]
    lines: list[str] = []
    for tensor in program.ops[violation.op].inputs:
        producer = tensor.rpartition(":")[0]
        if producer in program.ops and producer not in near:
            lines.append(f"    {op_line(program.ops[producer])}")
    if lines:
        lines.append("    ...")
    for name in near:
        mark = "--> " if name == violation.op else "    "
        lines.append(f"{mark}{op_line(program.ops[name])}")
    return lines
