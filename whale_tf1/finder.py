"""Import hooks that give an existing module under a TF1 name."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from whale_tf1.face import TensorFlowFace

# Real packages of TensorFlow: Python's own finders know them.
_REAL_PACKAGES = frozenset(
    {"python", "core", "compiler", "compat", "lite", "tools", "_api", "distribute", "dtensor", "tsl"}
)


class AliasLoader(importlib.abc.Loader):
    """Loads a module that exists already, and leaves its own spec in place."""

    def __init__(self, module: types.ModuleType) -> None:
        self._module = module
        self._kept = {name: getattr(module, name, None) for name in ("__spec__", "__loader__", "__package__")}

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """The module itself."""
        return self._module

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing to run; undoes what the import system wrote into the module."""
        for name, value in self._kept.items():
            setattr(module, name, value)


def alias_spec(name: str, module: types.ModuleType) -> importlib.machinery.ModuleSpec:
    """A spec under which ``module`` is imported as ``name``."""
    return importlib.machinery.ModuleSpec(name, AliasLoader(module), is_package=hasattr(module, "__path__"))


class TensorFlowFinder(importlib.abc.MetaPathFinder):
    """``import tensorflow.keras.layers``: the modules that ``tf.keras.layers`` names, not those of TF2's surface."""

    def __init__(self, face: TensorFlowFace) -> None:
        self._face = face

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A spec for a public submodule, or None.

        It steps aside when someone has replaced the ``tensorflow`` module by another one.
        """
        if not fullname.startswith("tensorflow.") or sys.modules.get("tensorflow") is not self._face:
            return None
        rest = fullname[len("tensorflow.") :]
        if rest.split(".", 1)[0] in _REAL_PACKAGES or rest.startswith(("contrib", "examples")):
            return None
        module = self._face.walk(rest)
        return None if module is None else alias_spec(fullname, module)


class ModuleFinder(importlib.abc.MetaPathFinder):
    """Modules made on demand, by exact name."""

    def __init__(self, makers: dict[str, Callable[[], types.ModuleType]]) -> None:
        self._makers = makers

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A spec for a known name, or None."""
        maker = self._makers.get(fullname)
        return None if maker is None else alias_spec(fullname, maker())
