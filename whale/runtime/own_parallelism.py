"""Scripts that are parallel already: they run untouched, and are told why."""

from __future__ import annotations

import re
from collections.abc import Iterable

from whale.ir.program import Op

_GPU = re.compile(r"/(?:device:)?gpu:(\d+)", re.IGNORECASE)
_COLLECTIVES = ("Nccl", "Collective", "Horovod", "TPUReplicate")


def already_parallel(ops: Iterable[Op]) -> str:
    """Why the ops of a run are a parallel program of the script's own; empty when they are not."""
    gpus: set[str] = set()
    for op in ops:
        if op.type.startswith(_COLLECTIVES):
            return f"the script has collectives of its own ({op.type} '{op.name}'" + (
                f" at {op.site})" if op.site else ")"
            )
        if "/job:" in op.device and "/job:localhost" not in op.device:
            return f"the script places ops on jobs of its own ('{op.name}' on {op.device})"
        found = _GPU.search(op.device)
        if found:
            gpus.add(found.group(1))
    if len(gpus) > 1:
        return f"the script places ops on {len(gpus)} GPUs of its own choice ({', '.join(sorted(gpus))})"
    return ""
