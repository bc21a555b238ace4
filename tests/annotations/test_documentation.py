"""The examples of ``docs/annotations.md`` run."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import Any

import pytest
import tensorflow.compat.v1 as tf

import whale as wh
from whale.annotations.checks import check_closed, check_nonempty
from whale.installed import needs_legacy_keras, require_tensorflow

PAGE = (Path(__file__).parents[2] / "docs" / "annotations.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.skipif(
    needs_legacy_keras(require_tensorflow()) and not os.environ.get("TF_USE_LEGACY_KERAS"),
    reason="tf.layers of this TensorFlow needs TF_USE_LEGACY_KERAS=1 before TensorFlow is imported",
)
@pytest.mark.filterwarnings("ignore:`tf.layers:UserWarning")
@pytest.mark.parametrize("example", EXAMPLES, ids=[text.strip().splitlines()[0] for text in EXAMPLES])
def test_example(graph: tf.Graph, example: str) -> None:
    names: dict[str, Any] = {"tf": tf, "wh": wh}
    with contextlib.redirect_stdout(None):
        exec(example, names)
    check_closed(graph)
    check_nonempty(graph)


def test_every_public_function_is_on_the_page() -> None:
    missing = [
        name
        for name in wh.__all__
        if not name.endswith("Error") and f"`{name}`" not in PAGE and f"wh.{name}(" not in PAGE
    ]
    assert not missing
