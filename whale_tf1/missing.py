"""Errors for TF1 symbols and modules that nothing stands for."""

from __future__ import annotations

import os
import sys

from whale.errors import ContribError, Site, WhaleError
from whale.libraries import OWN_FOLDERS

_SKIPPED = (*OWN_FOLDERS, "<frozen ")


class ContribImportError(WhaleError, ImportError):
    """A module of TF1 cannot be imported, and nothing replaces it.

    It is an ImportError as well, so that scripts that import optional modules inside ``try`` keep working.
    Fix: as the message says.
    """


def caller_site() -> Site | None:
    """The innermost line on the stack that belongs neither to Whale nor to the import system."""
    frame = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith(_SKIPPED) and f"{os.sep}importlib{os.sep}" not in path:
            return Site(path, frame.f_lineno)
        frame = frame.f_back
    return None


def missing_symbol(symbol: str, way_out: str) -> ContribError:
    """The error for an attribute such as ``tf.contrib.gan.gan_model``."""
    return ContribError(f"{symbol} does not exist in TensorFlow 2", site=caller_site(), fix=way_out)


def missing_module(module: str, way_out: str) -> ContribImportError:
    """The error for ``import tensorflow.contrib.gan``."""
    return ContribImportError(f"module {module} does not exist in TensorFlow 2", site=caller_site(), fix=way_out)
