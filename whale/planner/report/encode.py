"""Reports as JSON data and back, without loss."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from whale.cost_model import MemoryUse
from whale.errors import PlanError, nearest
from whale.planner.report.references import check_references
from whale.planner.report.report import (
    DeviceFacts,
    GraphFacts,
    Measured,
    OtherPlan,
    PlanReport,
    Prediction,
    ReplicaFacts,
    SearchFacts,
    StageFacts,
    Timeline,
    TimelineEvent,
)

VERSION = 1
"""Of the format."""

_Read = TypeVar("_Read")
Reader = Callable[[object, str], _Read]
"""Turns data into a value, or raises PlanError with the place in the data."""


def to_data(report: PlanReport) -> dict[str, object]:
    """A report as what ``json.dumps`` takes: dicts, lists, text, numbers. ``from_data`` reads it back, equal."""
    return {"version": VERSION, **_plain_fields(report)}


def from_data(data: object) -> PlanReport:
    """The report that ``to_data`` was given.

    Raises:
        PlanError: a field is unknown, missing or of another type, and the message has its place; or a part names
            another that there is not, such as a stage a device.
    """
    if not isinstance(data, Mapping):
        raise PlanError(f"a report is a JSON object, got {_kind(data)}", fix="give the object that to_data made")
    fields = dict(cast(Mapping[str, object], data))
    version = fields.pop("version", None)
    if version != VERSION or isinstance(version, bool):
        raise PlanError(
            f"field 'version' is {version!r}, this Whale reads {VERSION}", fix="use the Whale that wrote the report"
        )
    report = _report(fields, "")
    check_references(report)
    return report


def _plain_fields(value: object) -> dict[str, object]:
    return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(cast(Any, value))}


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value):
        return _plain_fields(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in cast("tuple[object, ...]", value)]
    return value


# -- readers of plain values ------------------------------------------------------------------------------------


def _text(data: object, place: str) -> str:
    return data if isinstance(data, str) else _refuse(data, place, "text")


def _flag(data: object, place: str) -> bool:
    return data if isinstance(data, bool) else _refuse(data, place, "true or false")


def _whole(data: object, place: str) -> int:
    return data if isinstance(data, int) and not isinstance(data, bool) else _refuse(data, place, "a whole number")


def _real(data: object, place: str) -> float:
    if isinstance(data, bool) or not isinstance(data, (int, float)):
        return _refuse(data, place, "a number")
    try:
        number = float(data)
    except OverflowError:
        number = math.inf
    return number if math.isfinite(number) else _refuse(data, place, "a finite number")


def _many(item: Reader[_Read]) -> Reader[tuple[_Read, ...]]:
    def read(data: object, place: str) -> tuple[_Read, ...]:
        return tuple(item(value, f"{place}[{number}]") for number, value in enumerate(_items(data, place)))

    return read


def _pair(first: Reader[Any], second: Reader[Any]) -> Reader[tuple[Any, Any]]:
    def read(data: object, place: str) -> tuple[Any, Any]:
        items = _items(data, place)
        if len(items) != 2:
            return _refuse(data, place, "a list of two")
        return first(items[0], f"{place}[0]"), second(items[1], f"{place}[1]")

    return read


def _items(data: object, place: str) -> list[object]:
    return list(cast("list[object]", data)) if isinstance(data, (list, tuple)) else _refuse(data, place, "a list")


def _optional(item: Reader[_Read]) -> Reader[_Read | None]:
    def read(data: object, place: str) -> _Read | None:
        return None if data is None else item(data, place)

    return read


def _refuse(data: object, place: str, wanted: str) -> Any:
    shown = repr(data)
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    raise PlanError(f"field {place!r} of a report must be {wanted}, got {shown}", fix="give what to_data made")


def _kind(data: object) -> str:
    return type(data).__name__


# -- readers of the parts of a report ---------------------------------------------------------------------------


def _record(made: Callable[..., _Read], **readers: Reader[Any]) -> Reader[_Read]:
    """Reads an object with just these fields."""

    def read(data: object, place: str) -> _Read:
        if not isinstance(data, Mapping):
            return _refuse(data, place, "an object")
        fields = cast(Mapping[str, object], data)
        inside = f"{place}." if place else ""
        for name in fields:
            if name not in readers:
                raise PlanError(f"unknown field {inside + str(name)!r} of a report", fix=nearest(str(name), readers))
        for name in readers:
            if name not in fields:
                raise PlanError(f"a report without the field {inside + name!r}", fix="give what to_data made")
        return made(**{name: reader(fields[name], inside + name) for name, reader in readers.items()})

    return read


_graph = _record(
    GraphFacts, operations=_whole, variables=_whole, parameter_bytes=_whole, batch_mode=_text, notes=_many(_text)
)
_memory = _record(
    MemoryUse,
    parameters=_real,
    gradients=_real,
    slots=_real,
    activations=_real,
    workspace=_real,
    runtime=_real,
)
_device = _record(
    DeviceFacts,
    name=_text,
    host=_text,
    kind=_text,
    index=_whole,
    model=_text,
    limit_bytes=_optional(_whole),
    stages=_many(_whole),
    memory=_optional(_memory),
)
_stage = _record(
    StageFacts,
    number=_whole,
    name=_text,
    start=_whole,
    stop=_whole,
    first=_text,
    last=_text,
    folded=_whole,
    work=_real,
    parameter_bytes=_whole,
    reduced_bytes=_real,
    output_bytes=_real,
    devices=_many(_many(_text)),
    divided=_text,
)
_replica = _record(ReplicaFacts, number=_whole, samples=_real, part=_real, like=_whole)
_prediction = _record(
    Prediction,
    step_seconds=_real,
    samples_per_second=_real,
    bubble=_real,
    compute_seconds=_real,
    reduce_seconds=_real,
)
_event = _record(
    TimelineEvent,
    kind=_text,
    replica=_whole,
    stage=_whole,
    target=_whole,
    micro_batch=_whole,
    start=_real,
    end=_real,
)
_timeline = _record(
    Timeline, events=_many(_event), gap=_optional(_pair(_real, _real)), replicas=_many(_whole), kinds=_whole
)
_other = _record(
    OtherPlan,
    name=_text,
    layout=_text,
    step_seconds=_optional(_real),
    fits=_flag,
    refused=_text,
    reason=_text,
)
_search = _record(SearchFacts, exact=_flag, simulated=_whole, phases=_many(_pair(_text, _real)))
_measured = _record(Measured, step_seconds=_optional(_real), peak_bytes=_many(_pair(_text, _whole)))
_report = _record(
    PlanReport,
    title=_text,
    graph=_graph,
    batch=_whole,
    family=_text,
    layout=_text,
    devices=_many(_device),
    stages=_many(_stage),
    rows=_whole,
    replicas=_many(_replica),
    micro_batches=_whole,
    schedule=_text,
    recomputation=_text,
    precision=_text,
    prediction=_prediction,
    timeline=_timeline,
    runners_up=_many(_other),
    left_out=_optional(_other),
    search=_search,
    numerics=_many(_text),
    measured=_optional(_measured),
)
