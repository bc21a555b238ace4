"""What the user chose for a process."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from whale.cluster import CATALOGUE, Catalogue, Cluster, restrict, visible_devices
from whale.config import Config
from whale.config.setting import script_site
from whale.cost_model import Coefficients
from whale.errors import ClusterError, PlanError
from whale.ir.plan import Plan
from whale.runtime.plan_file import PlanFile

if TYPE_CHECKING:
    from whale.annotations.state import Annotations


@dataclasses.dataclass(frozen=True)
class Options:
    """Devices, strategy and modes of a run, from the command line or ``whale.init``."""

    cluster: Cluster
    """The devices."""
    visible: tuple[int, ...] = ()
    """Where ``cluster`` is part of a larger one: the number that each of its compute devices had there, which is what
    TensorFlow is to be told. Empty when it is the whole."""
    strategy: str = ""
    """``auto``, ``replica``, ``annotated``, or empty: what the script's scopes say, else copies on all devices."""
    batch: str = ""
    """``global``, ``local``, or empty: local for scripts that use annotations, else global."""
    plan_file: PlanFile | None = None
    """The plan to follow, where the user chose one."""
    config: Config = dataclasses.field(default_factory=Config)
    """Everything else."""
    quiet: bool = False
    """Whether plans are kept off standard error."""
    catalogue: Catalogue = CATALOGUE
    """What a planner knows of devices and links."""
    coefficients: Coefficients | None = None
    """Its fitted numbers; None for those that ship with Whale."""

    def under(self, config: Config) -> Options:
        """These options, of a whole cluster, when a configuration is in force, which may leave some devices out.

        Raises:
            ClusterError: ``cluster.run_visible_devices`` names a device that does not exist.
        """
        chosen = config.cluster.run_visible_devices
        cluster = restrict(self.cluster, chosen)
        visible = visible_devices(chosen, len(self.cluster.compute_devices)) if chosen else ()
        return dataclasses.replace(self, cluster=cluster, visible=visible, config=config)

    def shown_gpus(self, by_script: str) -> str:
        """The GPUs of the machine that TensorFlow is to see: those of the cluster, and no others.

        Args:
            by_script: the ``visible_device_list`` of the script's own session, or empty. Whale's numbers then count
                within it, as TensorFlow's do.

        Returns:
            A ``visible_device_list``; TensorFlow numbers its GPUs from 0 in this order.

        Raises:
            ClusterError: the script's list has fewer GPUs than the cluster needs.
        """
        numbers = self.visible or range(len(self.cluster.compute_devices))
        if not by_script.strip():
            return ",".join(str(number) for number in numbers)
        seen = [number.strip() for number in by_script.split(",")]
        if max(numbers) >= len(seen):
            raise ClusterError(
                f"the session's visible_device_list {by_script!r} shows TensorFlow {len(seen)} GPU(s), and Whale is to "
                f"use {len(numbers)}",
                site=script_site(),
                fix="remove it from the script's ConfigProto, and choose GPUs with cluster.run_visible_devices",
            )
        return ",".join(seen[number] for number in numbers)

    def plan(self) -> Plan:
        """The plan to follow: the file's, completed from the cluster, or equal shares for all devices.

        Raises:
            PlanError: the file was made for other devices.
        """
        devices = tuple(d.name for d in self.cluster.compute_devices)
        if self.plan_file is None:
            return Plan((1,) * len(devices), devices)
        plan = self.plan_file.plan
        self._check_models(self.plan_file)
        if not plan.devices and len(plan.shares) <= len(devices):
            plan = dataclasses.replace(plan, devices=devices[: len(plan.shares)])
        named = {*plan.devices, *(device for stage in plan.stages for device in stage.devices)}
        if not named <= set(devices) or len(plan.shares) > len(devices):
            wanted = ", ".join(sorted(named)) or f"{len(plan.shares)} devices"
            raise PlanError(
                f"{self.plan_file.path}: the plan is for {wanted}; the cluster has {', '.join(devices)}",
                fix="make the plan for this cluster, or pass the --devices or --cluster it was made for",
            )
        return plan

    def _check_models(self, file: PlanFile) -> None:
        """Refuses a plan for other devices. Those of a machine that nobody described are told by their kind alone."""
        models = [device.model for device in self.cluster.compute_devices]
        if not file.plan.models or set(models) <= _KINDS or tuple(models) == file.plan.models:
            return
        raise PlanError(
            f"{file.path}: the plan is for the devices {counted_models(file.plan.models)}; the cluster has "
            f"{counted_models(models)}",
            fix="make the plan for this cluster: whale plan --cluster FILE --json PLAN",
        )

    def space(self, said: Annotations | None) -> str:
        """What a session's plan is searched in (``planning.decide.SPACES``); empty to search none.

        Args:
            said: the graph's annotations; None for a script without any.
        """
        if self.plan_file is not None or self.strategy == "annotated" or self.draws_locally(said):
            return ""  # copies that draw their own batches set the batch of a step by their number: one on each device
        asked = said.auto if said is not None else None
        if self.strategy == "auto" or (asked is not None and self.strategy != "replica"):
            return "what runs"
        kinds = {(device.model, device.memory_bytes) for device in self.cluster.compute_devices}
        return "shares only" if len(kinds) > 1 else ""

    def draws_locally(self, said: Annotations | None) -> bool:
        """Whether every copy of a graph draws its own batch.

        Args:
            said: the graph's annotations; None for a script without any.
        """
        mode = self.batch or self.plan().batch or self.config.batch.mode
        return (mode or ("global" if said is None else "local")) == "local"

    def plan_for(self, said: Annotations | None) -> tuple[Plan, str]:
        """The plan for one graph: what the script said about it narrows ``plan``, as far as ``strategy`` lets it.

        Args:
            said: the graph's annotations; None for a script without any.

        Returns:
            The plan, and why it is one device although there are more; empty when it is not.

        Raises:
            PlanError: as ``plan``.
        """
        plan = self.plan()
        if self.strategy == "replica" or self.plan_file is not None:
            return plan, ""
        if self.strategy == "annotated" and (said is None or not said.asks_for_replicas):
            return Plan((1,), plan.devices[:1], plan.batch), (
                "no scope of the script asks for copies of this graph, and --strategy annotated adds none"
            )
        named = set(said.devices) if said is not None else set()
        # In the cluster's order: its first device is where TensorFlow puts what is pinned nowhere.
        devices = tuple(device for device in plan.devices if device in named)
        if not devices or len(devices) == len(plan.devices):
            return plan, ""
        reason = f"the script's scopes name the one device {devices[0]}" if len(devices) == 1 else ""
        return Plan((1,) * len(devices), devices, plan.batch), reason


_KINDS = frozenset({"CPU", "GPU"})


def counted_models(models: Sequence[str]) -> str:
    """Devices as ``8 x V100, 8 x P100``."""
    return ", ".join(f"{models.count(model)} x {model}" for model in dict.fromkeys(models))
