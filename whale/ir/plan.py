"""A plan as data: which devices hold copies, with which share of the batch, and how a step is taken apart.

A plan file is JSON. The shortest gives shares; ``whale plan --json`` writes all there is::

    {"version": 1, "devices": ["/device:GPU:0", "/device:GPU:1"], "shares": [3, 1], "batch": "global"}
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from whale.config.schedule_names import canonical
from whale.errors import PlanError, ScheduleError, Site, nearest
from whale.ir.program import Op

VERSION = 1
"""Version of the file format."""

BATCH_MODES = ("", "global", "local")

EXAMPLE = '{"version": 1, "shares": [1, 1]}'
"""The shortest plan for two devices."""


@dataclasses.dataclass(frozen=True)
class PlannedStage:
    """One stage of a planned pipeline."""

    devices: tuple[str, ...]
    """Its device in each replica."""
    ops: tuple[str, ...] = ()
    """Patterns of its forward ops (``patterns.py``); empty for a stage that the script names."""
    name: str = ""
    """For messages."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """How a script runs on a cluster."""

    shares: tuple[int, ...]
    """Relative share of the batch of each replica, integers >= 0, at least one > 0."""
    devices: tuple[str, ...] = ()
    """Device strings in the order of the shares; of a pipeline, those of its first stage. Empty for the cluster's own
    order."""
    batch: str = ""
    """Batch mode; empty to leave it to the script and the command line."""
    micro_batches: int = 0
    """Pieces that a replica's samples are cut into; 0 to leave it to the script."""
    schedule: str = ""
    """Name of a pipeline's schedule; empty to leave it to the script."""
    stages: tuple[PlannedStage, ...] = ()
    """The stages of a pipeline, in data-flow order; empty without."""
    graph: str = ""
    """Print of the training step that it was made for (``graph_print``); empty where it suits any."""
    models: tuple[str, ...] = ()
    """Models of the cluster's devices that it was made for; empty where it suits any."""

    def __post_init__(self) -> None:
        """Checks the shares.

        Raises:
            PlanError: a share is negative, all are zero, devices and shares differ in number, a device is named twice,
                or the batch mode is unknown.
        """
        if not self.shares or any(s < 0 for s in self.shares) or not any(self.shares):
            raise PlanError(
                f"the shares {list(self.shares)} must be integers >= 0, at least one of them > 0",
                fix="give each device its part of the batch: [1, 1] halves it, [3, 1] gives the first three quarters",
            )
        if self.devices and len(self.devices) != len(self.shares):
            raise PlanError(
                f"the plan names {len(self.devices)} devices and {len(self.shares)} shares",
                fix="give one share for each device, or leave 'devices' out to take the cluster's own",
            )
        for device in self.devices:
            if self.devices.count(device) > 1:
                # Its two copies would wait for each other in one collective, which knows devices, not copies.
                raise PlanError(
                    f"the plan names device {device!r} twice", fix="name each device once, with its whole share"
                )
        if self.micro_batches < 0:
            raise PlanError(f"{self.micro_batches} micro-batches", fix="give at least one, or 0 for the script's own")
        self._check_stages()
        if self.batch not in BATCH_MODES:
            near = nearest(self.batch, BATCH_MODES[1:])
            raise PlanError(f"the batch mode {self.batch!r} is unknown", fix=near or "write 'global' or 'local'")

    def _check_stages(self) -> None:
        rows = {stage.devices for stage in self.stages}
        for number, stage in enumerate(self.stages):
            if len(stage.devices) != len(self.shares):
                raise PlanError(
                    f"stage {number} has {len(stage.devices)} devices, and there are {len(self.shares)} shares",
                    fix="give each stage one device for each replica",
                )
            if bool(stage.ops) != bool(self.stages[0].ops):
                raise PlanError(
                    f"stage {number} and stage 0 do not both name their ops",
                    fix="give every stage patterns of its ops, or none for the script's own stages",
                )
        every = [device for row in rows for device in row]
        for device in every:
            if every.count(device) > 1:
                raise PlanError(f"two stages or replicas are on device {device!r}", fix="give each its own")


