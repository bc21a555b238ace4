"""Convolutions of empty pieces, with oneDNN as most users run it and without."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("onednn", ["0", "1"])
def test_copies_without_samples_compute_nothing(onednn: str) -> None:
    environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": onednn, "TF_CPP_MIN_LOG_LEVEL": "2"}
    command = [sys.executable, "-m", "tests.numerics.empty_convolutions"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
