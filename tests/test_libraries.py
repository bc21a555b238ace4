"""Which lines count as the user's."""

from __future__ import annotations

import json
import os

import click
import pytest

import whale
import whale_tf1.missing
from whale import libraries


@pytest.mark.parametrize("module", [json, click, whale, libraries, whale_tf1, whale_tf1.missing])
def test_python_packages_and_whale_itself_are_libraries(module: object) -> None:
    assert libraries.is_library(module.__file__)  # type: ignore[attr-defined]


def test_a_script_beside_whale_is_the_users() -> None:
    assert not libraries.is_library(__file__)
    assert not libraries.is_library(os.path.join(os.path.dirname(os.path.dirname(whale.__file__)), "whale_tf1.py"))
