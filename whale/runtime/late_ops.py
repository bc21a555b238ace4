"""Ops that a script makes between its runs.

Plain TensorFlow takes an op that is made anew before each run (``tf.shape(x)`` in the training loop) with little ado;
here each makes a kind of run of its own, which is planned anew. The script's author is told once, and not at every run.
"""

from __future__ import annotations

from collections.abc import Iterable

from whale.errors import Site
from whale.ir.program import Op, split_tensor
from whale.runtime.signature import Signature


class LateOps:
    """The ops that were made after a session's first training step was planned."""

    def __init__(self) -> None:
        self._sites: set[Site] = set()
        self._again: dict[str, Op] = {}
        self._told = False

    def note(self, ops: Iterable[Op]) -> None:
        """Takes in what was made since the run before."""
        made = [op for op in ops if op.site is not None]
        self._again.update((op.name, op) for op in made if op.site in self._sites)
        self._sites.update(op.site for op in made if op.site is not None)

    def found(self, signature: Signature) -> Op | None:
        """An op of a run that is made anew, by a line that made some before an earlier run."""
        names = [*signature.targets, *(split_tensor(t)[0] for t in (*signature.fetches, *signature.feeds))]
        return next((self._again[name] for name in names if name in self._again), None)

    def notice(self, op: Op) -> str:
        """What to tell of such an op; empty after the first."""
        if self._told:
            return ""
        self._told = True
        return (
            f"the script makes ops anew between its runs, such as '{op.name}' at {op.site}: each such run is planned "
            "anew and the graph grows; make them once, before the first run"
        )
