"""Errors of TensorFlow in the user's terms: names of copies become names of the user's ops."""

from __future__ import annotations

import re
from collections.abc import Mapping

import tensorflow.compat.v1 as tf

from whale.rewriter.shadow import Origin

_NODE = re.compile(r"\{\{node ([^}]+)\}\}|\[\[([^\]{}]+)\]\]")


def translate(error: tf.errors.OpError, origins: Mapping[str, Origin]) -> tf.errors.OpError:
    """The error with node names of copies replaced by the user's op and a note of the copy."""
    replicas: set[int] = set()

    def rename(match: re.Match[str]) -> str:
        name = match.group(1) or match.group(2)
        base, _, index = name.partition(":")
        origin = origins.get(base)
        if origin is None:
            return match.group(0)
        replicas.add(origin.replica)
        return match.group(0).replace(name, origin.op + (f":{index}" if index else ""))

    message = _NODE.sub(rename, error.message)
    if not replicas:
        return error
    copies = ", ".join(str(r) for r in sorted(replicas))
    return type(error)(None, None, f"{message}\n(on replica {copies})")
