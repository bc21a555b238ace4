"""The hardware catalogue: what devices and links can do, each value with its source and how sure it is.

The tables are CSV files of one value a row (``device,figure,value,source,confidence``). A file of the same form, given
to ``Catalogue.extended``, adds devices and links or replaces values of those that are there.
"""

from __future__ import annotations

import csv
import dataclasses
import importlib.resources
import io
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from whale.errors import ClusterError, Site, nearest

Confidence = Literal["memory", "read"]
"""``read``: seen in the source. ``memory``: known to hold by and large, not checked."""

CONFIDENCES: tuple[Confidence, ...] = ("memory", "read")

PRECISIONS = ("fp32", "tf32", "fp16", "bf16")
"""Number formats of matrix products, each with a peak rate of its own."""

DEVICE_FIGURES = (
    "kind",
    "memory_bytes",
    *(f"{precision}_flops" for precision in PRECISIONS),
    "memory_bytes_per_second",
    "link",
    "host_link",
    "pattern",
)
"""Figures a device may have. ``memory_bytes`` and ``pattern`` may be repeated; the first size is the usual one."""

LINK_FIGURES = ("kind", "peak_bytes_per_second", "bytes_per_second", "latency_seconds")
"""Figures of a link, each once: rates in one direction, as written on it and as reached."""

_TEXT = frozenset({"kind", "link", "host_link", "pattern"})
_REPEATED = frozenset({"memory_bytes", "pattern"})


@dataclasses.dataclass(frozen=True)
class Figure:
    """One value of the catalogue."""

    value: str
    """As written; numbers in bytes, bytes per second, FLOPs per second or seconds."""
    source: str
    """Key of ``Catalogue.sources``, or the file that gave it."""
    confidence: Confidence

    @property
    def number(self) -> float:
        """The value as a number."""
        return float(self.value)


@dataclasses.dataclass(frozen=True)
class Source:
    """Where values come from."""

    what: str
    licence: str
    """``facts`` for single values that no licence covers."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """A device or a link: its figures by name, each as often as it was given."""

    name: str
    figures: Mapping[str, tuple[Figure, ...]]

    def number(self, figure: str) -> float | None:
        """A figure as a number, or None where the catalogue does not have it."""
        found = self.figures.get(figure)
        return found[0].number if found else None

    def text(self, figure: str) -> str:
        """A figure as text; empty where the catalogue does not have it."""
        found = self.figures.get(figure)
        return found[0].value if found else ""


@dataclasses.dataclass(frozen=True, eq=False)
class Catalogue:
    """Devices and links by name."""

    devices: Mapping[str, Entry]
    links: Mapping[str, Entry]
    sources: Mapping[str, Source]

    def device(self, name: str) -> Entry:
        """A device. Raises ClusterError, with the nearest names, for one that is not there."""
        return _find(self.devices, name, "device model")

    def link(self, name: str) -> Entry:
        """A link. Raises ClusterError, with the nearest names, for one that is not there."""
        return _find(self.links, name, "link")

    def extended(self, path: str | os.PathLike[str]) -> Catalogue:
        """The catalogue with the devices (first column ``device``) or links (``link``) of a file added.

        Figures of the file replace those of an entry of the same name. Raises ClusterError, naming file and line.
        """
        name = os.fspath(path)
        try:
            with open(name, encoding="utf-8", newline="") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as error:
            raise ClusterError(f"cannot read the catalogue file {name!r}: {error}", fix="correct the path") from None
        if text.startswith("link,"):
            return dataclasses.replace(self, links=_merged(self.links, _entries(text, name, "link")))
        return dataclasses.replace(self, devices=_merged(self.devices, _entries(text, name, "device")))


def _find(entries: Mapping[str, Entry], name: str, what: str) -> Entry:
    found = entries.get(name)
    if found is None:
        hint = nearest(name, entries) or f"known: {', '.join(entries)}"
        raise ClusterError(
            f"unknown {what} {name!r}", fix=f"{hint} (or describe it in a CSV file: --catalogue FILE, docs/cluster.md)"
        )
    return found


def _merged(old: Mapping[str, Entry], new: Mapping[str, Entry]) -> dict[str, Entry]:
    result = dict(old)
    for name, entry in new.items():
        figures = {**(old[name].figures if name in old else {}), **entry.figures}
        result[name] = Entry(name, figures)
    return result


def _entries(text: str, path: str, first: Literal["device", "link"]) -> dict[str, Entry]:
    """Entries of one table. Raises ClusterError for a value that cannot be one."""
    known = DEVICE_FIGURES if first == "device" else LINK_FIGURES
    found: dict[str, dict[str, list[Figure]]] = {}
    for line, row in _rows(text, path, (first, "figure", "value", "source", "confidence")):
        name, figure, value, source, confidence = row
        site = Site(path, line)
        if figure not in known:
            hint = nearest(figure, known) or f"known: {', '.join(known)}"
            raise ClusterError(f"unknown figure {figure!r} of {name!r}", site=site, fix=hint)
        if confidence not in CONFIDENCES:
            raise ClusterError(f"confidence {confidence!r}", site=site, fix=f"use one of {', '.join(CONFIDENCES)}")
        if figure not in _TEXT and not _positive(value):
            raise ClusterError(f"{figure} of {name!r} is {value!r}", site=site, fix="give a positive number")
        given = found.setdefault(name, {}).setdefault(figure, [])
        if given and figure not in _REPEATED:
            raise ClusterError(f"{figure} of {name!r} is given twice", site=site, fix="keep one of them")
        given.append(Figure(value, source, confidence))
    return {name: Entry(name, {f: tuple(v) for f, v in figures.items()}) for name, figures in found.items()}


def _rows(text: str, path: str, header: tuple[str, ...]) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text))
    if tuple(next(reader, ())) != header:
        raise ClusterError("not a catalogue", site=Site(path, 1), fix=f"its first line must be {','.join(header)}")
    for row in reader:
        if not row:
            continue
        if len(row) != len(header):
            raise ClusterError(f"{len(row)} columns, not {len(header)}", site=Site(path, reader.line_num))
        yield reader.line_num, row


def _positive(text: str) -> bool:
    try:
        return 0 < float(text) < math.inf
    except ValueError:
        return False


def _packaged(name: str) -> str:
    return (importlib.resources.files("whale.cluster") / "data" / name).read_text(encoding="utf-8")


def _built_in() -> Catalogue:
    sources = {
        row[0]: Source(row[1], row[2])
        for _, row in _rows(_packaged("sources.csv"), "sources.csv", ("source", "what", "licence"))
    }
    return Catalogue(
        _entries(_packaged("devices.csv"), "devices.csv", "device"),
        _entries(_packaged("links.csv"), "links.csv", "link"),
        sources,
    )


CATALOGUE = _built_in()
"""The catalogue that ships with Whale."""


def doubtful(entries: Iterable[Entry]) -> list[str]:
    """Values that were not checked, as ``V100 link``, in order."""
    return [
        f"{entry.name} {figure}"
        for entry in entries
        for figure, values in entry.figures.items()
        if any(value.confidence == "memory" for value in values)
    ]
