"""One row of an op table: a tiny graph around one op, and what is expected of its placement."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True)
class Inputs:
    """What a row may build on; everything but ``w`` has the batch as its first dim."""

    b: Any
    """The batch size: a number where the script fixed it, else a scalar read from the shape of ``x``."""
    x: Any
    """float32 ``[b, *sample]``: the fed values times ``w``."""
    y: Any
    """float32 ``[b, *sample]``: fed."""
    ids: Any
    """int32 ``[b]``, each 0 to 3: fed."""
    mask: Any
    """bool ``[b]``: fed."""
    w: Any
    """float32 ``[sample[-1]]``: a trainable variable."""

    @property
    def square(self) -> Any:
        """A ``[sample[-1], sample[-1]]`` matrix that depends on ``w``."""
        return self.w[:, None] * self.w + 0.2


MODES = ("static", "dynamic", "drawn")
"""How a batch enters: fed under a fixed shape, fed under an open one, drawn from an iterator."""

FED = ("static", "dynamic")
"""Ways for what joins two batches along the batch: of drawn ones only the run shows whether they are of one size."""

Build = Callable[[Any, Inputs], Any]
"""``build(tf, inputs)``: a tensor, or a tuple of tensors, to fetch."""


@dataclasses.dataclass(frozen=True)
class Row:
    """A graph to run on one device and on pieces."""

    name: str
    """Unique in its table; starts with the op type."""
    build: Build
    """Makes the op under test."""
    sample: tuple[int, ...] = (4,)
    """Dims of one sample of ``x`` and ``y``."""
    whole: tuple[str, ...] = ()
    """Op types that cannot run on pieces here; elsewhere every op must."""
    gradient: bool = True
    """Whether the outputs can be differentiated."""
    modes: tuple[str, ...] = MODES
    """Ways in which the batch may enter."""
    tolerance: float = 1e-5
    """Largest accepted difference, relative to the largest magnitude in the array."""
