"""Device models that cluster files may name: kind and memory."""

from __future__ import annotations

import dataclasses
from typing import Literal

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


def _gpu(name: str, *gibibytes: int) -> DeviceModel:
    return DeviceModel(name, "GPU", tuple(size * GIB for size in gibibytes))


# A name without a form factor is the SXM board where there is one, else the PCIe card.
MODELS: dict[str, DeviceModel] = {
    model.name: model
    for model in (
        DeviceModel("CPU", "CPU"),
        DeviceModel("GPU", "GPU"),
        _gpu("K80", 12),  # one of the two halves of the board: each is a device of its own
        _gpu("P4", 8),
        _gpu("P40", 24),
        _gpu("P100", 16),
        _gpu("P100-PCIe", 16, 12),
        _gpu("T4", 16),
        _gpu("V100", 16, 32),
        _gpu("V100-PCIe", 16, 32),
        _gpu("A10", 24),
        _gpu("A10G", 24),
        _gpu("A30", 24),
        _gpu("A100", 40, 80),
        _gpu("A100-PCIe", 40, 80),
        _gpu("L4", 24),
        _gpu("L40S", 48),
        _gpu("H100", 80),
        _gpu("H100-PCIe", 80),
        _gpu("H200", 141),
        _gpu("GH200", 96),
        _gpu("B200", 180),
        _gpu("RTX-2080-Ti", 11),
        _gpu("Titan-RTX", 24),
        _gpu("RTX-3090", 24),
        _gpu("RTX-4090", 24),
    )
}
"""Every known model by its name. ``CPU`` and ``GPU`` stand for a device of which only the kind is known."""


def unknown_model(name: str) -> ClusterError:
    """The error for a model that is not in the table and whose kind and memory are not stated either."""
    hint = nearest(name, MODELS) or f"known models: {', '.join(MODELS)}"
    return ClusterError(
        f"unknown device model {name!r}", fix=f"{hint}; for any other model state its 'kind' and 'memory' as well"
    )