def graph_print(ops: Iterable[Op]) -> str:
    """A print of a training step: equal for equal ops with equal inputs and shapes, whatever is added beside them."""
    lines = sorted(" ".join((op.name, op.type, *op.inputs, *map(str, op.outputs))) for op in ops)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def dump(plan: Plan, report: Mapping[str, Any] | None = None) -> str:
    """A plan as the text of a plan file; ``report`` is what else is told of it, which ``load`` passes over."""
    data: dict[str, Any] = {
        "version": VERSION,
        "devices": list(plan.devices),
        "shares": list(plan.shares),
        "batch": plan.batch,
        "micro_batches": plan.micro_batches,
        "schedule": plan.schedule,
        "stages": [{"name": s.name, "devices": list(s.devices), "ops": list(s.ops)} for s in plan.stages],
        "graph": plan.graph,
        "models": list(plan.models),
    }
    if report is not None:
        data["report"] = report
    return json.dumps(data, indent=2) + "\n"


def load(text: str, path: str = "plan") -> Plan:
    """Reads the text of a plan file.

    Raises:
        PlanError: it is not JSON, or a field is unknown, missing or of the wrong type; the message names it.
    """
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise PlanError(
            f"not JSON: {error.msg}", site=Site(path, error.lineno), fix=f"write it like {EXAMPLE}"
        ) from None
    except (ValueError, RecursionError):  # a number of thousands of digits, or lists nested as deeply
        raise PlanError(f"{path}: not a plan", fix=f"write it like {EXAMPLE}") from None
    try:
        fields = _object(data, "a plan", _FIELDS)
        if fields.get("version") != VERSION:
            raise PlanError(
                f"field 'version' is {fields.get('version')!r}, this Whale reads {VERSION}",
                fix=f"set it to {VERSION}, or use the Whale that wrote the plan",
            )
        return Plan(
            shares=tuple(_list(fields, "shares", int)),
            devices=tuple(_list(fields, "devices", str)) if "devices" in fields else (),
            batch=_text(fields, "batch", 'write "global" or "local"'),
            micro_batches=_number(fields, "micro_batches"),
            schedule=_schedule(fields),
            stages=tuple(_stage(item) for item in _list(fields, "stages", dict)) if "stages" in fields else (),
            graph=_text(fields, "graph", "leave it out to follow the plan for any graph"),
            models=tuple(_list(fields, "models", str)) if "models" in fields else (),
        )
    except PlanError as error:
        raise PlanError(f"{path}: {error.what}", fix=error.fix) from None


_FIELDS = (
    *("version", "devices", "shares", "batch", "micro_batches", "schedule", "stages", "graph", "models"),
    "report",
)


def _stage(item: Any) -> PlannedStage:
    fields = _object(item, "a stage", ("name", "devices", "ops"))
    return PlannedStage(
        devices=tuple(_list(fields, "devices", str)),
        ops=tuple(_list(fields, "ops", str)) if "ops" in fields else (),
        name=_text(fields, "name", "write any text"),
    )


def _object(data: Any, what: str, known: Sequence[str]) -> Mapping[str, Any]:
    if not isinstance(data, dict):
        raise PlanError(f"{what} is a JSON object, got {type(data).__name__}", fix=f"write it like {EXAMPLE}")
    fields = cast("Mapping[str, Any]", data)
    for name in fields:
        if name not in known:
            raise PlanError(f"unknown field {name!r}", fix=nearest(name, known) or f"fields: {', '.join(known)}")
    return fields


def _schedule(fields: Mapping[str, Any]) -> str:
    text = _text(fields, "schedule", "write the name of a schedule, or leave it out")
    try:
        return canonical(text) if text else ""
    except ScheduleError as error:
        raise PlanError(f"field 'schedule': {error.what}", fix=error.fix) from None


def _text(fields: Mapping[str, Any], name: str, fix: str) -> str:
    value = fields.get(name, "")
    if not isinstance(value, str):
        raise PlanError(f"field {name!r} must be text, got {value!r}", fix=fix)
    return value


def _number(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name, 0)
    if not isinstance(value, int) or isinstance(value, bool):
        raise PlanError(f"field {name!r} must be an integer, got {value!r}", fix="give a number >= 0")
    return value


def _list(fields: Mapping[str, Any], name: str, kind: type) -> list[Any]:
    value = fields.get(name)
    items = cast("list[Any]", value) if isinstance(value, list) else None
    if items is None or any(not isinstance(i, kind) or isinstance(i, bool) for i in items):
        what = {int: "integers", str: "strings", dict: "objects"}[kind]
        found = "it is missing" if name not in fields else f"got {value!r}"
        raise PlanError(f"field {name!r} must be a list of {what}: {found}", fix=f"write it like {EXAMPLE}")
    return items
