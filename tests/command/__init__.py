"""The command ``whale`` in a process of its own, for tests: the fixture ``whale`` of ``tests/conftest.py``."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import select
import subprocess
import sys
from collections.abc import Callable

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

SECONDS = 120
"""Longest time for one command."""


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: int
    """Exit status; negative for a signal."""
    out: str
    err: str


class Zygote:
    """The process of ``zygote.py``, started by the first command."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def run(self, folder: pathlib.Path, words: list[str], environment: dict[str, str]) -> Ended:
        """Runs ``whale`` with these words in a folder."""
        process = self._process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None
        out, err = folder / "stdout.txt", folder / "stderr.txt"
        request = {"words": words, "folder": str(folder), "environment": environment, "out": str(out), "err": str(err)}
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        if not select.select([process.stdout], [], [], SECONDS)[0]:
            self.close()
            pytest.fail(f"whale {' '.join(words)}: no end within {SECONDS} s\n{err.read_text()}")
        answer = process.stdout.readline()
        assert answer, "the process that forks commands has ended"
        return Ended(int(answer), out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            os.killpg(self._process.pid, 9)
            self._process.communicate()
            self._process = None

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(pathlib.Path(__file__).with_name("zygote.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2", "TF_ENABLE_ONEDNN_OPTS": "0"},
            start_new_session=True,
        )


Whale = Callable[..., Ended]
"""``whale(words, script, **environment)`` runs the command, as the fixture of this name says."""
