"""The public names are frozen here: a name that comes or goes is a change users see."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import whale
from whale import errors
from whale.cluster import Cluster, slices

ROOT = Path(__file__).parents[1]


def test_the_public_names_and_signatures(golden: Callable[..., None]) -> None:
    lines = []
    for name in whale.__all__:
        value = getattr(whale, name)
        lines.append(f"{name}{inspect.signature(value)}" if inspect.isfunction(value) else f"class {name}")
    golden("\n".join(lines))


def test_all_is_sorted_and_documented() -> None:
    assert list(whale.__all__) == sorted(whale.__all__)
    assert all(inspect.getdoc(getattr(whale, name)) for name in whale.__all__)


def test_every_error_is_public() -> None:
    classes = {name for name, value in vars(errors).items() if inspect.isclass(value) and issubclass(value, Exception)}
    assert classes <= set(whale.__all__)


def test_cluster_is_a_function_and_its_package_stays_importable() -> None:
    assert inspect.isfunction(whale.cluster)
    assert slices(Cluster.local(2)) == ((("/device:CPU:0",), ("/device:CPU:1",)),)


def _python(program: str, **environment: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env={**environment, "TF_CPP_MIN_LOG_LEVEL": "2"},
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_importing_it_is_light() -> None:
    loaded = _python("import json, sys, whale; print(json.dumps(sorted(m.partition('.')[0] for m in sys.modules)))")
    assert not {"tensorflow", "numpy", "scipy", "click", "rich", "jinja2"} & set(loaded)


@pytest.mark.parametrize(
    ("version", "message"),
    [("None", "TensorFlow is not installed"), ("'2.14.0'", "TensorFlow 2.14.0 is not supported")],
)
def test_an_unusable_tensorflow_is_told_at_the_first_call(version: str, message: str) -> None:
    what, fix, loaded = _python(f"""
import json, sys
import whale
from whale import installed
installed.tensorflow_version = lambda: {version}
for call in (whale.init, whale.replica, whale.shutdown, lambda: whale.auto_parallel(whale.replica)):
    try:
        call()
    except whale.SetupError as error:
        print(json.dumps([error.what, error.fix, "tensorflow" in sys.modules]))
""")
    assert (what, loaded) == (message, False)
    assert "install" in fix
