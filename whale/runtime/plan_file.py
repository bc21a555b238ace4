"""A plan file that the user chose, read once: what becomes of the file later changes nothing."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from whale.errors import PlanError
from whale.ir.plan import Plan, load


@dataclasses.dataclass(frozen=True)
class PlanFile:
    """What a plan file holds."""

    path: str
    """Where it was, as the user named it; for messages."""
    plan: Plan
    """As it was written: what it leaves out is not filled in."""


def read_plan_file(path: str) -> PlanFile:
    """Reads a plan file.

    Raises:
        PlanError: it cannot be read, or is no plan.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise PlanError(
            f"cannot read the plan file {path}: {error.strerror}", fix="correct the path or its permissions"
        ) from None
    except UnicodeDecodeError:
        raise PlanError(f"{path}: not UTF-8 text", fix="save it as UTF-8") from None
    return PlanFile(path, load(text, path))
