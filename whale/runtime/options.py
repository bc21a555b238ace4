"""What the user chose for a process."""

from __future__ import annotations

import dataclasses
from typing import Optional

from whale.cluster import Cluster
from whale.config import Config


@dataclasses.dataclass(frozen=True)
class Options:
    """Devices, strategy and modes of a run, from the command line or ``whale.init``."""

    cluster: Cluster
    """The devices."""
    strategy: str = "auto"
    """``auto``, ``replica`` or ``annotated``."""
    batch: str = ""
    """``global``, ``local``, or empty: local for scripts that use annotations, else global."""
    plan_path: Optional[str] = None
    """A plan file to follow."""
    config: Config = dataclasses.field(default_factory=Config)
    """Everything else."""
    quiet: bool = False
    """Whether plans are kept off standard error."""
