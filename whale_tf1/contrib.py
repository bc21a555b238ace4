"""The package ``tensorflow.contrib``, made of the tables in ``whale_tf1.tables``."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any

from whale_tf1.areas import Area
from whale_tf1.finder import alias_spec
from whale_tf1.missing import missing_module, missing_symbol

ROOT = "tensorflow.contrib"

_UNKNOWN = "tf.contrib was removed with TensorFlow 2.0; docs/contrib.md lists the parts that resolve"


class ContribPackage(types.ModuleType):
    """``tf.contrib`` itself: its attributes are the areas."""

    def __init__(self, areas: Mapping[str, Area], gone: Mapping[str, str]) -> None:
        super().__init__(ROOT, "The parts of tf.contrib that resolve on this TensorFlow.")
        self.__path__: list[str] = []
        self.__dict__["_whale_areas"] = areas
        self.__dict__["_whale_gone"] = gone

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self.__dict__["_whale_areas"]:
            return importlib.import_module(f"{ROOT}.{name}")
        raise missing_symbol(f"tf.contrib.{name}", self.__dict__["_whale_gone"].get(name, _UNKNOWN))

    def __dir__(self) -> list[str]:
        return sorted(self.__dict__["_whale_areas"])


class ContribModule(types.ModuleType):
    """An area, or a file inside it: resolves symbols of the area on first use."""

    def __init__(self, name: str, area: Area, path: str) -> None:
        super().__init__(name, f"Symbols of tf.contrib.{area.name}.")
        self.__path__: list[str] = []
        self.__dict__["_whale_area"] = area
        self.__dict__["_whale_path"] = path

    def __getattr__(self, name: str) -> Any:
        area: Area = self.__dict__["_whale_area"]
        if name == "__all__":
            return area.names()
        if name.startswith("__"):
            raise AttributeError(name)
        path = self.__dict__["_whale_path"]
        child = f"{path}.{name}" if path else name
        if child in area.paths():
            return importlib.import_module(f"{ROOT}.{area.name}.{child}")
        value = area.resolve(name)
        self.__dict__[name] = value
        return value

    def __dir__(self) -> list[str]:
        return self.__dict__["_whale_area"].names()


class ContribFinder(importlib.abc.MetaPathFinder):
    """Finds ``tensorflow.contrib`` and everything the tables list below it."""

    def __init__(self, areas: Mapping[str, Area], gone: Mapping[str, str]) -> None:
        self._areas = areas
        self._gone = gone
        self._package = ContribPackage(areas, gone)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A spec, or None for names outside of contrib or when another ``tensorflow.contrib`` is in place.

        Raises:
            ContribImportError: the module is one of contrib's that nothing replaces.
        """
        if fullname == ROOT:
            return alias_spec(fullname, self._package)
        if not fullname.startswith(ROOT + ".") or sys.modules.get(ROOT) is not self._package:
            return None
        name, _, rest = fullname[len(ROOT) + 1 :].partition(".")
        area = self._areas.get(name)
        if area is None:
            raise missing_module(fullname, self._gone.get(name, _UNKNOWN))
        if rest and rest not in area.paths():
            raise missing_module(fullname, area.gone.get(rest.rpartition(".")[2], area.way_out or _UNKNOWN))
        stand_in = area.modules.get(rest, "") if rest else ""
        if not stand_in:
            return alias_spec(fullname, ContribModule(fullname, area, rest))
        try:
            return alias_spec(fullname, importlib.import_module(stand_in))
        except ModuleNotFoundError as error:
            raise missing_module(fullname, f"install the package that provides {error.name!r}") from error
