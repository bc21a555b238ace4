"""Private names of TensorFlow are used in one file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import whale

PACKAGE = Path(whale.__file__).parent
OUR_OWN = frozenset({"self", "cls", "os", "sys", "threading", "other"})
"""Names of objects whose private attributes are ours, or Python's."""
SEAM = ("_do_run", "_extend_graph", "_make_callable_from_options", "_session", "_target", "_config", "_c_graph")
"""Private names of TensorFlow that Whale depends on, which could be set by name."""


def private(file: Path) -> Iterator[str]:
    """Uses of private names of other libraries in a file."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        found = ""
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            found = "" if isinstance(node.value, ast.Name) and node.value.id in OUR_OWN else ast.unparse(node)
        elif isinstance(node, ast.Constant) and node.value in SEAM:
            found = repr(node.value)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tensorflow.python"):
            found = f"from {node.module}"
        elif isinstance(node, ast.Import) and any(name.name.startswith("tensorflow.python") for name in node.names):
            found = ast.unparse(node)
        if found:
            yield f"{file.relative_to(PACKAGE)}:{node.lineno}: {found}"  # type: ignore[attr-defined]


def test_private_names_of_tensorflow_are_in_one_file() -> None:
    files = [file for file in sorted(PACKAGE.rglob("*.py")) if file != PACKAGE / "_tf.py"]
    assert len(files) > 200
    assert [use for file in files for use in private(file)] == []


def test_the_file_that_uses_them_would_be_found() -> None:
    assert {"from tensorflow.python.client", "session._do_run", "'_extend_graph'"} <= {
        use.rpartition(": ")[2] for use in private(PACKAGE / "_tf.py")
    }
