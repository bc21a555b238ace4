"""Stand-ins for what public scripts import and today's Python packages no longer have. None of it is TensorFlow.

What TensorFlow itself lost (``tf.contrib``, moved names) is left to ``whale run``. The data of
``tensorflow.examples.tutorials.mnist`` is made by the module ``tf1_data`` of the kit, which is on PYTHONPATH.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

NUMPY_NAMES = {"bool": bool, "int": int, "float": float, "object": object, "str": str}
"""Aliases that numpy 1.24 removed."""


def install() -> None:
    """Add every stand-in whose original is absent."""
    for name, value in NUMPY_NAMES.items():
        if name not in vars(np):
            setattr(np, name, value)
    if importlib.util.find_spec("scipy"):
        _install_scipy_names()
    if importlib.util.find_spec("tf1_data"):
        _install_mnist_reader(importlib.import_module("tf1_data").read_data_sets)


def _install_scipy_names() -> None:
    linear = importlib.import_module("scipy.sparse.linalg")
    for name in ("scipy.sparse.linalg.eigen", "scipy.sparse.linalg.eigen.arpack"):
        sys.modules[name] = linear
    images = types.ModuleType("scipy.misc")
    for name in ("imread", "imresize", "imsave"):
        setattr(images, name, _no_image)
    sys.modules[images.__name__] = images


def _install_mnist_reader(read_data_sets: Callable[..., Any]) -> None:
    parent = ""
    for name in ("examples", "tutorials", "mnist", "input_data"):
        parent = f"{parent}.{name}" if parent else f"tensorflow.{name}"
        module = types.ModuleType(parent)
        module.__path__ = []
        sys.modules[parent] = module
        above, _, leaf = parent.rpartition(".")
        setattr(sys.modules[above], leaf, module)
    sys.modules[parent].read_data_sets = read_data_sets  # pyright: ignore[reportAttributeAccessIssue]


def _no_image(*_arguments: object, **_options: object) -> None:
    """Pictures are looked at by people: nothing is read or written."""
