"""What the user chose for a process."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from whale.cluster import Cluster
from whale.config import Config
from whale.errors import PlanError
from whale.ir.plan import Plan, load


@dataclasses.dataclass(frozen=True)
class Options:
    """Devices, strategy and modes of a run, from the command line or ``whale.init``."""

    cluster: Cluster
    """The devices."""
    strategy: str = "auto"
    """``auto``, ``replica`` or ``annotated``."""
    batch: str = ""
    """``global``, ``local``, or empty: local for scripts that use annotations, else global."""
    plan_path: str | None = None
    """A plan file to follow."""
    config: Config = dataclasses.field(default_factory=Config)
    """Everything else."""
    quiet: bool = False
    """Whether plans are kept off standard error."""

    def plan(self) -> Plan:
        """The plan to follow: the file's, completed from the cluster, or equal shares for all devices.

        Raises:
            PlanError: the file cannot be read, or was made for other devices.
        """
        devices = tuple(d.name for d in self.cluster.compute_devices)
        if self.plan_path is None:
            return Plan((1,) * len(devices), devices)
        try:
            text = Path(self.plan_path).read_text(encoding="utf-8")
        except OSError as error:
            raise PlanError(f"cannot read the plan file {self.plan_path}: {error.strerror}") from None
        plan = load(text, self.plan_path)
        if not plan.devices and len(plan.shares) <= len(devices):
            plan = dataclasses.replace(plan, devices=devices[: len(plan.shares)])
        strange = [d for d in plan.devices if d not in devices]
        if strange or len(plan.shares) > len(devices):
            named = ", ".join(plan.devices) or f"{len(plan.shares)} devices"
            raise PlanError(
                f"{self.plan_path}: the plan is for {named}; the cluster has {', '.join(devices)}",
                fix="make the plan for this cluster, or pass the --devices or --cluster it was made for",
            )
        return plan
