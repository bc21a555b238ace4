"""TensorFlow's device strings: written, and read in the forms scripts use."""

from __future__ import annotations

import dataclasses
import re

from whale.cluster.models import KIND_BY_NAME, Kind
from whale.errors import ClusterError

_DEVICE = re.compile(r"(?:device:)?(cpu|gpu):([0-9]{1,6})", re.IGNORECASE)
_NUMBERED = re.compile(r"(replica|task):([0-9]{1,6})")
_JOB = re.compile(r"job:([A-Za-z][A-Za-z0-9_-]*)")


@dataclasses.dataclass(frozen=True)
class DeviceName:
    """What a device string says; a part it leaves out is None."""

    kind: Kind
    index: int
    task: int | None = None
    job: str | None = None
    replica: int | None = None


def format_name(kind: Kind, index: int, task: int, job: str) -> str:
    """The canonical string: ``/device:CPU:1`` without a job, else ``/job:worker/replica:0/task:2/device:GPU:1``."""
    device = f"/device:{kind}:{index}"
    return f"/job:{job}/replica:0/task:{task}{device}" if job else device


def parse_name(text: str) -> DeviceName:
    """Reads ``/job:worker/replica:0/task:0/device:GPU:1``, ``/device:GPU:1``, ``/gpu:1`` or ``GPU:1``.

    Raises ClusterError when the text is none of these.
    """
    device: tuple[Kind, int] | None = None
    numbers: dict[str, int] = {}
    job: str | None = None
    for part in text.strip().lstrip("/").split("/"):
        if match := _DEVICE.fullmatch(part):
            device = (KIND_BY_NAME[match.group(1).upper()], int(match.group(2)))
        elif match := _NUMBERED.fullmatch(part):
            numbers[match.group(1)] = int(match.group(2))
        elif match := _JOB.fullmatch(part):
            job = match.group(1)
        else:
            raise _not_a_name(text)
    if device is None:
        raise _not_a_name(text)
    return DeviceName(device[0], device[1], numbers.get("task"), job, numbers.get("replica"))


def _not_a_name(text: str) -> ClusterError:
    return ClusterError(
        f"{text!r} is not a device string",
        fix="write it like '/job:worker/replica:0/task:0/device:GPU:1', '/device:GPU:1' or '/gpu:1'",
    )
