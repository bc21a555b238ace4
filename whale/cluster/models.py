"""Device models that cluster files may name: kind and memory, as the catalogue has them."""

from __future__ import annotations

import dataclasses
from typing import Literal

from whale.cluster.catalogue import CATALOGUE, Entry
from whale.errors import ClusterError, nearest

Kind = Literal["CPU", "GPU"]
"""What TensorFlow calls a device of this sort."""

KINDS: tuple[Kind, ...] = ("CPU", "GPU")

KIND_BY_NAME: dict[str, Kind] = {kind: kind for kind in KINDS}
"""The kind that a piece of text spells."""

GIB = 2**30


@dataclasses.dataclass(frozen=True)
class DeviceModel:
    """A product, or the sort of device when nothing more is known."""

    name: str
    """As a cluster file writes it: ``V100``, ``H100-PCIe``."""
    kind: Kind
    memory_bytes: tuple[int, ...] = ()
    """Sizes it is sold with, the usual one first. Nominal: driver and context take some hundred MiB of it.
    Empty when the model says nothing about memory."""

    @property
    def default_memory_bytes(self) -> int | None:
        """The size assumed where none is stated, or None when the model says nothing about memory."""
        return self.memory_bytes[0] if self.memory_bytes else None


def model_of(entry: Entry) -> DeviceModel:
    """What a cluster needs to know of a device of the catalogue. Raises ClusterError for a kind that is none."""
    kind = KIND_BY_NAME.get(entry.text("kind"))
    if kind is None:
        raise ClusterError(f"{entry.name!r} has the kind {entry.text('kind')!r}", fix=f"use {' or '.join(KINDS)}")
    sizes = tuple(int(size.number) for size in entry.figures.get("memory_bytes", ()))
    return DeviceModel(entry.name, kind, sizes)


# A name without a form factor is the SXM board where there is one, else the PCIe card. A K80 is one of the two halves
# of the board: each is a device of its own.
MODELS: dict[str, DeviceModel] = {name: model_of(entry) for name, entry in CATALOGUE.devices.items()}
"""Every known model by its name. ``CPU`` and ``GPU`` stand for a device of which only the kind is known."""


def unknown_model(name: str) -> ClusterError:
    """The error for a model that is not in the table and whose kind and memory are not stated either."""
    hint = nearest(name, MODELS) or f"known models: {', '.join(MODELS)}"
    return ClusterError(
        f"unknown device model {name!r}", fix=f"{hint}; for any other model state its 'kind' and 'memory' as well"
    )
