"""What is said after the traceback of a script that fails because it runs under Whale, or on a static graph at all."""

from __future__ import annotations

import dataclasses
import re

from whale.errors import STATIC_GRAPH, CaptureError, SetupError, WhaleError


@dataclasses.dataclass(frozen=True)
class Hint:
    """One cause that TensorFlow's own message does not name."""

    signs: re.Pattern[str]
    """Parts of the messages by which it is known, in the words of TensorFlow 2.15 to 2.21."""
    kind: type[WhaleError]
    """What it is called."""
    what: str
    """The cause."""
    fix: str
    """The way out."""


HINTS = (
    Hint(
        re.compile(
            r"'\w*(?:Tensor|Variable|Operation)' object has no attribute '(?:numpy|_id)'"
            r"|only supports Python-style iteration in eager mode"
            r"|a symbolic `?tf\.Tensor`?"
            r"|a symbolic Tensor"
            r"|not '?SymbolicTensor"
            r"|Attempting to capture an EagerTensor"
        ),
        SetupError,
        "the script does what only the eager mode of TensorFlow 2 allows, and Whale works on the static graphs of "
        "TensorFlow 1, where tensors have values in a session alone",
        STATIC_GRAPH,
    ),
    Hint(
        re.compile(r"larger than 2GB"),
        CaptureError,
        "a graph and each constant in it hold at most 2 GB, in TensorFlow and in Whale",
        "feed the array through a placeholder, read it with tf.data from files, or initialise a variable from a "
        "placeholder",
    ),
)


def hint(error: BaseException) -> WhaleError | None:
    """What to add to an error that a script raised; None for nearly all errors."""
    texts = [str(raised) for raised in (error, error.__cause__) if isinstance(raised, Exception)]
    for known in HINTS:
        if any(known.signs.search(text) for text in texts):
            return known.kind(known.what, fix=known.fix)
    return None
