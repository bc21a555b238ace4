"""The user's line that made an op."""

from __future__ import annotations

from typing import Any

from whale.errors import Site
from whale.libraries import is_library


def site_of(operation: Any) -> Site | None:
    """Innermost line of an op's traceback that lies outside of installed libraries and Whale itself."""
    traceback = operation.traceback
    if not traceback:
        return None
    for frame in reversed(traceback):
        if not is_library(frame.filename):
            return Site(frame.filename, frame.lineno)
    last = traceback[-1]
    return Site(last.filename, last.lineno)
