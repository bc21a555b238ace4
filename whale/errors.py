"""Every error Whale raises, one class per cause, with its fix.

A message says what is wrong, where (the user's file and line when there is one) and what to do. None of these
classes derives from a TensorFlow error: ``MonitoredSession`` retries on ``AbortedError`` and ``UnavailableError``,
and a mistake in a script must not be retried for ever.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable


@dataclasses.dataclass(frozen=True)
class Site:
    """A place in the user's source."""

    path: str
    """File as the interpreter knows it."""
    line: int
    """Line number, from 1."""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


class WhaleError(Exception):
    """Base of every error raised by Whale.

    ``what`` states the fault, ``site`` the user's line (or None), ``fix`` what to do.
    """

    def __init__(self, what: str, *, site: Site | None = None, fix: str = "") -> None:
        self.what = what
        self.site = site
        self.fix = fix
        text = what
        if site is not None:
            text += f"\n  at {site}"
        if fix:
            text += f"\n  fix: {fix}"
        super().__init__(text)


class SetupError(WhaleError):
    """TensorFlow is absent, eager, or of a version Whale does not know.

    Fix: install one of the extras (``pip install 'whale-tf[cpu]'``), or use graph mode, as the message says.
    """


STATIC_GRAPH = (
    "build a static graph and run it in a tf.Session (remove the call, where there is one), or run the script with "
    "python, on one device"
)
"""The fix for a script in eager mode."""


class ConfigError(WhaleError):
    """A configuration key or value is unknown, or names a feature that does not exist yet.

    Fix: use the nearest key the message names, or remove the setting.
    """


class ClusterError(WhaleError):
    """A device, host, layout or cluster file is wrong.

    Fix: correct the field and line that the message names.
    """


class ScopeError(WhaleError):
    """Annotation scopes are nested wrongly, left open, or empty.

    Fix: see the scope's rules in ``docs/annotations.md``.
    """


class CaptureError(WhaleError):
    """The graph cannot be read: it holds ops or functions that Whale cannot represent."""


class VerifyError(WhaleError):
    """A program, plan or rewritten graph breaks an invariant; all violations are listed.

    This is a fault of Whale, not of the script: please report it with the message.
    """


class PlanError(WhaleError):
    """A plan does not fit the graph, the cluster or the batch.

    Fix: as the message says; a plan file is valid only for the graph and cluster it was made for.
    """


class ScheduleError(WhaleError):
    """A pipeline schedule cannot be made from these numbers or this strategy, or breaks a rule; all are listed.

    Fix: as the message says: a strategy's right name, or as many stages and devices as it needs.
    """


class SessionError(WhaleError):
    """A fetch or feed does not belong to the session's graph, or a run cannot be translated."""


class HangError(WhaleError):
    """No node of a step finished for ``hang.seconds``, although the step waits for nothing outside of it.

    The session is closed: some variables may be written and others not. Fix: start again from the last checkpoint, on
    one device or with the setting that the message names, and report the message.
    """


class ContribError(WhaleError, AttributeError):
    """A ``tf.contrib`` symbol no longer exists and has no replacement.

    It is an AttributeError as well, so that ``hasattr`` and ``try``/``except`` in scripts keep their meaning.
    """


class MissingNameError(WhaleError, AttributeError):
    """An attribute of EPL, or of an object that EPL has too, does not exist in Whale.

    Fix: use the name that the message gives. It is an AttributeError as well, so that ``hasattr`` keeps its meaning.
    """


def nearest(name: str, known: Iterable[str]) -> str:
    """A phrase naming the closest known names, or the empty string when none is close."""
    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    return f"did you mean {' or '.join(repr(c) for c in close)}?" if close else ""
