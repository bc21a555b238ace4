"""CPU devices that a planner takes for two fast and two slow ones, and settings that run cases as it plans them."""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from tests.numerics.runner import Setting
from whale.cluster import CATALOGUE, Catalogue, Cluster, DeviceGroup, Host
from whale.planner.ask import Ask, what_runs
from whale.planner.search.options import SearchOptions

FLOPS = {"FastCPU": 2e6, "SlowCPU": 1e6}
"""So few that computing is what costs time in a small model."""


def cluster() -> Cluster:
    """Two of each on one machine."""
    return Cluster((Host.build("host0", [DeviceGroup("CPU", model, None, 2) for model in FLOPS]),))


def catalogue() -> Catalogue:
    """What is known of them."""
    lines = ["device,figure,value,source,confidence"]
    for model, flops in FLOPS.items():
        for figure, value in (("kind", "CPU"), ("fp32_flops", flops), ("memory_bytes_per_second", flops)):
            lines.append(f"{model},{figure},{value},test,read")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "devices.csv"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return CATALOGUE.extended(path)


def one_pipeline(ask: Ask) -> SearchOptions:
    """No copies: the model is cut into stages wherever that helps, also one that needs its whole batch."""
    return dataclasses.replace(what_runs(dataclasses.replace(ask, needs_whole_batch=False)), replicas=1)


def planned(space: Callable[[Ask], SearchOptions] = what_runs) -> Setting:
    """Whale on these devices, with ``--strategy auto`` and a global batch; ``space`` is what is searched."""

    @contextlib.contextmanager
    def setting() -> Iterator[Sequence[Any]]:
        from whale.config import Config
        from whale.runtime.activation import activate
        from whale.runtime.options import Options
        from whale.runtime.planning.decide import SPACES

        config = Config({"random.mode": "exact", "check.mode": "off"})
        options = Options(
            cluster=cluster(), strategy="auto", batch="global", config=config, quiet=True, catalogue=catalogue()
        )
        with mock.patch.dict(SPACES, {"what runs": space}), activate(options) as activation:
            yield activation.reports

    return setting
