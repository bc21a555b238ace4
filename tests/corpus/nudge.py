"""Run a tracing launcher with every fed float moved to a neighbour: how far rounding alone drives a script.

usage: python tests/corpus/nudge.py SEED launcher.py script.py [script arguments]

Each element of a fed float array of one dim or more stays or becomes the next float away from zero, at random from
SEED. Whole numbers (labels, masks), scalars (learning rates) and integers stay. No program can be asked to agree with
itself more closely than under such a change, for rounding its first product does as much.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np


def nudged(value: Any, random: np.random.Generator) -> Any:
    """``value``, about half of its elements moved to the next float away from zero."""
    array = np.asarray(value)
    if array.dtype.kind != "f" or not array.ndim:
        return value
    beyond = np.nextafter(array, np.copysign(array.dtype.type(np.inf), array))
    moves = (random.random(array.shape) < 0.5) & np.isfinite(array) & (array != np.rint(array))
    return np.where(moves, beyond, array)


def install(random: np.random.Generator) -> None:
    """Nudge what every session is fed."""
    from tensorflow.python.client import session as session_module

    base: Any = session_module.BaseSession
    do_run = base._do_run

    def nudged_run(
        session: Any, handle: Any, targets: Any, fetches: Any, feeds: Any, options: Any, metadata: Any
    ) -> Any:
        moved = {tensor: nudged(value, random) for tensor, value in feeds.items()}
        return do_run(session, handle, targets, fetches, moved, options, metadata)

    base._do_run = nudged_run


def main() -> None:
    """Start the launcher named on the command line as if Python had."""
    seed, launcher = int(sys.argv[1]), sys.argv[2]
    install(np.random.default_rng(seed))
    sys.argv = sys.argv[2:]
    sys.path[0] = str(Path(launcher).resolve().parent)
    runpy.run_path(launcher, run_name="__main__")


if __name__ == "__main__":
    main()
