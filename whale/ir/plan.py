"""A plan as data: which devices hold copies, with which share of the batch.

A plan file is JSON::

    {"version": 1, "devices": ["/device:GPU:0", "/device:GPU:1"], "shares": [3, 1], "batch": "global"}
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, cast

from whale.errors import PlanError, Site, nearest

VERSION = 1
"""Version of the file format."""

BATCH_MODES = ("", "global", "local")

EXAMPLE = '{"version": 1, "shares": [1, 1]}'
"""The shortest plan for two devices."""


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
        if self.batch not in BATCH_MODES:
            near = nearest(self.batch, BATCH_MODES[1:])
            raise PlanError(f"the batch mode {self.batch!r} is unknown", fix=near or "write 'global' or 'local'")


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
        raise PlanError(
            f"not JSON: {error.msg}", site=Site(path, error.lineno), fix=f"write it like {EXAMPLE}"
        ) from None
    except (ValueError, RecursionError):  # a number of thousands of digits, or lists nested as deeply
        raise PlanError(f"{path}: not a plan", fix=f"write it like {EXAMPLE}") from None
    if not isinstance(data, dict):
        kind = type(data).__name__
        raise PlanError(f"{path}: a plan is a JSON object, got {kind}", fix=f"write it like {EXAMPLE}")
    fields = cast(Mapping[str, Any], data)
    known = ("version", "devices", "shares", "batch")
    for name in fields:
        if name not in known:
            raise PlanError(
                f"{path}: unknown field {name!r}", fix=nearest(name, known) or f"fields: {', '.join(known)}"
            )
    if fields.get("version") != VERSION:
        raise PlanError(
            f"{path}: field 'version' is {fields.get('version')!r}, this Whale reads {VERSION}",
            fix=f"set it to {VERSION}, or use the Whale that wrote the plan",
        )
    batch = fields.get("batch", "")
    if not isinstance(batch, str):
        raise PlanError(f"{path}: field 'batch' must be text, got {batch!r}", fix='write "global" or "local"')
    try:
        return Plan(
            shares=tuple(_list(fields, "shares", int)),
            devices=tuple(_list(fields, "devices", str)) if "devices" in fields else (),
            batch=batch,
        )
    except PlanError as error:
        raise PlanError(f"{path}: {error.what}", fix=error.fix) from None


def _list(fields: Mapping[str, Any], name: str, kind: type) -> list[Any]:
    value = fields.get(name)
    items = cast("list[Any]", value) if isinstance(value, list) else None
    if items is None or any(not isinstance(i, kind) or isinstance(i, bool) for i in items):
        what = "integers" if kind is int else "device strings"
        found = "it is missing" if name not in fields else f"got {value!r}"
        raise PlanError(f"field {name!r} must be a list of {what}: {found}", fix=f"write it like {EXAMPLE}")
    return items
