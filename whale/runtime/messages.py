"""Errors of TensorFlow in the user's terms: names of copies become names of the user's ops."""

from __future__ import annotations

import re

import tensorflow.compat.v1 as tf

from whale.rewriter.shadow import Shadow

_NODE = re.compile(r"\{\{node ([^}]+)\}\}|\[\[([^\]{}]+)\]\]")

# TensorFlow names the nodes that it adds itself after the one they serve: transfers, and fed and fetched values.
_ADDED = re.compile(r"(?:_(?:arg|retval)_)?(.+?)(?:/_\d+)?")
_VALUE = re.compile(r"_\d+_\d+$")


def translate(error: tf.errors.OpError, shadow: Shadow) -> tf.errors.OpError:
    """The error with node names of copies replaced by the user's op and a note of the copy."""
    copies: dict[int, str] = {}

    def rename(match: re.Match[str]) -> str:
        name = match.group(1) or match.group(2)
        base, _, index = name.partition(":")
        base = _served(base, shadow)
        if base is None:
            return match.group(0)
        origin = shadow.origins.get(base)
        if origin is not None:
            copies[origin.replica] = str(origin)
        op = origin.op if origin is not None else base
        return match.group(0).replace(name, op + (f":{index}" if index else ""))

    message = _NODE.sub(rename, error.message)
    if copies:
        message += f"\n(on {'; '.join(copies[copy] for copy in sorted(copies))})"
    return error if message == error.message else type(error)(None, None, message)


def _served(name: str, shadow: Shadow) -> str | None:
    """The node of the shadow graph that a node of an error message is or serves."""
    if name in shadow.handles:
        return name
    added = _ADDED.fullmatch(name)
    if added is None:
        return None
    candidates = [added.group(1), _VALUE.sub("", added.group(1))]
    return next((found for found in candidates if found in shadow.handles), None)
