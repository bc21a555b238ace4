"""What every test shares: options, seeds and golden texts."""

from __future__ import annotations

import difflib
import random
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import numpy as np
import pytest

from tests.command import Ended, Whale, Zygote

TESTS = Path(__file__).parent

# The machine is shared and noisy, so no example is failed for its time, and a run repeats bit for bit.
hypothesis.settings.register_profile("whale", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("whale")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this suite."""
    group = parser.getgroup("whale")
    group.addoption("--full", action="store_true", help="run the whole numerics matrix, not the covering subset")
    group.addoption("--update-golden", action="store_true", help="rewrite golden texts instead of comparing with them")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers of this suite."""
    config.addinivalue_line("markers", "full: runs only with --full")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests marked ``full`` unless the whole matrix is asked for."""
    if config.getoption("--full"):
        return
    left_out = [item for item in items if item.get_closest_marker("full") is not None]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item.get_closest_marker("full") is None]


@pytest.fixture(autouse=True)
def seeds() -> None:
    """Start every test from the same random state.

    TensorFlow is left alone: its seeds belong to a graph, and each test that draws sets them on its own.
    """
    random.seed(0)
    np.random.seed(0)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[..., None]:
    """A function that compares a text with the stored one of this test.

    ``golden(text)`` reads ``tests/golden/<test file>/<test>.txt``; a test with several texts names the others, as in
    ``golden(text, "plan")``; ``golden(text, path=...)`` compares with another file. ``--update-golden`` stores the
    text instead.
    """
    update: bool = request.config.getoption("--update-golden")

    def compare(text: str, name: str = "", *, path: Path | None = None) -> None:
        stored = path or golden_path(request.path, request.node.name, name)
        text = text.rstrip("\n") + "\n"
        if update:
            stored.parent.mkdir(parents=True, exist_ok=True)
            stored.write_text(text, encoding="utf-8")
            return
        if not stored.exists():
            pytest.fail(f"{stored} is missing; look at the text and store it with --update-golden:\n{text}")
        expected = stored.read_text(encoding="utf-8")
        if text != expected:
            changes = difflib.unified_diff(
                expected.splitlines(), text.splitlines(), str(stored), "this run", lineterm=""
            )
            pytest.fail("\n".join(["text differs; --update-golden stores it:", *changes]), pytrace=False)

    return compare


def golden_path(test_file: Path, test_name: str, name: str = "") -> Path:
    """Where the golden text of a test is stored; characters that files cannot hold become dashes."""
    folder = TESTS / "golden" / test_file.relative_to(TESTS).with_suffix("")
    stem = re.sub(r"[^\w.=-]+", "-", f"{test_name}.{name}" if name else test_name).strip("-")
    return folder / f"{stem}.txt"


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    """The process that forks commands, one for all tests; it starts with the first command."""
    made = Zygote()
    yield made
    made.close()


@pytest.fixture
def whale(zygote: Zygote, tmp_path: Path) -> Whale:
    """A function that runs the command ``whale`` in ``tmp_path``, in a process of its own.

    ``whale("run --devices 2 script.py", text)`` writes the text to ``script.py`` first. Keywords are environment
    variables.
    """

    def run(words: str, script: str | None = None, **environment: str) -> Ended:
        if script is not None:
            (tmp_path / "script.py").write_text(textwrap.dedent(script).lstrip("\n"), encoding="utf-8")
        return zygote.run(tmp_path, words.split(), environment)

    return run
