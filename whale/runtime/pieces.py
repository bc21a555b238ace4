"""How the fed batches of a run fall into pieces: what decides whether a check of one run speaks for another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from whale.runtime.preparation import Prepared
from whale.sharding.batches import bounds

Pieces = tuple[tuple[int, bool], ...]
"""For each fed batch: the rows of its smallest piece, two for all that have more, and whether all have as many."""

NO_PIECES: Pieces = ()


def pieces_of(prepared: Prepared, values: Mapping[str, Any]) -> Pieces:
    """The kind of pieces that fed values fall into.

    Args:
        prepared: the plan of the run.
        values: what is fed, by tensor.
    """
    found: list[tuple[int, bool]] = []
    shares = prepared.mesh.pieces if prepared.mesh is not None else (1,)
    for tensor, dim in prepared.cut_dims.items():
        if tensor in values:
            offsets = bounds(np.shape(values[tensor])[dim], shares)
            sizes = [end - begin for begin, end in zip(offsets, offsets[1:])]
            found.append((min(2, *sizes), len(set(sizes)) == 1))
    return tuple(found)
