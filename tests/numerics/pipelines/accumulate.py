"""Runs a script with gradient accumulation: micro-batches without stages."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import whale as wh
from tests.numerics.pipelines.compare import script_case
from tests.numerics.pipelines.scopes import NoScopes
from tests.numerics.runner import Setting, run
from whale.cluster import Cluster
from whale.runtime.activation import activate
from whale.runtime.options import Options


def accumulating(micro_batches: int, devices: int, mode: str) -> Setting:
    """Whale with micro-batches and without stages."""

    @contextlib.contextmanager
    def setting() -> Iterator[Sequence[Any]]:
        config = {"batch.mode": mode, "random.mode": "exact", "pipeline.num_micro_batch": micro_batches}
        options = Options(cluster=Cluster.local(devices), config=wh.Config(config), quiet=True)
        with activate(options) as activation:
            yield activation.reports

    return setting


class Unscoped(NoScopes):
    """No scopes, of a script that runs under Whale all the same."""


def _without_scopes(script: Any, tf: Any, record: Any, workdir: Path) -> None:
    script(tf, record, workdir, Unscoped())


def trained(script: Any, micro_batches: int, devices: int, mode: str = "global") -> tuple[Any, Any]:
    """What a script records, and the report of its training step."""
    case = dataclasses.replace(script_case(script, None), body=functools.partial(_without_scopes, script))
    actual, reports = run(case, accumulating(micro_batches, devices, mode))
    return actual, next(report for report in reports if report.trains and report.cut)
