"""The version that scripts read from ``tensorflow.python.framework.versions``: the last of TensorFlow 1.

Public scripts import ``__version__`` from this private file to choose among the ways of TensorFlow 1, and give up at
2.0. ``tf.__version__`` stays what is installed. So does what TensorFlow writes into the graphs that it exports: its own
modules reach the real module as an attribute of ``tensorflow.python.framework``, and only an import of names from the
file meets the stand-in.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import types

from whale_tf1.undo import set_item

LAST_RELEASE = "1.15.5"
"""The last release of TensorFlow 1."""

_FILE = "tensorflow.python.framework.versions"


def name_last_release(stack: contextlib.ExitStack) -> None:
    """Puts the stand-in where ``from tensorflow.python.framework.versions import ...`` looks; closing the stack takes
    it away."""
    real = importlib.import_module(_FILE)
    stand_in = types.ModuleType(_FILE, real.__doc__)
    stand_in.__dict__.update(vars(real), __version__=LAST_RELEASE, VERSION=LAST_RELEASE)
    set_item(stack, sys.modules, _FILE, stand_in)
