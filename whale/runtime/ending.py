"""How a script is ended that has run as far as it was to."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable
from typing import NoReturn

_PATIENCE = 3
"""How often a script is told to end before its process is ended for it."""


class Ending:
    """Ends a script by an exception, and its process where that does not help."""

    def __init__(self, at_last: Callable[[], None]) -> None:
        """Prepares it.

        Args:
            at_last: called before the process is ended, for a script that catches what ends it, or that trains in a
                thread, which cannot end the others. The exit status is then 0, and 1 where it fails.
        """
        self._at_last = at_last
        self._told = 0

    def end(self, told: SystemExit) -> NoReturn:
        """Raises what ends the script: a SystemExit, which ``except Exception`` lets pass."""
        self._told += 1
        if self._told == _PATIENCE or threading.current_thread() is not threading.main_thread():
            status = 1
            try:
                self._at_last()
                status = 0
            except Exception:
                traceback.print_exc()  # the script would catch it, or its thread end alone
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        raise told
