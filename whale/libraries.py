"""Which files are not the user's: those of Python, of installed packages, and Whale's own."""

from __future__ import annotations

import functools
import os
import sysconfig

_PACKAGE = os.path.dirname(os.path.abspath(__file__))

OWN_FOLDERS = (_PACKAGE + os.sep, os.path.join(os.path.dirname(_PACKAGE), "whale_tf1") + os.sep)
"""Folders of the packages that Whale consists of, each with a separator at its end."""

_FOLDERS = tuple(
    os.path.realpath(path) + os.sep
    for path in (*map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib")), *OWN_FOLDERS)
)


@functools.cache
def is_library(path: str) -> bool:
    """Whether a source file belongs to Python, to an installed package or to Whale."""
    return os.path.realpath(path).startswith(_FOLDERS)
