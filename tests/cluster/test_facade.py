"""The public names of the package."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

facade = importlib.import_module("whale.cluster")


def test_every_public_name_exists() -> None:
    assert all(hasattr(facade, name) for name in facade.__all__)


def test_the_package_imports_no_tensorflow() -> None:
    program = "import sys; from whale.cluster import Cluster; print('tensorflow' in sys.modules)"
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
