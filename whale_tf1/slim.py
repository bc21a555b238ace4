"""Makes tf-slim 1.1.0 work on TensorFlow 2.15 to 2.21 without editing it.

tf-slim looks up names where TensorFlow 1.15 had them (``ops.Tensor``, ``control_flow_ops.cond``): those come back by
``whale_tf1.moved``. What is left is listed here. It is repaired when a script first imports it, since most
scripts do not, and with what it imports itself that takes a second.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Sequence
from typing import Any

from whale_tf1.undo import set_attribute


def repair_slim(stack: contextlib.ExitStack) -> None:
    """Repairs the installed tf-slim, now or when it is imported; closing the stack takes the repair back.

    The names that moved must have been added before, as tf-slim reads some of them while it is imported.
    """
    if "tf_slim" in sys.modules:
        _repair(stack)
        return
    finder = SlimFinder(stack)
    sys.meta_path.insert(0, finder)
    stack.callback(_remove, finder)


def _repair(stack: contextlib.ExitStack) -> None:
    layers = importlib.import_module("tf_slim.layers.layers")
    normalization = importlib.import_module("tensorflow.python.layers.normalization")
    # tf-slim keeps the module it imported; batch_norm reads BatchNormalization from it at each call.
    set_attribute(stack, layers, "normalization_layers", normalization)
    for name in ("tf_slim.nets", "tf_slim.training", "tf_slim.data", "tf_slim.losses", "tf_slim.metrics"):
        importlib.import_module(name)


def _remove(finder: SlimFinder) -> None:
    with contextlib.suppress(ValueError):
        sys.meta_path.remove(finder)


class SlimFinder(importlib.abc.MetaPathFinder):
    """Finds tf-slim where Python finds it, and has it repaired once it is loaded."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of ``tf_slim``, once; None for everything else."""
        if fullname != "tf_slim":
            return None
        _remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Repairing(spec.loader, self._stack)
        return spec


class _Repairing(importlib.abc.Loader):
    """Loads a package as another loader does, and repairs it."""

    def __init__(self, loader: Any, stack: contextlib.ExitStack) -> None:
        self._loader = loader
        self._stack = stack

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        """As the other loader."""
        return self._loader.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        """Runs the package, then repairs it; the module keeps the loader it would have had."""
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        _repair(self._stack)
