"""Which TensorFlow is installed, found out without importing it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re

from whale.errors import SetupError

OLDEST = (2, 15)
NEWEST = (2, 21)

_DISTRIBUTIONS = ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tensorflow-macos", "tf-nightly")


def tensorflow_version() -> str | None:
    """The version string of the installed TensorFlow, or None when there is none."""
    for name in _DISTRIBUTIONS:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def release(version: str) -> tuple[int, int]:
    """Major and minor number of a version string: ``"2.15.1"`` gives ``(2, 15)``.

    Raises:
        SetupError: the string does not begin with two numbers.
    """
    match = re.match(r"(\d+)\.(\d+)", version)
    if match is None:
        raise SetupError(f"cannot read TensorFlow's version {version!r}", fix="install TensorFlow 2.15 to 2.21")
    return int(match[1]), int(match[2])


def require_tensorflow() -> tuple[int, int]:
    """The release of the installed TensorFlow.

    Raises:
        SetupError: TensorFlow is absent, or of a release that Whale does not know.
    """
    version = tensorflow_version()
    if version is None:
        raise SetupError(
            "TensorFlow is not installed",
            fix="pip install 'whale-tf[tf1]' (TensorFlow 2.15, CPU), 'whale-tf[cpu]' or 'whale-tf[gpu]'",
        )
    found = release(version)
    if not OLDEST <= found <= NEWEST:
        raise SetupError(
            f"TensorFlow {version} is not supported",
            fix=f"install a release from {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}",
        )
    return found


def needs_legacy_keras(found: tuple[int, int]) -> bool:
    """Whether ``tf.layers``, RNN cells and ``tf.keras`` of TF1 live in the separate ``tf-keras`` package."""
    return found >= (2, 16)


def has_module(name: str) -> bool:
    """Whether a top-level module can be imported; it is not imported."""
    return importlib.util.find_spec(name) is not None
