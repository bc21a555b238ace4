"""Python's garbage collector, out of the way while a graph is analysed and rewritten."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Within the context no collection starts: hundreds of thousands of objects are made, and all of them are live."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
