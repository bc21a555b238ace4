"""Run a TF1 script and record what its ``Session.run`` calls fetched; started by ``whale run``, not by Python.

usage: whale run [options] tests/corpus/trace.py --out FILE [--max-runs N] [--seed S] script.py [script arguments]

The JSON written holds how the script ended, the number of runs, for each run the floats it fetched (arrays as their
sum) and the shape and L2 norm of every global variable of the session closed last: what `compare` reads. Random
generators of Python, numpy and every graph start from the seed, and ``set_random_seed(None)``, which Estimator calls,
keeps it. After ``--max-runs`` runs the process ends at once with code 0: no thread of the script can keep it alive.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import runpy
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tests.corpus import stand_ins

LARGEST_ROW = 40
"""Floats kept of one run."""
LARGEST_LIST = 50
"""Elements looked at in one fetched list."""
DEEPEST_LIST = 4
"""Levels of lists looked at in one fetched structure."""


class Recorder:
    """Counts runs, keeps their floats and the variables of the session closed last, and ends the process in time."""

    def __init__(self, out: Path, max_runs: int) -> None:
        self._out = out
        self._max_runs = max_runs
        self._lock = threading.RLock()  # queue runners and other threads of a script run as well
        self._inside = threading.local()
        self._runs = 0
        self._rows: list[tuple[int, list[float]]] = []
        self._variables: dict[str, Any] = {}

    def install(self, session: Any) -> None:
        """Record the runs of a session class and of what derives from it."""
        run, close = session.run, session.close

        def recorded_run(self_: Any, fetches: Any, *args: Any, **kwargs: Any) -> Any:
            if getattr(self._inside, "yes", False):
                return run(self_, fetches, *args, **kwargs)
            self._inside.yes = True
            try:
                result = run(self_, fetches, *args, **kwargs)
            finally:
                self._inside.yes = False
            self._record(self_, result)
            return result

        def recorded_close(self_: Any) -> Any:
            if threading.current_thread() is threading.main_thread():
                self._read_variables(self_)
            return close(self_)

        session.run, session.close = recorded_run, recorded_close

    def write(self, ending: str) -> None:
        """Write the trace."""
        trace = {"why": ending, "runs": self._runs, "rows": self._rows, "vars": self._variables}
        self._out.write_text(json.dumps(trace), encoding="utf-8")

    def _record(self, session: Any, result: Any) -> None:
        with self._lock:
            self._runs += 1
            row = floats(result)[:LARGEST_ROW]
            if row:
                self._rows.append((self._runs, row))
            if self._runs == self._max_runs:
                self._read_variables(session)
                self.write("max_runs")
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(0)

    def _read_variables(self, session: Any) -> None:
        found: dict[str, Any] = {}
        self._inside.yes = True
        try:
            for variable, value in values_of(session, session.graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)):
                if isinstance(value, str):
                    found[variable.op.name] = value
                elif value.dtype.kind in "fiu":
                    norm = float(np.sqrt(np.sum(np.square(value.astype(np.float64)))))
                    found[variable.op.name] = (value.shape, norm)
        finally:
            self._inside.yes = False
        if not all(value == "unread: RuntimeError" for value in found.values()) or not self._variables:
            self._variables = found


def values_of(session: Any, variables: Sequence[Any]) -> list[tuple[Any, np.ndarray | str]]:
    """Variables with their values, or why one cannot be read: not initialised, or the session is closed.

    They are read in one run, because the first run of each set of fetches costs time that grows with the graph.
    """
    try:
        return [(v, np.asarray(value)) for v, value in zip(variables, session.run(list(variables)))]
    except (tf.errors.OpError, RuntimeError) as error:
        if len(variables) < 2:
            return [(v, f"unread: {type(error).__name__}") for v in variables]
        return [pair for variable in variables for pair in values_of(session, [variable])]


def floats(value: Any, depth: int = 0) -> list[float]:
    """The floats of a fetched structure in order; a float array counts as its sum, anything else not at all."""
    if isinstance(value, (float, np.floating)):
        return [float(value)]
    if isinstance(value, np.ndarray):
        return [float(np.sum(value, dtype=np.float64))] if value.dtype.kind == "f" else []
    if isinstance(value, dict):
        return [number for item in value.values() for number in floats(item, depth + 1)]
    if isinstance(value, (list, tuple)) and depth < DEEPEST_LIST:
        return [number for item in value[:LARGEST_LIST] for number in floats(item, depth + 1)]
    return []


def seed_everything(start: int) -> None:
    """Start Python's, numpy's and every graph's random numbers from ``start``."""
    random.seed(start)
    np.random.seed(start)
    graph_class: Any = tf.Graph
    construct, set_random_seed = graph_class.__init__, tf.set_random_seed

    def construct_seeded(graph: Any, *args: Any, **kwargs: Any) -> None:
        construct(graph, *args, **kwargs)
        graph.seed = start

    def keep_seed(seed: int | None) -> None:
        set_random_seed(start if seed is None else seed)

    graph_class.__init__ = construct_seeded
    tf.get_default_graph().seed = start
    modules: list[Any] = [tf, tf.random]  # Estimator calls the latter's
    for module in modules:
        module.set_random_seed = keep_seed


def allow_soft_placement(session: Any) -> None:
    """Let scripts that pin ``/gpu:0`` run without a GPU."""
    construct = session.__init__

    def softened(self: Any, target: str = "", graph: Any = None, config: Any = None) -> None:
        config = config or tf.ConfigProto()
        config.allow_soft_placement = True
        construct(self, target, graph, config)

    session.__init__ = softened


def defining_class(session: type, method: str) -> Any:
    """The class among the bases of ``session`` that defines ``method``."""
    return next(base for base in session.__mro__ if method in vars(base))


def main() -> None:
    """Trace the script named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the trace to write")
    parser.add_argument("--max-runs", type=int, default=0, help="end the process after so many runs; 0: never")
    parser.add_argument("--seed", type=int, default=1234)
    parser.add_argument("--soft-placement", action="store_true", help="ignore device pins that do not exist")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()

    stand_ins.install()
    seed_everything(options.seed)
    base = defining_class(tf.Session, "run")
    if options.soft_placement:
        allow_soft_placement(base)
    recorder = Recorder(options.out.resolve(), options.max_runs)
    recorder.install(base)

    here = Path(__file__).resolve().parent  # its files must not hide the script's imports
    sys.path[:] = [str(Path(options.script).resolve().parent)] + [
        entry for entry in sys.path if Path(entry or ".").resolve() != here
    ]
    sys.argv = [options.script, *options.arguments]
    try:
        runpy.run_path(options.script, run_name="__main__")
    except SystemExit as stop:
        recorder.write(f"exit {stop.code}")
        raise
    except BaseException as error:
        recorder.write(f"error {type(error).__name__}: {str(error)[:300]}")
        raise
    recorder.write("end")


if __name__ == "__main__":
    main()
