"""Runs a case under plain TensorFlow and under Whale, in this process, and says how the two differ."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.numerics.case import Body, Case
from tests.numerics.process import start_tensorflow
from tests.numerics.recording import Recording, differences

SEED = 7
"""Graph seed and numpy seed of every case."""

Setting = Callable[[], contextlib.AbstractContextManager[Sequence[Any]]]
"""Makes the surroundings in which a script runs; the context is the list of the reports of its run signatures."""


@contextlib.contextmanager
def plain() -> Iterator[Sequence[Any]]:
    """Nothing but TensorFlow: no reports."""
    yield ()


def whale(devices: int, check: str = "off") -> Setting:
    """Whale on ``devices`` CPU devices of this process, the script's batch being the global one.

    ``check`` says whether gradients are compared before the first update.

    Raises:
        ImportError: when entered, if Whale's runtime is not there; plain runs do not need it.
    """

    @contextlib.contextmanager
    def setting() -> Iterator[Sequence[Any]]:
        from whale.cluster import Cluster
        from whale.config import Config
        from whale.runtime.activation import activate
        from whale.runtime.options import Options

        config = Config({"random.mode": "exact", "check.mode": check})
        with activate(Options(cluster=Cluster.local(devices), batch="global", config=config)) as activation:
            yield activation.reports

    return setting


def run(case: Case, setting: Setting) -> tuple[Recording, list[Any]]:
    """What the case records in a setting, and the reports of its run signatures (none when plain)."""
    return _run_parts(case, setting, setting)


def handed_over(case: Case, writer: Setting, reader: Setting) -> Recording:
    """What a case records when its script runs in one setting and its reader in another, over the same files."""
    return _run_parts(case, writer, reader)[0]


def _run_parts(case: Case, writer: Setting, reader: Setting) -> tuple[Recording, list[Any]]:
    recording = Recording()
    parts = [(case.body, writer)] + ([(case.reader, reader)] if case.reader else [])
    seen: list[Any] = []
    with tempfile.TemporaryDirectory(prefix="numerics_") as workdir:
        for body, setting in parts:
            seen += _run_body(body, recording, Path(workdir), setting)
    return recording, seen


def _run_body(body: Body, recording: Recording, workdir: Path, setting: Setting) -> list[Any]:
    tf = start_tensorflow()
    np.random.seed(SEED)
    with setting() as reports, _own_defaults(tf), tf.Graph().as_default():
        tf.set_random_seed(SEED)
        body(tf, recording, workdir)
        return list(reports)


@contextlib.contextmanager
def _own_defaults(tf: Any) -> Iterator[None]:
    """Undo the process-wide switches that a script may set at its top."""
    try:
        yield
    finally:
        tf.disable_control_flow_v2()
        tf.disable_resource_variables()


def faults(case: Case, expected: Recording, actual: Recording, reports: Sequence[Any]) -> list[str]:
    """Sentences, one for each expectation of the case that its run under Whale did not meet."""
    found = differences(expected, actual, case.tolerance)
    training = [report for report in reports if report.trains]
    silent = [report for report in training if not report.cut and not report.reason]
    if silent:
        found.append(f"{len(silent)} training signatures ran on one replica without a reason")
    if case.cut and not any(report.cut for report in training):
        reasons = sorted({report.reason for report in training}) or ["no run signature trains"]
        found.append("the training step was not cut: " + "; ".join(reasons))
    return found
