"""Eager mode is refused where a script asks for it: it would train on one device, without a word."""

from __future__ import annotations

import contextlib
import types
from typing import Any

from whale.errors import STATIC_GRAPH, SetupError
from whale_tf1.missing import caller_site
from whale_tf1.undo import set_attribute

SWITCHES = ("enable_eager_execution", "enable_v2_behavior")
"""Functions of TensorFlow's v1 surface that turn eager mode on."""


def refuse_eager_mode(stack: contextlib.ExitStack, v1: types.ModuleType) -> None:
    """While the TF1 environment is installed, turning eager mode on raises SetupError with the script's line."""
    for name in SWITCHES:
        set_attribute(stack, v1, name, _refusal(name))


def _refusal(name: str) -> Any:
    def refuse(*arguments: object, **options: object) -> None:
        raise SetupError(
            f"tf.{name}() turns eager mode on, and Whale works on static graphs", site=caller_site(), fix=STATIC_GRAPH
        )

    refuse.__name__ = name
    return refuse
