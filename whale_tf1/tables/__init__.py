"""Tables that say where each symbol of ``tf.contrib`` is found today."""

from __future__ import annotations

from collections.abc import Mapping

from whale_tf1.areas import Area
from whale_tf1.tables.data import DATA_AREAS
from whale_tf1.tables.gone import GONE_AREAS
from whale_tf1.tables.layers import LAYER_AREAS
from whale_tf1.tables.other import OTHER_AREAS
from whale_tf1.tables.sequences import SEQUENCE_AREAS
from whale_tf1.tables.training import TRAINING_AREAS

AREAS: Mapping[str, Area] = {
    area.name: area for area in (*LAYER_AREAS, *SEQUENCE_AREAS, *TRAINING_AREAS, *DATA_AREAS, *OTHER_AREAS)
}
"""Every area that resolves, by name."""

__all__ = ["AREAS", "GONE_AREAS"]
