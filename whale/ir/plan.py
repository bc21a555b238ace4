"""A plan as data: which devices hold copies, with which share of the batch.

A plan file is JSON::

    {"version": 1, "devices": ["/device:GPU:0", "/device:GPU:1"], "shares": [3, 1], "batch": "global"}
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, cast

from whale.errors import PlanError, nearest

VERSION = 1
"""Version of the file format."""

BATCH_MODES = ("", "global", "local")


@dataclasses.dataclass(frozen=True)
class Plan:
    """How a script runs on a cluster."""

    shares: tuple[int, ...]
    """Relative share of the batch of each device, integers >= 0, at least one > 0."""
    devices: tuple[str, ...] = ()
    """Device strings in the order of the shares; empty for the cluster's own order."""
    batch: str = ""
    """Batch mode; empty to leave it to the script and the command line."""

    def __post_init__(self) -> None:
        """Checks the shares.

        Raises:
            PlanError: a share is negative, all are zero, or devices and shares differ in number.
        """
        if not self.shares or any(s < 0 for s in self.shares) or not any(self.shares):
            raise PlanError(f"the shares {list(self.shares)} must be integers >= 0, at least one of them > 0")
        if self.devices and len(self.devices) != len(self.shares):
            raise PlanError(f"the plan names {len(self.devices)} devices and {len(self.shares)} shares")
        if self.batch not in BATCH_MODES:
            raise PlanError(f"the batch mode {self.batch!r} is unknown", fix=nearest(self.batch, BATCH_MODES[1:]))


def dump(plan: Plan) -> str:
    """A plan as the text of a plan file."""
    data = {
        "version": VERSION,
        "devices": list(plan.devices),
        "shares": list(plan.shares),
        "batch": plan.batch,
    }
    return json.dumps(data, indent=2) + "\n"


def load(text: str, path: str = "plan") -> Plan:
    """Reads the text of a plan file.

    Raises:
        PlanError: it is not JSON, or a field is unknown, missing or of the wrong type; the message names it.
    """
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise PlanError(f"{path}:{error.lineno}: not JSON: {error.msg}") from None
    if not isinstance(data, dict):
        raise PlanError(f"{path}: a plan is a JSON object, got {type(data).__name__}")
    fields = cast(Mapping[str, Any], data)
    known = ("version", "devices", "shares", "batch")
    for name in fields:
        if name not in known:
            raise PlanError(f"{path}: unknown field {name!r}", fix=nearest(name, known))
    if fields.get("version") != VERSION:
        raise PlanError(f"{path}: field 'version' is {fields.get('version')!r}, this Whale reads {VERSION}")
    return Plan(
        shares=tuple(_list(fields, "shares", int, path)),
        devices=tuple(_list(fields, "devices", str, path)) if "devices" in fields else (),
        batch=str(fields.get("batch", "")),
    )


def _list(fields: Mapping[str, Any], name: str, kind: type, path: str) -> list[Any]:
    value = fields.get(name)
    items = cast("list[Any]", value) if isinstance(value, list) else None
    if items is None or any(not isinstance(i, kind) or isinstance(i, bool) for i in items):
        raise PlanError(f"{path}: field {name!r} must be a list of {kind.__name__}, got {value!r}")
    return items
