"""Puts the TF1 environment in place, and takes it away again."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import types
from typing import Any

from whale.installed import has_module, needs_legacy_keras, require_tensorflow
from whale_tf1.contrib import ContribFinder
from whale_tf1.eager import refuse_eager_mode
from whale_tf1.era import add_old_names
from whale_tf1.face import TensorFlowFace
from whale_tf1.finder import ModuleFinder, TensorFlowFinder
from whale_tf1.last_release import name_last_release
from whale_tf1.moved import MOVED_MODULES, add_moved_names, unify_layers
from whale_tf1.slim import repair_slim
from whale_tf1.tables import AREAS, GONE_AREAS
from whale_tf1.undo import set_item

EXAMPLES = {
    "tensorflow.examples": "whale_tf1.ports.examples",
    "tensorflow.examples.tutorials": "whale_tf1.ports.examples",
    "tensorflow.examples.tutorials.mnist": "whale_tf1.ports.mnist_tutorial",
    "tensorflow.examples.tutorials.mnist.input_data": "whale_tf1.ports.mnist",
    "tensorflow.examples.tutorials.mnist.mnist": "whale_tf1.ports.mnist_tutorial",
}
"""The one package of TensorFlow's examples that scripts import."""

EPL = {
    "epl": "whale_tf1.ports.epl",
    "epl.config": "whale.config",
    "epl.env": "whale.config.env",
    "epl.profiler": "whale_tf1.ports.epl_profiler",
    "epl.profiler.memory_profiler_hook": "whale_tf1.ports.epl_profiler",
}
"""What EPL's scripts import of it."""

EPL_MODULES = ("cluster", "ir", "ir.graph", "strategies", "strategies.replicate", "strategies.split", "utils")
EPL_MODULES += ("utils.version",)
"""Modules of EPL that define public names of it, below ``epl``; each has all of them here."""

EPL_INTERNALS = ("communicators", "ops", "parallel", "runtime", "ir.phase", "ir.taskgraph", "strategies.scheduler")
EPL_INTERNALS += ("utils.common", "utils.constant")
"""Modules of EPL that rewrite graphs, which Whale does in its own way: importing one says so."""


class Installation:
    """An installed TF1 environment; ``close`` undoes it, and so does leaving it as a context manager."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack

    def close(self) -> None:
        """Restores modules, import hooks, environment variables and TensorFlow's mode; a second call does nothing."""
        self._stack.close()

    def __enter__(self) -> Installation:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def install() -> Installation:
    """Makes this process run TF1 source: ``import tensorflow`` gives TensorFlow's v1 surface in graph mode.

    No op is added to any graph.

    Raises:
        SetupError: TensorFlow is absent or of an unknown release.
    """
    found = require_tensorflow()
    stack = contextlib.ExitStack()
    try:
        _install(stack, found)
    except BaseException:
        stack.close()
        raise
    return Installation(stack)


def _install(stack: contextlib.ExitStack, found: tuple[int, int]) -> None:
    legacy_keras = has_module("tf_keras")
    if needs_legacy_keras(found) and legacy_keras:
        # TensorFlow reads it while it is imported, and again when tf.keras is first used.
        set_item(stack, os.environ, "TF_USE_LEGACY_KERAS", "1")
    tensorflow = importlib.import_module("tensorflow")
    v1 = importlib.import_module("tensorflow.compat.v1")
    _leave_v2_behavior(stack, v1)
    refuse_eager_mode(stack, v1)
    add_old_names(stack)
    _install_hooks(stack, tensorflow, v1)
    add_moved_names(stack)
    name_last_release(stack)
    if legacy_keras or not needs_legacy_keras(found):
        unify_layers(stack, v1)
    repair_slim(stack)


def _leave_v2_behavior(stack: contextlib.ExitStack, v1: types.ModuleType) -> None:
    if not v1.executing_eagerly() and not v1.control_flow_v2_enabled():
        return
    verbosity = v1.logging.get_verbosity()
    v1.logging.set_verbosity(v1.logging.ERROR)  # TensorFlow warns about its own switch
    v1.disable_v2_behavior()
    v1.logging.set_verbosity(verbosity)
    stack.callback(v1.enable_v2_behavior)
    # TensorFlow refuses to turn eager mode on while a default graph exists.
    stack.callback(v1.reset_default_graph)


def _install_hooks(stack: contextlib.ExitStack, tensorflow: types.ModuleType, v1: types.ModuleType) -> None:
    face = TensorFlowFace(tensorflow, v1)
    before = set(sys.modules)
    stack.callback(_forget_modules, before)
    set_item(stack, sys.modules, "tensorflow", face)
    finders: list[Any] = [ContribFinder(AREAS, GONE_AREAS), TensorFlowFinder(face), ModuleFinder(_makers())]
    for finder in finders:
        sys.meta_path.insert(0, finder)
        stack.callback(sys.meta_path.remove, finder)


def _makers() -> dict[str, Any]:
    targets = {**EXAMPLES}
    targets.update({name: target for name, target in MOVED_MODULES.items() if _exists(target)})
    if not has_module("epl"):
        targets.update(EPL)
    makers = {name: _importer(target) for name, target in targets.items()}
    if "epl" in targets:
        makers.update({f"epl.{name}": _namesake(f"epl.{name}") for name in EPL_MODULES})
        makers.update({f"epl.{name}": _refuser(f"epl.{name}") for name in EPL_INTERNALS})
    return makers


def _namesake(name: str) -> Any:
    """A module of its own: importing it sets an attribute of its package, which must not hide a function of ``epl``."""

    def load() -> types.ModuleType:
        public = importlib.import_module("epl")
        module = types.ModuleType(name, public.__doc__)
        vars(module).update({known: getattr(public, known) for known in public.__all__}, __path__=[])
        return module

    return load


def _refuser(name: str) -> Any:
    def load() -> types.ModuleType:
        # Without its ``name``: ``from package import module`` swallows an error that names the module.
        raise ModuleNotFoundError(
            f"{name} is an internal module of EPL, which Whale does not have\n"
            "  fix: remove the import; the public names are those of `import epl`, and whale.explain(session) says "
            "what runs where"
        )

    return load


def _importer(target: str) -> Any:
    def load() -> types.ModuleType:
        return importlib.import_module(target)

    return load


def _exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _forget_modules(before: set[str]) -> None:
    """Drops what was imported under a name that only this environment gives."""
    for name in set(sys.modules) - before:
        module = sys.modules[name]
        given_name = getattr(module, "__name__", name)
        # What was made for EPL's packages has no spec; an EPL that is installed has one.
        alias = given_name != name or getattr(module, "__spec__", None) is None
        if name.startswith("tensorflow.contrib") or (name.startswith(("tensorflow.", "epl")) and alias):
            del sys.modules[name]
