"""From TensorFlow's descriptions of devices to models of the catalogue. Strings in, data out: no TensorFlow here."""

from __future__ import annotations

import re

from whale.cluster.catalogue import CATALOGUE, Catalogue, Entry
from whale.cluster.devices import DeviceGroup
from whale.cluster.models import KIND_BY_NAME, model_of
from whale.errors import ClusterError, nearest

_NAME = re.compile(r"(?:^|,)\s*name:\s*([^,]+)")
_BRANDS = re.compile(r"\b(NVIDIA|Tesla|GeForce|Quadro)\b|\(R\)|\(TM\)", re.IGNORECASE)

_LEAST_PART = 0.6
"""TensorFlow leaves part of a device's memory alone; a limit below this part of a size speaks of a smaller one."""


def product_name(description: str) -> str:
    """The product in a description: that of ``device: 0, name: Tesla V100-SXM2-16GB, pci bus id: ...``, or the text."""
    match = _NAME.search(description)
    return (match.group(1) if match else description).strip()


def detect_model(description: str, catalogue: Catalogue = CATALOGUE) -> Entry:
    """The catalogue's device for a description of TensorFlow's, or for the name a driver gives.

    The longest pattern that occurs decides, so that ``A10G`` is not taken for an ``A10``. Raises ClusterError, with the
    nearest names, for a product that is not in the catalogue.
    """
    product = product_name(description)
    best: tuple[int, Entry] | None = None
    for entry in catalogue.devices.values():
        for pattern in entry.figures.get("pattern", ()):
            found = re.search(rf"(?<![A-Za-z0-9]){re.escape(pattern.value)}(?![A-Za-z0-9])", product, re.IGNORECASE)
            if found and (best is None or len(pattern.value) > best[0]):
                best = len(pattern.value), entry
    if best is None:
        bare = " ".join(_BRANDS.sub(" ", product).split())
        hint = nearest(bare.replace(" ", "-"), catalogue.devices) or f"known: {', '.join(catalogue.devices)}"
        raise ClusterError(
            f"unknown device {product!r}", fix=f"{hint} If none fits, describe it in a catalogue file (docs/cluster.md)"
        )
    return best[1]


def detect_group(
    kind: str, description: str = "", memory_limit: int | None = None, catalogue: Catalogue = CATALOGUE
) -> DeviceGroup:
    """One device as TensorFlow describes it.

    Args:
        kind: TensorFlow's device type, ``CPU`` or ``GPU``.
        description: its physical device description; may be empty for a CPU.
        memory_limit: bytes that TensorFlow means to use, or None; they tell which size of a model it is.
        catalogue: what is known of devices.

    Raises:
        ClusterError: the kind or the product is unknown.
    """
    known = KIND_BY_NAME.get(kind)
    if known is None:
        raise ClusterError(f"unknown device kind {kind!r}", fix=f"known kinds: {', '.join(KIND_BY_NAME)}")
    if known == "CPU":
        return DeviceGroup("CPU", "CPU", None)
    model = model_of(detect_model(description, catalogue))
    fitting = [size for size in sorted(model.memory_bytes) if memory_limit is None or size >= memory_limit]
    named = _named_size(description, model.memory_bytes)
    memory = named or (fitting[0] if memory_limit is not None and fitting else model.default_memory_bytes)
    if memory is not None and memory_limit is not None and memory_limit < _LEAST_PART * memory and not named:
        memory = memory_limit
    return DeviceGroup("GPU", model.name, memory)


def _named_size(description: str, sizes: tuple[int, ...]) -> int | None:
    """The memory size that the product's name spells, such as ``16GB``."""
    match = re.search(r"(?<![0-9])([0-9]{1,3})\s?GB", product_name(description))
    size = int(match.group(1)) * 2**30 if match else None
    return size if size in sizes else None
