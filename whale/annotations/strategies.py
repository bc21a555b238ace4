"""Strategies: what a script can ask for, as data. No TensorFlow."""

from __future__ import annotations

import dataclasses
import enum
import operator
from collections.abc import Mapping, Sequence
from typing import SupportsIndex, Union

from whale.config.schedule_names import canonical
from whale.errors import ScheduleError, ScopeError, Site

DeviceNames = tuple[tuple[str, ...], ...]
"""Device strings by replica and position in the replica."""

DevicesArgument = Union[str, SupportsIndex, Sequence[Union[str, Sequence[str]]], None]
"""``devices=`` of a scope: one string, strings, strings per replica (an entry of ``slices``), or a number of devices,
which is how EPL's scripts give ``device_count`` first."""


class Kind(enum.Enum):
    """The strategies, by the name of the function that makes them."""

    REPLICA = "replica"
    """Data parallel copies of what is inside."""
    STAGE = "stage"
    """One part of a pipeline."""
    PIPELINE = "pipeline"
    """Stages that work on micro-batches one behind the other."""
    SPLIT = "split"
    """Operators whose own dims are cut over devices."""


INSTEAD: Mapping[Kind, str] = {
    Kind.SPLIT: "put these ops under wh.replica() as well, which keeps them whole on every device",
}
"""The strategies that cannot be executed in this version, and what works in their place."""


@dataclasses.dataclass(frozen=True)
class Strategy:
    """What one call of ``replica``, ``stage``, ``pipeline`` or ``split`` asks for."""

    kind: Kind
    devices: DeviceNames = ()
    """The devices it names, as the script writes them; empty: those of the cluster."""
    device_count: int | None = None
    """How many devices one copy of the model gives to it; None: as many as there are."""
    name: str = ""
    """The script's own name for it, for people; need not be unique."""
    num_micro_batches: int = 1
    """For a pipeline: pieces that a batch is cut into."""
    schedule: str = ""
    """For a pipeline: a name that ``schedule_names.canonical`` takes, or empty for the configured one."""
    site: Site | None = None
    """The script's line that made it."""

    def __str__(self) -> str:
        return f"{self.kind.value} {self.name!r}" if self.name else self.kind.value


def strategy(
    kind: Kind,
    devices: DevicesArgument = None,
    device_count: int | None = None,
    name: str | None = None,
    *,
    num_micro_batches: int = 1,
    schedule: str | None = None,
    site: Site | None = None,
) -> Strategy:
    """A strategy from the arguments a script gives.

    Raises:
        ScopeError: an argument is of the wrong type or value, or two of them contradict each other.
    """
    if isinstance(devices, SupportsIndex) and device_count is None:
        devices, device_count = None, devices  # pyright: ignore[reportAssignmentType] - checked below
    if name is not None and not isinstance(name, str):
        raise ScopeError(f"the name of a {kind.value} cannot be {name!r}", site=site, fix="give text")
    named = _device_names(kind, devices, site)
    count = None if device_count is None else _positive(device_count, "device_count", site)
    total = sum(len(replica) for replica in named)
    if named and count is not None and count != total:
        raise ScopeError(
            f"{kind.value}: devices names {total} devices and device_count is {count}",
            site=site,
            fix="give one of the two",
        )
    if schedule:
        try:
            canonical(schedule)
        except ScheduleError as error:
            raise ScopeError(error.what, site=site, fix=error.fix) from None
    micro_batches = _positive(num_micro_batches, "num_micro_batch", site)
    return Strategy(kind, named, count, name or "", micro_batches, schedule or "", site)


def check_available(kind: Kind, site: Site | None) -> None:
    """Raises ScopeError for a strategy that this version cannot execute, with what works in its place."""
    if kind in INSTEAD:
        raise ScopeError(f"wh.{kind.value} is not available in this version of Whale", site=site, fix=INSTEAD[kind])


def _device_names(kind: Kind, devices: DevicesArgument, site: Site | None) -> DeviceNames:
    """The argument as strings per replica; a flat list is one device per replica."""
    if devices is None:
        return ()
    entries = [devices] if isinstance(devices, str) else list(devices) if isinstance(devices, Sequence) else None
    if not entries:
        raise _not_devices(kind, devices, site)
    replicas: list[tuple[str, ...]] = []
    for entry in entries:
        names = (entry,) if isinstance(entry, str) else tuple(entry) if isinstance(entry, Sequence) else ()
        if not names or not all(isinstance(name, str) for name in names):
            raise _not_devices(kind, devices, site)
        replicas.append(names)
    return tuple(replicas)


def _not_devices(kind: Kind, devices: object, site: Site | None) -> ScopeError:
    return ScopeError(
        f"the devices of a {kind.value} cannot be {devices!r}",
        site=site,
        fix="give device strings, or an entry of the slices of wh.cluster()",
    )


def _positive(value: object, what: str, site: Site | None) -> int:
    """A whole number of at least 1; NumPy's integers count, True and 2.0 do not."""
    try:
        number = 0 if isinstance(value, bool) else operator.index(value)  # pyright: ignore[reportArgumentType]
    except TypeError:
        number = 0
    if number < 1:
        raise ScopeError(f"{what} cannot be {value!r}", site=site, fix="give a whole number of at least 1")
    return number
