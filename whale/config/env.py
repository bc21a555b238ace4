"""``Env``: the one façade through which scripts ask what Whale set up."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar, Protocol

from whale.config.store import Config
from whale.errors import SetupError


class ClusterFacts(Protocol):
    """What scripts read from ``Env.get().cluster``."""

    @property
    def total_gpu_num(self) -> int:
        """Number of devices, over all workers."""
        ...

    @property
    def worker_num(self) -> int:
        """Number of worker processes."""
        ...

    @property
    def available_devices(self) -> Sequence[str]:
        """Device strings of the compute devices, under EPL's name."""
        ...


@dataclasses.dataclass(frozen=True)
class Env:
    """What ``whale.init()`` set up, for scripts that ask. Whale's own passes get these values as arguments."""

    cluster: ClusterFacts
    """The devices in use."""
    config: Config
    """The configuration in force: the object the script gave to ``init``, if any."""

    _current: ClassVar[Env | None] = None

    @classmethod
    def get(cls) -> Env:
        """The environment in force.

        Raises:
            SetupError: nothing has been initialised yet.
        """
        if cls._current is None:
            raise SetupError("Env.get() was called before Whale was initialised", fix="call whale.init() first")
        return cls._current

    @classmethod
    def set(cls, env: Env | None) -> None:
        """Put an environment in force, or none. For the runtime; scripts call ``whale.init()``."""
        cls._current = env
