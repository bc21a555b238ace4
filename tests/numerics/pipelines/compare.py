"""Runs a script as a pipeline and by plain TensorFlow on one device, and says how the two differ."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import whale as wh
from tests.numerics.case import ALL_VERSIONS, Case, Record
from tests.numerics.pipelines.scopes import Cut, NoScopes, StageScopes
from tests.numerics.recording import Recording, differences
from tests.numerics.runner import Setting, faults, plain, run
from whale.cluster import Cluster
from whale.runtime.activation import activate
from whale.runtime.options import Options

Script = Callable[[Any, Record, Path, NoScopes], None]
"""The body of a case, which enters the scopes it is given: ``script(tf, record, workdir, scopes)``."""


def script_case(script: Script, cut: Cut | None, tolerance: float = 1e-5, reason: str = "") -> Case:
    """A case of ``tests.numerics`` that runs a script under the scopes of a cut; None: without scopes."""

    def body(tf: Any, record: Record, workdir: Path) -> None:
        script(tf, record, workdir, NoScopes() if cut is None else StageScopes(cut))

    return Case(script.__name__, body, True, tolerance, reason, ALL_VERSIONS, False, (), None, "")


def pipelined(cut: Cut, mode: str, settings: Mapping[str, Any] | None = None) -> Setting:
    """Whale on the devices of a cut, initialised as an annotated script does it.

    Args:
        cut: how many devices, and the micro-batches where they are configured.
        mode: ``global`` or ``local``.
        settings: more configuration.
    """

    @contextlib.contextmanager
    def setting() -> Iterator[Sequence[Any]]:
        config: dict[str, Any] = {"batch.mode": mode, "random.mode": "exact", "check.mode": "off"}
        if cut.epl:
            config |= {"pipeline.num_micro_batch": cut.micro_batches, "pipeline.strategy": cut.schedule}
        with activate(Options(cluster=Cluster.local(cut.devices), quiet=True)) as activation:
            wh.init(wh.Config(config | dict(settings or {})))
            try:
                yield activation.reports
            finally:
                wh.shutdown()

    return setting


def on_one_device(script: Script) -> Recording:
    """What plain TensorFlow records."""
    return run(script_case(script, None), plain)[0]


def compare(
    script: Script,
    cut: Cut,
    expected: Recording | None = None,
    *,
    mode: str = "global",
    tolerance: float = 1e-5,
    settings: Mapping[str, Any] | None = None,
) -> str:
    """Asserts that a script records under a pipeline what ``expected`` holds (None: what it records on one device).

    Returns:
        The text of the plan of its training step.
    """
    expected = on_one_device(script) if expected is None else expected
    case = script_case(script, cut, tolerance)
    actual, reports = run(case, pipelined(cut, mode, settings))
    training = [report for report in reports if report.trains and report.cut]
    problems = [*faults(case, expected, actual, reports), *plan_faults(cut, training)]
    assert not problems, "\n".join([f"{script.__name__} as a pipeline: {cut}, {mode}", *problems[:20]])
    return training[0].text()


def plan_faults(cut: Cut, reports: Sequence[Any]) -> Iterator[str]:
    """What the plans of training steps lack of a pipeline."""
    for report in reports:
        text = report.text()
        micro = _counted(cut.micro_batches, "micro-batch", "micro-batches")
        devices = _counted(cut.devices_per_replica, "device", "devices")
        shape = f"{cut.stages} stages on {devices}, {micro}"
        for wanted in (micro, *(f"stage {number} " for number in range(cut.stages))):
            if wanted not in text:
                yield f"the plan does not say {wanted!r}:\n{text}"
        if not cut.device_counts and shape not in text:
            yield f"the plan's schedule is not of {shape}:\n{text}"


def _counted(count: int, one: str, more: str) -> str:
    return f"{count} {one if count == 1 else more}"


def same(expected: Recording, actual: Recording, tolerance: float = 1e-5) -> None:
    """Asserts that two recordings agree."""
    problems = differences(expected, actual, tolerance)
    assert not problems, "\n".join(problems[:20])
