"""Small deterministic data for the cases."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


def blobs(rows: int, width: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Points around one centre a class: float32 [rows, width], int32 labels [rows]."""
    random = np.random.RandomState(seed)
    centres = random.randn(classes, width)
    labels = random.randint(0, classes, rows)
    points = centres[labels] + 0.5 * random.randn(rows, width)
    return points.astype(np.float32), labels.astype(np.int32)


def plane(rows: int, width: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A noisy linear function: float32 [rows, width], float32 targets [rows, 1]."""
    random = np.random.RandomState(seed)
    points = random.randn(rows, width)
    targets = points @ random.randn(width, 1) + 0.1 * random.randn(rows, 1)
    return points.astype(np.float32), targets.astype(np.float32)


def images(rows: int, side: int, channels: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Noise with one bright row a class: float32 [rows, side, side, channels], int32 labels [rows]."""
    random = np.random.RandomState(seed)
    labels = random.randint(0, classes, rows)
    pixels = 0.5 * random.randn(rows, side, side, channels)
    pixels[np.arange(rows), labels % side] += 1.0
    return pixels.astype(np.float32), labels.astype(np.int32)


def sentences(rows: int, steps: int, vocabulary: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Token ids int32 [rows, steps], zero beyond each row's length, and the lengths int32 [rows], at least 1."""
    random = np.random.RandomState(seed)
    tokens = random.randint(1, vocabulary, (rows, steps))
    lengths = random.randint(1, steps + 1, rows)
    tokens[np.arange(steps) >= lengths[:, None]] = 0
    return tokens.astype(np.int32), lengths.astype(np.int32)


def batches(size: int, *arrays: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
    """Consecutive batches of the arrays' rows; the last one is short when ``size`` does not divide the rows."""
    for start in range(0, len(arrays[0]), size):
        yield tuple(array[start : start + size] for array in arrays)
