"""Errors of TensorFlow in the user's terms: names of copies become names of the user's ops."""

from __future__ import annotations

import re
from collections.abc import Mapping

import tensorflow.compat.v1 as tf

from whale.ir.program import Op
from whale.rewriter.shadow import Origin, Shadow

_NODE = re.compile(r"\{\{node ([^}]+)\}\}|\s*\[\[([^\]{}]+)\]\]")

# TensorFlow names the nodes that it adds itself after the one they serve: transfers, and fed and fetched values.
_ADDED = re.compile(r"(?:_(?:arg|retval)_)?(.+?)(?:/_\d+)?")
_VALUE = re.compile(r"_\d+_\d+$")


# A fed or drawn value, or a variable, that cannot be had is no fault of the node that asks for it.
_FAULTS = (tf.errors.InvalidArgumentError, tf.errors.InternalError, tf.errors.UnimplementedError)
_NO_FAULTS = frozenset({"Assert", "IteratorGetNextAsOptional"})
"""Types of Whale's own nodes that fail where the script's data is wrong: they check it, or draw it."""

_MEETINGS = frozenset({"CollectiveReduceV2"})
"""Types of the nodes in which devices wait for one another: what one of them could not compute, all report."""

_UNNAMED = re.compile(r"\s*\[\[\{\{node \}\}\]\]")


_SOUGHT = (
    "\nThe devices' parts of a sum did not fit together, or one device failed before the others: run the step on one "
    "device (whale run --devices 1) to see which op refuses its inputs. If none does, please report this message."
)


def translate(error: tf.errors.OpError, shadow: Shadow, ops: Mapping[str, Op]) -> tf.errors.OpError:
    """The error with node names of copies replaced by the user's op and a note of the copy.

    Where nothing but a node of Whale's own failed, the message names it, the op that it serves and what to report.

    Args:
        error: as the session of the rewritten graph raised it.
        shadow: that graph.
        ops: the user's, by name.
    """
    copies: dict[int, str] = {}
    failed: dict[str, Origin | None] = {}

    def rename(match: re.Match[str]) -> str:
        name = match.group(1) or match.group(2)
        base, _, index = name.partition(":")
        base = _served(base, shadow)
        if base is None:
            return match.group(0)
        origin = shadow.origins.get(base)
        if match.group(1):
            failed[base] = origin
        if origin is None:
            return match.group(0).replace(name, base + (f":{index}" if index else ""))
        if not origin.op and match.group(2):  # what waits for the node that failed, and is no op of the script
            return ""
        copies[origin.replica] = str(origin)
        return match.group(0).replace(name, (origin.op or base) + (f":{index}" if index else ""))

    message = _NODE.sub(rename, _UNNAMED.sub("", error.message))
    if copies:
        message += f"\n(on {'; '.join(copies[copy] for copy in sorted(copies))})"
    if failed and isinstance(error, _FAULTS) and all(_is_own(origin, ops) for origin in failed.values()):
        meets = any(origin is not None and origin.own in _MEETINGS for origin in failed.values())
        message += _SOUGHT if meets else _to_report(failed, ops)
    return error if message == error.message else type(error)(None, None, message)


def _is_own(origin: Origin | None, ops: Mapping[str, Op]) -> bool:
    """Whether a node does what no op of the script does."""
    if origin is None or not origin.own or origin.own in _NO_FAULTS:
        return False
    return origin.op not in ops or ops[origin.op].type != origin.own


def _to_report(failed: Mapping[str, Origin | None], ops: Mapping[str, Op]) -> str:
    """What to say of nodes of Whale's own that failed."""
    lines = ["", "This failed in what Whale adds to the graph, not in an op of the script:"]
    for name, origin in sorted(failed.items()):
        assert origin is not None
        served = ops.get(origin.op)
        place = f" at {served.site}" if served is not None and served.site else ""
        whose = f", which serves {served.type} '{served.name}'{place}" if served is not None else ""
        lines.append(f"  {origin.own} '{name}'{whose}")
    lines.append(
        "If the script runs on one device (whale run --devices 1), it is a fault of Whale: please report it with this "
        "message, the plan that was printed before and what `whale doctor` says."
    )
    return "\n".join(lines)


def failed_nodes(message: str, shadow: Shadow) -> list[str]:
    """The nodes of the shadow graph that an error of TensorFlow's says failed, or that those serve which did."""
    named = (match.group(1) for match in _NODE.finditer(message) if match.group(1))
    served = (_served(name.partition(":")[0], shadow) for name in named)
    return list(dict.fromkeys(name for name in served if name is not None))


def _served(name: str, shadow: Shadow) -> str | None:
    """The node of the shadow graph that a node of an error message is or serves."""
    if name in shadow.handles:
        return name
    added = _ADDED.fullmatch(name)
    if added is None:
        return None
    candidates = [added.group(1), _VALUE.sub("", added.group(1))]
    return next((found for found in candidates if found in shadow.handles), None)
