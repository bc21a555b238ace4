"""The names of the orders in which a pipeline's micro-batches run: one table for scripts, settings and plan files."""

from __future__ import annotations

from collections.abc import Mapping

from whale.errors import ScheduleError, nearest

OWN: Mapping[str, str] = {
    "PreferBackward": "one_f_one_b",
    "PreferForward": "gpipe",
    "PreferBackwardOptimizer": "prefer_backward_optimizer",
    "Interleaved": "interleaved",
}
"""A schedule's own name by the one that scripts use, which is EPL's."""

PUBLISHED: Mapping[str, str] = {"1F1B": "one_f_one_b", "GPipe": "gpipe"}
"""The names of the papers, where they are others."""

NAMES: tuple[str, ...] = (*OWN, *PUBLISHED, *(own for own in OWN.values() if own not in ("gpipe", "interleaved")))
"""Every name, for messages; capital and small letters are one, and ``_`` and ``-`` are left out when they compare."""


def canonical(name: object) -> str:
    """A schedule's own name, such as ``one_f_one_b`` for ``PreferBackward`` or ``1F1B``.

    Raises:
        ScheduleError: there is no such schedule.
    """
    known = {_plain(each): own for each, own in (*OWN.items(), *PUBLISHED.items())}
    known.update({_plain(own): own for own in OWN.values()})
    found = known.get(_plain(name)) if isinstance(name, str) else None
    if found is None:
        near = nearest(name, NAMES) if isinstance(name, str) else ""
        raise ScheduleError(
            f"unknown pipeline strategy {name!r}",
            fix=f"{near + ' ' if near else ''}the strategies are {', '.join(NAMES)}",
        )
    return found


def name_for_scripts(name: object) -> str:
    """The same schedule's name in scripts, such as ``PreferBackward``.

    Raises:
        ScheduleError: there is no such schedule.
    """
    own = canonical(name)
    return next(script for script, known in OWN.items() if known == own)


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "").replace("-", "")
