"""What a case is, and how the cases are found.

A case is the body of a small TF1 script: a function of ``tf`` (``tensorflow.compat.v1``), ``record`` and
``workdir``. It knows nothing of Whale; the runner executes it under plain TensorFlow and under Whale and
compares what it recorded.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.numerics import cases

Record = Callable[[str, Any], None]
"""Called by a case with a name and a fetched value (number, array, string, or a structure of them)."""

Body = Callable[[Any, Record, Path], None]
"""A script: ``body(tf, record, workdir)``."""

ALL_VERSIONS = ("2.15", "2.21")
"""TensorFlow versions the suite runs on."""


@dataclasses.dataclass(frozen=True)
class Case:
    """One script and what is expected of it."""

    name: str
    """``topic.function``, unique."""
    body: Body
    """The script."""
    cut: bool
    """Whether Whale must cut the training step over the devices."""
    tolerance: float
    """Largest accepted difference, relative to the largest magnitude in the array."""
    reason: str
    """Why the step may run on one replica (``cut`` is False), or why the tolerance is not the default."""
    tf_versions: tuple[str, ...]
    """``major.minor`` of the TensorFlow versions that can run the script."""
    slow: bool
    """Takes more than a few seconds: runs with ``--full`` only."""
    devices: tuple[int, ...]
    """Device counts to run on."""
    reader: Body | None
    """A second script that reads what ``body`` left in ``workdir``; writer and reader are then also run
    one under Whale and the other under plain TensorFlow."""
    fixed: str
    """Why its batches cannot be given other numbers of samples from outside; empty if they can."""

    @property
    def topic(self) -> str:
        """The file the case is in."""
        return self.name.split(".")[0]


def case(
    cut: bool = True,
    tolerance: float = 1e-5,
    reason: str = "",
    tf_versions: tuple[str, ...] = ALL_VERSIONS,
    slow: bool = False,
    devices: tuple[int, ...] = (2, 3),
    reader: Body | None = None,
    fixed: str = "",
) -> Callable[[Body], Case]:
    """Make a case of a function; see :class:`Case` for the arguments.

    Raises:
        ValueError: a case that need not be cut, or has a tolerance of its own, without a reason.
    """
    if not reason and (not cut or tolerance > 1e-5):
        raise ValueError("say why: a case with cut=False or a wider tolerance needs a reason")

    def register(body: Body) -> Case:
        topic = body.__module__.rsplit(".", 1)[-1]
        name = f"{topic}.{body.__name__}"
        return Case(name, body, cut, tolerance, reason, tf_versions, slow, devices, reader, fixed)

    return register


def all_cases() -> list[Case]:
    """Every case of every module of ``tests.numerics.cases``, by module and then in the order of definition."""
    found: list[Case] = []
    for module in sorted(info.name for info in pkgutil.iter_modules(cases.__path__)):
        values = vars(importlib.import_module(f"{cases.__name__}.{module}")).values()
        found += [value for value in values if isinstance(value, Case)]
    names = [one.name for one in found]
    duplicates = {name for name in names if names.count(name) > 1}
    if duplicates:
        raise ValueError(f"cases of one name: {sorted(duplicates)}")
    return found


def record_variables(tf: Any, sess: Any, record: Record) -> None:
    """Record every global variable of the session's graph under its own name, in order of the names."""
    with sess.graph.as_default():
        variables = sorted(tf.global_variables(), key=lambda variable: variable.name)
    values = sess.run(variables)
    for variable, value in zip(variables, values):
        record(variable.name, value)
