"""The module that ``import tensorflow`` gives to TF1 source."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Mapping
from typing import Any

from whale_tf1.missing import missing_symbol

_COPIED = ("__path__", "__file__", "__version__", "__git_version__", "__compiler_version__", "compat")

# Names of TF1 that no installed TensorFlow can serve; the value is the way out.
GONE: Mapping[str, str] = {
    "estimator": "tf.estimator left TensorFlow after 2.15: run this script with TensorFlow 2.15 (pip install "
    "'whale-tf[tf1]'), or train with tf.train.MonitoredTrainingSession",
}


class TensorFlowFace(types.ModuleType):
    """TensorFlow's v1 names, then its other names, then ``contrib``.

    Attributes are looked up at each access and never copied, so what is patched in TensorFlow shows here as well.
    """

    def __init__(self, tensorflow: types.ModuleType, v1: types.ModuleType) -> None:
        super().__init__("tensorflow", v1.__doc__)
        self.__dict__.update({name: getattr(tensorflow, name) for name in _COPIED})
        self.__spec__ = tensorflow.__spec__
        self.__loader__ = tensorflow.__loader__
        self.__package__ = "tensorflow"
        self.__dict__["_whale_sources"] = (v1, tensorflow)

    def __getattr__(self, name: str) -> Any:
        for source in self.__dict__["_whale_sources"]:
            try:
                return getattr(source, name)
            except AttributeError:
                continue
        if name == "contrib":
            return importlib.import_module("tensorflow.contrib")
        if name in GONE:
            raise missing_symbol(f"tf.{name}", GONE[name])
        submodule = sys.modules.get(f"tensorflow.{name}")
        if submodule is not None:
            return submodule
        raise AttributeError(f"module 'tensorflow' has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        names = {"contrib", *self.__dict__}
        for source in self.__dict__["_whale_sources"]:
            names.update(dir(source))
        return sorted(name for name in names if name != "_whale_sources")

    def walk(self, path: str) -> types.ModuleType | None:
        """The module that a dotted path of attributes leads to (``keras.layers``), or None."""
        value: Any = self
        for name in path.split("."):
            try:
                value = getattr(value, name)
            except (AttributeError, ImportError):
                return None
        return value if isinstance(value, types.ModuleType) else None
