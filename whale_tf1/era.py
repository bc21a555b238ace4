"""Names that Python and numpy had when TF1 source was written.

They are not TensorFlow's, but a script of 2018 that says ``np.float`` or ``time.clock`` cannot be run unedited without
them. Only missing names are added.
"""

from __future__ import annotations

import collections
import collections.abc
import contextlib
import inspect
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from whale_tf1.undo import set_attribute

NUMPY_ALIASES = {"bool": bool, "int": int, "float": float, "complex": complex, "object": object, "str": str}

COLLECTIONS = ("Callable", "Hashable", "Iterable", "Iterator", "Mapping", "MutableMapping", "MutableSequence")
COLLECTIONS += ("MutableSet", "Sequence", "Set", "Sized")

ArgSpec = collections.namedtuple("ArgSpec", ("args", "varargs", "keywords", "defaults"))


def getargspec(function: Callable[..., Any]) -> ArgSpec:
    """The four fields of ``inspect.getfullargspec`` that ``inspect.getargspec`` had."""
    return ArgSpec(*inspect.getfullargspec(function)[:4])


def asscalar(a: Any) -> Any:
    """The Python number in an array of one element, as ``np.asscalar`` gave it."""
    return np.asarray(a).item()


def add_old_names(stack: contextlib.ExitStack) -> None:
    """Adds the names; closing the stack takes them away."""
    rows: list[tuple[Any, str, Any]] = [(np, name, kind) for name, kind in NUMPY_ALIASES.items()]
    rows += [(np, "asscalar", asscalar)]
    rows += [(collections, name, getattr(collections.abc, name)) for name in COLLECTIONS]
    rows += [(inspect, "getargspec", getargspec), (time, "clock", time.perf_counter)]
    for owner, name, value in rows:
        # vars(): numpy answers hasattr for some of these with a warning.
        if name not in vars(owner):
            set_attribute(stack, owner, name, value)
