"""The text form of a program.

One op a line, each after those it waits for and otherwise in the order of the graph, then the variables. The same
program always prints the same text, so that a difference between two texts is a difference between two programs. The
line of an op leaves out attributes that have their zero value, that repeat the types of operands, or that begin with an
underscore; large constants show their type alone.
"""

from __future__ import annotations

import hashlib
from typing import Any, cast

from whale.ir.flow import import_order
from whale.ir.program import Op, Program, Variable


def text(program: Program) -> str:
    """The whole program."""
    lines = [f"program of {len(program.ops)} ops, {len(program.variables)} variables"]
    lines += [op_line(op) for op in import_order(program)]
    if program.variables:
        lines.append("variables")
        lines += [variable_line(variable) for variable in program.variables.values()]
    return "\n".join(lines) + "\n"


def op_line(op: Op) -> str:
    """One op: phase, name, type, constant value, inputs, controls, output types, device, scope, forward op."""
    arguments = [*op.inputs, *(f"^{control}" for control in op.controls)]
    parts = [f"{op.phase.value:<8} {op.name} = {op.type}{_attributes(op)}({', '.join(arguments)})"]
    if op.outputs:
        parts.append("-> " + ", ".join(str(kind) for kind in op.outputs))
    if op.device:
        parts.append(f"on {op.device}")
    if op.scope is not None:
        parts.append(f"scope {op.scope}")
    if op.forward is not None:
        parts.append(f"gradient of {op.forward}")
    return " ".join(parts)


_UNPRINTED = frozenset({"shape", "value", "grad_a", "grad_b"})
"""Attributes that the line says in other words, or that are hints which only some TensorFlow versions give."""

_TYPES = frozenset(
    {"T", "dtype", "out_type", "Tshape", "Tidx", "Index", "Tindices", "Tperm", "Tmultiples", "Tpaddings"}
)
"""Attributes that only repeat the types of the operands."""


def _attributes(op: Op) -> str:
    """The attributes that change what the op computes, and the value of a small constant."""
    if op.value is not None:
        return f"[{_value(op)}]"
    shown = [
        f"{key}={_plain(value)}"
        for key, value in sorted(op.attrs.items())
        if key not in _UNPRINTED and key not in _TYPES and not key.startswith("_") and value not in (False, "", 0, ())
    ]
    return f"[{' '.join(shown)}]" if shown else ""


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, tuple):
        items = cast("tuple[Any, ...]", value)
        return "(" + ",".join(_plain(item) for item in items) + ")"
    return str(value)


def _value(op: Op) -> str:
    """A constant of up to eight elements, else a digest of it."""
    value = op.value
    if value is None:
        return ""
    if value.size <= 8 and value.dtype.kind in "iubf":
        return str(value.tolist()).replace(" ", "")
    content = repr(value.tolist()) if value.dtype.hasobject else value.tobytes().hex()
    return f"sha1 {hashlib.sha1(content.encode(), usedforsecurity=False).hexdigest()[:8]}"


def variable_line(variable: Variable) -> str:
    """One variable: name, type, kind, initial value, gradients, updates."""
    dims = "*" if variable.shape is None else ",".join("?" if d is None else str(d) for d in variable.shape)
    parts = [f"{variable.name}: {variable.dtype}[{dims}]"]
    if variable.trainable:
        parts.append("trainable")
    if variable.slot_of is not None:
        parts.append(f"slot of {variable.slot_of}")
    if variable.initial_value is not None:
        parts.append(f"from {variable.initial_value}")
    if variable.gradients:
        parts.append(f"gradient {', '.join(variable.gradients)}")
    if variable.updates:
        parts.append(f"updated by {', '.join(variable.updates)}")
    return " ".join(parts)
