"""TensorFlow, started before the modules of this folder import it: some of its settings are read only then."""

from __future__ import annotations

from typing import Any

import pytest

from tests.numerics.process import start_tensorflow

TENSORFLOW = start_tensorflow()


@pytest.fixture(scope="session")
def tf() -> Any:
    """``tensorflow.compat.v1`` with v2 behaviour off."""
    return TENSORFLOW
