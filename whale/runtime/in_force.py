"""The activation in force in this process.

``whale run`` and a script's ``whale.init()`` do not call each other: whoever activates puts the activation here, and
the other finds it. Only these two read it; everything else gets what it needs as an argument.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar

from whale.runtime.options import Options

if TYPE_CHECKING:
    from whale.runtime.activation import Activation


@dataclasses.dataclass(frozen=True)
class InForce:
    """An activation, and who made it."""

    activation: Activation
    base: Options
    """What it was activated with; what a script adds by ``init`` goes on top."""
    by_script: bool = False
    """Whether the script made it, so that the script's ``shutdown`` ends it."""

    _current: ClassVar[InForce | None] = None

    @classmethod
    def get(cls) -> InForce | None:
        """What is in force, or None."""
        return cls._current

    @classmethod
    def set(cls, in_force: InForce | None) -> None:
        """Puts an activation in force, or none."""
        cls._current = in_force

    @classmethod
    def drop(cls, activation: Activation) -> None:
        """Takes an activation that was closed out of force, if it is the one."""
        if cls._current is not None and cls._current.activation is activation:
            cls._current = None
