"""What Whale said about its plan on standard error: which run signatures were cut, and what was kept whole and why."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable

CUT = "whale: cut "
"""Begins the line of a run signature that is cut: ``whale: cut signature <k>: <details>``."""
KEPT = "whale: one replica: "
"""Begins the line of what is kept on one replica: ``whale: one replica: <reason>``."""
MORE = "whale:   "
"""Begins a line that continues the one before."""
VERDICT = re.compile(r"signature \d+: (not )?checked: ")
"""Begins what is said of a cut signature once it was checked: the same signature, not one more."""


@dataclasses.dataclass(frozen=True)
class PlanLines:
    """The plan as printed, each line once, in order."""

    cut: tuple[str, ...]
    """For each cut signature what follows ``whale: cut``, continuation lines joined."""
    kept: tuple[str, ...]
    """The distinct reasons for keeping one replica."""

    @property
    def verdict(self) -> str:
        """``cut``, ``one replica``, or ``no plan`` when neither was printed."""
        if self.cut:
            return "cut"
        return "one replica" if self.kept else "no plan"


def parse_plan(lines: Iterable[str]) -> PlanLines:
    """Pick the plan's lines out of a process's standard error.

    The first line of a report may follow a progress bar that the script left without a line end.
    """
    cut: list[str] = []
    kept: list[str] = []
    last: list[str] | None = None
    for printed in lines:
        line = printed[max(printed.find(CUT), printed.find(KEPT), 0) :]
        if line.startswith(CUT):
            last = cut
            cut.append(line[len(CUT) :].strip())
        elif line.startswith(KEPT):
            last = kept
            kept.append(line[len(KEPT) :].strip())
        elif line.startswith(MORE) and last is not None:
            last[-1] += (" " if last[-1].endswith(":") else "; ") + line[len(MORE) :].strip()
        else:
            last = None
    plans = [plan for plan in cut if not VERDICT.match(plan)]
    return PlanLines(cut=tuple(dict.fromkeys(plans)), kept=tuple(dict.fromkeys(kept)))
