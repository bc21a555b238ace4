"""``Env``: the one façade through which scripts ask what Whale set up."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn, Protocol

from whale.config.setting import script_site
from whale.config.store import Config
from whale.errors import MissingNameError, SetupError, nearest


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
    def worker_index(self) -> int:
        """Number of this process among the workers."""
        ...

    @property
    def gpu_num_per_worker(self) -> int:
        """Number of devices of this process."""
        ...

    @property
    def virtual_devices(self) -> Sequence[Any]:
        """The devices of each TaskGraph under the layout in force."""
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
    parallel_information: dict[str, Any] = dataclasses.field(default_factory=dict[str, Any])
    """A place for a script's own notes, which EPL's scripts have here. Whale writes nothing into it."""

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

    def __getattr__(self, name: str) -> NoReturn:
        """Called for what is neither of these."""
        missing_name("Env.get()", name, [field.name for field in dataclasses.fields(self)])


def missing_name(owner: str, name: str, known: Sequence[str], instead: str = "") -> NoReturn:
    """Says that an object which EPL has too lacks an attribute here, and what there is.

    Args:
        owner: the object, as a script writes it.
        name: the attribute.
        known: the attributes that it has.
        instead: what to do, where there is better advice than a list of names.

    Raises:
        MissingNameError: always.
    """
    near = nearest(name, known)
    advice = instead or (f"{near} " if near else "") + f"it has {', '.join(known)}"
    raise MissingNameError(f"{owner} has no attribute {name!r} in Whale", site=script_site(), fix=advice)
