"""``tf.contrib.learn.datasets``: toy data, read from files that the user supplies."""

from __future__ import annotations

import collections
import csv
from typing import Any

import numpy as np

from whale.errors import SetupError
from whale_tf1.ports import mnist

__all__ = ["Dataset", "Datasets", "load_csv_with_header", "load_csv_without_header", "load_dataset", "mnist"]

# A package for the import system: TF1 had files below it.
__path__: list[str] = []

Dataset = collections.namedtuple("Dataset", ("data", "target"))
Datasets = mnist.Datasets


def load_dataset(name: str, size: str = "small", test_with_fake_data: bool = False) -> Any:
    """A data set by its name.

    Raises:
        SetupError: always, except for ``mnist``: TensorFlow downloaded the others, and the files are not part of it.
    """
    if name == "mnist":
        return mnist.load_mnist()
    raise SetupError(
        f"the data set {name!r} of tf.contrib.learn was downloaded from servers that TensorFlow no longer names",
        fix="read the files yourself, for instance with load_csv_with_header or sklearn.datasets",
    )


def load_csv_with_header(filename: str, target_dtype: Any, features_dtype: Any, target_column: int = -1) -> Dataset:
    """A CSV file whose first line holds numbers of rows and features."""
    with open(filename, newline="") as file:
        rows = csv.reader(file)
        next(rows)
        return _split(rows, target_dtype, features_dtype, target_column)


def load_csv_without_header(filename: str, target_dtype: Any, features_dtype: Any, target_column: int = -1) -> Dataset:
    """A CSV file of rows only."""
    with open(filename, newline="") as file:
        return _split(csv.reader(file), target_dtype, features_dtype, target_column)


def _split(rows: Any, target_dtype: Any, features_dtype: Any, target_column: int) -> Dataset:
    data, target = [], []
    for row in filter(None, rows):
        target.append(row.pop(target_column))
        data.append(row)
    return Dataset(np.asarray(data, dtype=features_dtype), np.asarray(target, dtype=target_dtype))
