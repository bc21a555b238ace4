"""What is told about each kind of run: whether it is cut, where, and why."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class Report:
    """One run signature (fetches, feeds and targets) and what became of it."""

    number: int
    """Order in which signatures were met, from 1."""
    cut: bool
    """Whether it runs on pieces over several devices."""
    trains: bool
    """Whether it updates trainable variables through gradients."""
    reason: str
    """Why it runs on one replica; empty when cut."""
    lines: tuple[str, ...] = ()
    """What is parallel, where, exact or approximate."""
    seconds: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Time by phase: capture, analyse, lower, import."""
    ops: int = 0
    """Nodes added to the shadow graph."""
    bytes_reduced: int = 0
    """Bytes that one copy contributes to all-reduce, per run."""
    renews: frozenset[str] = frozenset()
    """Of a run that is not cut and applies no gradients: trainable variables that it updates by ops of its own."""
    fault: bool = False
    """Whether a fault of Whale is the reason."""

    notice: bool = False
    """Whether ``reason`` is said of the script, not of a kind of run."""

    def text(self) -> str:
        """The report as printed."""
        if self.notice:
            return f"whale: {self.reason}"
        head = f"whale: cut signature {self.number}:" if self.cut else f"whale: one replica: {self.reason}"
        return "\n".join([head, *(f"whale:   {line}" for line in self.lines)])
