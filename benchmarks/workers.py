"""Processes to be measured in turns: each holds one variant ready and runs a block of steps when told.

Variants cannot all live in one process: MirroredStrategy needs TensorFlow's logical devices set before anything runs,
and the first session of a process fixes its thread pools. So each has a process of its own, and the parent hands out
the turns over pipes, one JSON value a line. While a worker waits for its turn it does not compute.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Protocol


class Variant(Protocol):
    """What a worker process measures."""

    def step(self) -> float:
        """Run one training step and return its loss."""
        ...

    def facts(self) -> dict[str, Any]:
        """Counts that do not depend on time, as JSON values."""
        ...


class WorkerFailed(RuntimeError):
    """A worker process ended instead of answering; its own standard error says why."""


class Worker:
    """A process that runs ``python -m MODULE ARGUMENTS`` and there calls `serve`. Use it as a context manager."""

    def __init__(self, module: str, arguments: Sequence[str]) -> None:
        """Start the process and wait for its first step."""
        self._name = f"{module} {' '.join(arguments)}"
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.first_loss: float = self._answer()
        """Loss of the step that the worker takes to get ready."""

    def __enter__(self) -> Worker:
        """The worker itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the pipes, at which the process ends."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise WorkerFailed(f"{self._name} ended with exit status {self._process.wait()}")
        return json.loads(line)

    def _ask(self, question: object) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def step_seconds(self, steps: int) -> float:
        """Seconds a step, over a block of ``steps``."""
        return self._ask(steps)["seconds"] / steps

    def losses(self, steps: int) -> list[float]:
        """Losses of the next ``steps``."""
        return self._ask(steps)["losses"]

    def facts(self) -> dict[str, Any]:
        """The variant's counts."""
        return self._ask("facts")


def serve(make: Callable[[], Variant]) -> None:
    """Build the variant, then answer the parent until it closes the pipe.

    Questions are a number of steps, or ``"facts"``. What TensorFlow or a library prints goes to standard error.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(value: object) -> None:
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    variant = make()
    answer(variant.step())
    for line in sys.stdin:
        question = json.loads(line)
        if question == "facts":
            answer(variant.facts())
            continue
        start = time.perf_counter()
        losses = [variant.step() for _ in range(question)]
        answer({"seconds": time.perf_counter() - start, "losses": losses})
