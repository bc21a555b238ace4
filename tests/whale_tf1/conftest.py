"""The TF1 environment, installed once for all tests of this folder."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import whale_tf1
from whale.installed import needs_legacy_keras, require_tensorflow

if needs_legacy_keras(require_tensorflow()):
    # The test files import TensorFlow before the fixture runs; installing would set it too late for them.
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")


@pytest.fixture(scope="package", autouse=True)
def environment() -> Iterator[whale_tf1.Installation]:
    """Installed before the first test of the folder, undone after the last."""
    with whale_tf1.install() as installation:
        yield installation
