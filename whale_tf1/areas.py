"""What a part of ``tf.contrib`` consists of: where each symbol is found today."""

from __future__ import annotations

import dataclasses
import importlib
import types
from collections.abc import Mapping
from typing import Any

from whale_tf1.missing import missing_symbol

PORTS = "whale_tf1.ports"
"""Package of our own implementations of contrib symbols."""


@dataclasses.dataclass(frozen=True)
class Area:
    """One package directly under ``tensorflow.contrib``."""

    name: str
    """``layers`` for ``tensorflow.contrib.layers``."""
    sources: tuple[str, ...] = ()
    """Modules all of whose public names belong to the area; earlier ones win."""
    symbols: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Single symbols, to ``module:attribute``; they win over ``sources``."""
    modules: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Dotted paths below the area that can be imported, to the module that stands for them. The empty string is the
    area itself: TF1 source imports a symbol from the file that defined it, and here one module answers for all."""
    gone: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Symbols that have no successor, to the way out."""
    way_out: str = ""
    """What to do without any symbol that does not resolve; empty for a general answer."""

    def paths(self) -> frozenset[str]:
        """Every dotted path below the area that can be imported, parents of the listed ones included."""
        found: set[str] = set()
        for path in self.modules:
            parts = path.split(".")
            found.update(".".join(parts[:length]) for length in range(1, len(parts) + 1))
        return frozenset(found)

    def names(self) -> list[str]:
        """Every symbol that resolves with what is installed."""
        found = set(self.symbols)
        for source in self.sources:
            module = _import(source)
            if module is not None:
                found.update(_public(module))
        return sorted(found)

    def resolve(self, name: str) -> Any:
        """The object behind a symbol.

        Raises:
            ContribError: nothing stands for it.
        """
        if name in self.symbols:
            module_name, _, attribute = self.symbols[name].partition(":")
            module = _import(module_name)
            value = _attribute(module, attribute)
            if value is not None:
                return value
        for source in self.sources:
            module = _import(source)
            if module is not None and name in _public(module):
                return getattr(module, name)
        raise missing_symbol(f"tf.contrib.{self.name}.{name}", self._way_out(name))

    def _way_out(self, name: str) -> str:
        if name in self.gone:
            return self.gone[name]
        if self.way_out:
            return self.way_out
        wanted = [self.symbols[name].partition(":")[0]] if name in self.symbols else list(self.sources)
        if any(module.startswith("tf_slim") for module in wanted) and _import("tf_slim") is None:
            return "this part of contrib lives on in tf-slim: pip install tf-slim"
        if any("estimator" in module for module in wanted):
            return "this symbol needs tf.estimator, which TensorFlow had up to 2.15: pip install 'whale-tf[tf1]'"
        return (
            "TensorFlow 2 has nothing in its place: use a tf.nn, tf.layers or tf.train function instead, or put the "
            "definition into the script; docs/contrib.md lists what resolves"
        )


def _import(name: str) -> types.ModuleType | None:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


def _attribute(module: types.ModuleType | None, path: str) -> Any:
    value: Any = module
    for name in filter(None, path.split(".")):
        value = getattr(value, name, None)
    return value


def _public(module: types.ModuleType) -> frozenset[str]:
    """Names a module defines for others: its ``__all__``, else what is neither private nor a foreign module."""
    listed = getattr(module, "__all__", None)
    if listed:
        return frozenset(listed)
    package = module.__name__.partition(".")[0] + "."
    return frozenset(
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and (not isinstance(value, types.ModuleType) or value.__name__.startswith(package))
    )
