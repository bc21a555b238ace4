"""A process that has imported TensorFlow, and forks one that goes on as the command ``whale`` for each request.

Started by the fixture ``whale``, with this file as the script. What it forks is a process of its own with its own
exit status, standard streams and working directory, as if a user had typed the command, but for the seconds that
importing TensorFlow and Whale takes.

A request is a line of JSON with ``words``, ``folder``, ``environment`` and the paths ``out`` and ``err``; the answer is
a line with the exit status, negative for a signal.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import sys
from typing import Any, NoReturn

from whale.installed import has_module, needs_legacy_keras, require_tensorflow


def requested() -> dict[str, Any]:
    """In a forked process: what it is to run. In the one that forks it returns never; it ends with its input."""
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if not child:
            return request
        _, status = os.waitpid(child, 0)
        print(os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status), flush=True)
    os._exit(0)


def become(request: dict[str, Any]) -> list[str]:
    """Makes this process the one that was asked for; returns the words after ``whale``."""
    for path, number in ((os.devnull, 0), (request["out"], 1), (request["err"], 2)):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
        os.close(file)
    sys.stdin = open(0)  # noqa: SIM115 - for the rest of the process
    os.chdir(request["folder"])
    os.environ.update(request["environment"])
    return request["words"]


def end(command: Any, words: list[str]) -> NoReturn:
    """Runs the command and ends the process as the interpreter would, but without taking its memory apart: after
    TensorFlow that is two seconds."""
    status: Any = 0
    try:
        command(words, prog_name="whale")
    except SystemExit as ended:
        status = ended.code
    if isinstance(status, str):
        print(status, file=sys.stderr)
        status = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status or 0)


def main() -> None:
    """Imports TensorFlow, and goes on in each forked process as the command."""
    if needs_legacy_keras(require_tensorflow()) and has_module("tf_keras"):
        os.environ["TF_USE_LEGACY_KERAS"] = "1"
    # What these import stays imported; what installing changes is undone.
    importlib.import_module("whale_tf1").install().close()
    importlib.import_module("whale.cli.session")
    command = importlib.import_module("whale.cli.main").main
    end(command, become(requested()))


if __name__ == "__main__":
    main()
