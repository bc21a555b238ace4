"""Changes to modules, dictionaries and the environment that an ExitStack undoes, newest first."""

from __future__ import annotations

import contextlib
from collections.abc import MutableMapping
from typing import Any

_ABSENT = object()


def set_attribute(stack: contextlib.ExitStack, owner: Any, name: str, value: Any) -> None:
    """Sets an attribute; closing the stack restores what was in the owner's own dictionary, or its absence."""
    previous = vars(owner).get(name, _ABSENT)
    setattr(owner, name, value)
    if previous is _ABSENT:
        stack.callback(delattr, owner, name)
    else:
        stack.callback(setattr, owner, name, previous)


def set_item(stack: contextlib.ExitStack, mapping: MutableMapping[str, Any], key: str, value: Any) -> None:
    """Sets an item; closing the stack restores the value before, or its absence."""
    previous = mapping.get(key, _ABSENT)
    mapping[key] = value
    if previous is _ABSENT:
        stack.callback(mapping.pop, key, None)
    else:
        stack.callback(mapping.__setitem__, key, previous)
