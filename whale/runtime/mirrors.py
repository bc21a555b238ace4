"""Mirrors: each device's own copy of a variable, equal to home's whenever a cut run reads it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from whale.ir.program import Op, Program
from whale.rewriter.build import Builder, Place, type_attr
from whale.rewriter.mesh import Mesh
from whale.rewriter.shadow import Shadow


class Mirrors:
    """Which mirrors of one session are in step with home, and the ops that bring them there."""

    def __init__(self, shadow: Shadow, lock: threading.RLock) -> None:
        """``lock`` guards the plans of the session."""
        self._shadow = shadow
        self._lock = lock
        self._in_step: set[str] = set()
        self._unwritten: set[str] = set()
        """Of the variables whose mirrors are being copied to: those that no run has written since."""
        self._marks = threading.Lock()  # of both sets; held for no run, so that a run which ends waits for none
        self._copying: dict[str, list[str]] = {}

    def fell_behind(self, variables: Iterable[str]) -> None:
        """Notes that variables were, or may have been, written at home only."""
        with self._marks:
            self._unwritten.difference_update(variables)
            self._in_step.difference_update(variables)

    def all_fell_behind(self) -> None:
        """Notes that nothing is known of any mirror."""
        with self._marks:
            self._unwritten.clear()
            self._in_step.clear()

    def bring_into_step(self, variables: frozenset[str], run: Callable[[Sequence[Any]], object]) -> None:
        """Copies variables that were written at home only to their mirrors; ``run`` runs target handles."""
        behind = variables - self._in_step
        if not behind:
            return
        with self._lock:
            behind = variables - self._in_step
            if not behind:
                return
            targets = [self._shadow.handles[n] for v in sorted(behind) for n in self._copying[v]]
            with self._marks:
                self._unwritten = set(behind)
            if targets:
                run(targets)
            with self._marks:
                self._in_step |= self._unwritten

    def make(self, variables: frozenset[str], program: Program, mesh: Mesh) -> None:
        """Adds the ops that bring variables into step, where there are none yet.

        Args:
            variables: names of the ops that hold them.
            program: the user's.
            mesh: the copies; the first is home.
        """
        for variable in sorted(variables - self._copying.keys()):
            self._copying[variable] = self._copies(program.ops[variable], mesh)
        self._shadow.flush()

    def _copies(self, op: Op, mesh: Mesh) -> list[str]:
        """Ops that copy a variable from home to every other device."""
        variable = op.name
        builder = Builder(self._shadow, "")
        names = []
        for replica in mesh.leads(variable)[1:]:
            place = Place(variable, replica, mesh.device(variable, replica))
            mirror = f"{self._shadow.mirror(variable, replica)}:0"
            if op.type == "VarHandleOp":
                dtype = {"dtype": type_attr(op.attrs["dtype"])}
                home = Place(variable, 0, mesh.device(variable, 0))
                value = builder.node(home, "ReadVariableOp", [f"{variable}:0"], f"mirror/{variable}/read", dtype)
                attrs = {**dtype, "validate_shape": False}
                made = builder.node(place, "AssignVariableOp", [mirror, value], f"mirror/{variable}/assign", attrs)
            else:
                kind = type_attr(op.attrs["dtype"])
                attrs = {"T": kind, "validate_shape": False, "use_locking": True}
                made = builder.node(place, "Assign", [mirror, f"{variable}:0"], f"mirror/{variable}/assign", attrs)
            names.append(made.rpartition(":")[0])
        return names
