"""``tensorflow.examples.tutorials.mnist``: its constants, and the reader."""

from __future__ import annotations

from whale_tf1.ports import mnist as input_data

__all__ = ["IMAGE_PIXELS", "IMAGE_SIZE", "NUM_CLASSES", "input_data", "read_data_sets"]

NUM_CLASSES = 10
IMAGE_SIZE = 28
IMAGE_PIXELS = IMAGE_SIZE * IMAGE_SIZE

read_data_sets = input_data.read_data_sets

# A package for the import system: input_data is imported by a dotted path below this module.
__path__: list[str] = []
