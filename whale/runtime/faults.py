"""A fault of Whale's own while a run is prepared: it is told as one, and the run goes on, uncut."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType

from whale.errors import Site, WhaleError
from whale.ir.program import Op

TO_REPORT = "it runs on one device, and computes what it should; please report this with what `whale doctor` says"
"""What a user is to know of a fault and to do about it."""


def told(fault: Exception) -> str:
    """What is said of an exception that is no answer to the script: its place in Whale, and the op it was met at."""
    frames = traceback.extract_tb(fault.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    what = fault.what if isinstance(fault, WhaleError) else str(fault)
    op, site = _op_at(fault.__traceback__), fault.site if isinstance(fault, WhaleError) else None
    met = f", met at {op.type} '{op.name}'" if op is not None else ""
    line = _line(site or (op.site if op is not None else None))
    return f"a fault of Whale, not of the script: {type(fault).__name__}: {what}{place}{met}{line}"


def _op_at(trace: TracebackType | None) -> Op | None:
    """The op of the script that the innermost function which was given one was given."""
    found = None
    while trace is not None:
        values = [*trace.tb_frame.f_locals.values()]
        ops = (value if isinstance(value, Op) else getattr(value, "op", None) for value in values)
        found = next((op for op in ops if isinstance(op, Op)), found)
        trace = trace.tb_next
    return found


def _line(site: Site | None) -> str:
    return f", from {site}" if site is not None else ""
