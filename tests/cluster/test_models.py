"""The table of device models."""

from __future__ import annotations

from pathlib import Path

from whale.cluster import MODELS
from whale.cluster.models import unknown_model

DOCUMENT = Path(__file__).parents[2] / "docs" / "cluster.md"


def test_models_are_listed_under_their_own_name() -> None:
    assert all(name == model.name for name, model in MODELS.items())


def test_memory_is_the_usual_size_or_unknown() -> None:
    assert MODELS["V100"].default_memory_bytes == 16 * 2**30
    assert MODELS["CPU"].default_memory_bytes is None


def test_every_model_is_documented() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert [name for name in MODELS if f"`{name}`" not in text] == []


def test_an_unknown_model_names_the_nearest_or_all() -> None:
    assert "'V100'" in unknown_model("V10O").fix
    assert "Titan-RTX" in unknown_model("zzzz").fix
