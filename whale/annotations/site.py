"""The user's line that made an op."""

from __future__ import annotations

import functools
import os
import sysconfig
from typing import Any

from whale.errors import Site

_LIBRARY_ROOTS = tuple(
    os.path.realpath(path) + os.sep
    for path in {
        *(sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")),
        os.path.dirname(os.path.dirname(__file__)),
    }
)


def site_of(operation: Any) -> Site | None:
    """Innermost line of an op's traceback that lies outside of installed libraries and Whale itself."""
    traceback = operation.traceback
    if not traceback:
        return None
    for frame in reversed(traceback):
        if not _is_library(frame.filename):
            return Site(frame.filename, frame.lineno)
    last = traceback[-1]
    return Site(last.filename, last.lineno)


@functools.cache
def _is_library(path: str) -> bool:
    return os.path.realpath(path).startswith(_LIBRARY_ROOTS)
