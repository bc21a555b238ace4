"""Runs a script or module as Python itself would, inside this process.

The script sees ``sys.argv``, ``sys.path[0]``, ``__name__``, ``__file__`` and ``sys.modules["__main__"]`` as under
``python script.py``; its exceptions show its own frames only, and its exit status is kept.
"""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import importlib.machinery
import io
import os
import runpy
import sys
import types
from collections.abc import Iterator

from whale.errors import SetupError, Site, WhaleError
from whale.libraries import is_library
from whale.runtime.hints import hint

WHALE_ERROR_STATUS = 2
"""Exit status after an error of class WhaleError."""

FRAMES = (__file__, runpy.__file__, "<frozen runpy>")
"""Files whose frames stand between the caller of ``run`` and the script."""


@dataclasses.dataclass(frozen=True)
class Command:
    """What to run."""

    target: str
    """Path of a script, or dotted name of a module."""
    arguments: tuple[str, ...] = ()
    """What follows the script on the command line, untouched."""
    is_module: bool = False
    """Whether ``target`` is a module (``-m``)."""

    def source(self) -> bytes:
        """The text of the script.

        Raises:
            SetupError: it cannot be read.
        """
        try:
            with io.open_code(os.path.abspath(self.target)) as file:
                return file.read()
        except OSError as error:
            raise SetupError(
                f"cannot read the script {self.target!r}: {error.strerror}",
                fix="give the path of a Python file, or -m and the name of a module",
            ) from error


def run(command: Command) -> None:
    """Runs a command to its end.

    Raises:
        SystemExit: the script called ``sys.exit`` (its own status), raised (status 1, its traceback printed on
            standard error, and below it a hint where Whale knows the cause), or met an error of Whale (status 2, the
            message printed on standard error).
    """
    try:
        if command.is_module:
            _run_module(command)
        else:
            _run_script(command)
    except SystemExit:
        raise
    except WhaleError as error:
        print_error(error, _user_site(error.__traceback__))
        raise SystemExit(WHALE_ERROR_STATUS) from None
    except BaseException as error:
        # The interpreter would show our frames above the script's: print what it would print without them.
        own = error.with_traceback(_strip(error.__traceback__))
        sys.excepthook(type(own), own, own.__traceback__)
        more = hint(own)
        if more is not None:
            print_error(more, _user_site(own.__traceback__))
        raise SystemExit(130 if isinstance(own, KeyboardInterrupt) else 1) from None


def print_error(error: WhaleError, site: Site | None = None) -> None:
    """Prints an error of Whale without a traceback; ``site`` is shown when the error names no place itself."""
    sys.stdout.flush()
    print(f"whale: {WhaleError(error.what, site=error.site or site, fix=error.fix)}", file=sys.stderr)


@contextlib.contextmanager
def preserved_interpreter() -> Iterator[None]:
    """Restores what ``run`` changes in the interpreter, for callers that go on living afterwards."""
    arguments, path, main = sys.argv[:], sys.path[:], sys.modules["__main__"]
    try:
        yield
    finally:
        sys.argv[:], sys.path[:] = arguments, path
        sys.modules["__main__"] = main


def _run_script(command: Command) -> None:
    path = os.path.abspath(command.target)
    source = command.source()
    main = types.ModuleType("__main__")
    main.__dict__.update(
        __annotations__={},
        __file__=path,
        __builtins__=builtins,
        __cached__=None,
        __loader__=importlib.machinery.SourceFileLoader("__main__", path),
        __package__=None,
        __spec__=None,
    )
    sys.modules["__main__"] = main
    sys.argv[:] = [command.target, *command.arguments]
    _set_first_path(os.path.dirname(os.path.realpath(path)))
    # dont_inherit: the script has its own __future__ imports, not those of this file.
    exec(compile(source, path, "exec", dont_inherit=True), main.__dict__)


def _run_module(command: Command) -> None:
    sys.argv[:] = [command.target, *command.arguments]
    _set_first_path(os.getcwd())
    try:
        runpy.run_module(command.target, run_name="__main__", alter_sys=True)
    except ImportError as error:
        if _strip(error.__traceback__) is not None:
            raise  # the module's own
        raise SetupError(
            f"cannot run the module {command.target!r}: {error}",
            fix="give a module that can be imported from this folder, or the path of a script without -m",
        ) from error


def _set_first_path(folder: str) -> None:
    """Replaces the entry that belongs to the program which started this process by the script's."""
    if getattr(sys.flags, "safe_path", False) or not sys.path:
        sys.path.insert(0, folder)
    else:
        sys.path[0] = folder


def _strip(traceback: types.TracebackType | None) -> types.TracebackType | None:
    """The traceback from the first frame on that is not of this launcher."""
    while traceback is not None and traceback.tb_frame.f_code.co_filename in FRAMES:
        traceback = traceback.tb_next
    return traceback


def _user_site(traceback: types.TracebackType | None) -> Site | None:
    """The innermost line of a traceback that lies outside of Whale, of installed packages and of the library."""
    site = None
    while traceback is not None:
        path = traceback.tb_frame.f_code.co_filename
        foreign = is_library(path) or path.startswith("<") or "site-packages" in path
        if not foreign:
            site = Site(path, traceback.tb_lineno)
        traceback = traceback.tb_next
    return site
