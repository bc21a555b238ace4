"""Hyperparameters: types, text, JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest


def make(**values: Any) -> Any:
    import tensorflow as tf

    return tf.contrib.training.HParams(**values)


def test_values_are_attributes_and_survive_json() -> None:
    hparams = make(rate=0.1, units=128, name="lstm", layers=[3, 4], fast=True, note=None)
    assert (hparams.rate, hparams.units, hparams.layers) == (0.1, 128, [3, 4])
    assert "rate" in hparams and "other" not in hparams
    assert json.loads(hparams.to_json()) == hparams.values()
    assert hparams.get("other", 5) == 5 and hparams.get("units") == 128
    assert make(rate=0.5).parse_json('{"rate": 2}').rate == 2.0


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("rate=0.5", "rate", 0.5),
        ("units=7,rate=1e-3", "rate", 1e-3),
        ("layers=[1,2,3]", "layers", [1, 2, 3]),
        ("layers[1]=9", "layers", [3, 9]),
        ("fast=false", "fast", False),
        ("name=a b", "name", "a b"),
        ("", "units", 128),
    ],
)
def test_parse(text: str, name: str, expected: Any) -> None:
    hparams = make(rate=0.1, units=128, name="lstm", layers=[3, 4], fast=True)
    assert hparams.parse(text) is hparams
    assert getattr(hparams, name) == expected
    assert type(getattr(hparams, name)) is type(expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("units=1.5", "cannot be '1.5'"),
        ("other=1", "unknown hyperparameter 'other'"),
        ("units=1,units=2", "twice"),
        ("fast=maybe", "cannot be 'maybe'"),
        ("units", "malformed"),
        ("units=[1,2]", "not a list"),
        ("layers=3", "must be a list"),
    ],
)
def test_text_that_does_not_fit_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(rate=0.1, units=128, layers=[3, 4], fast=True).parse(text)


def test_types_are_kept() -> None:
    hparams = make(units=128, rate=0.1, name="a")
    hparams.set_hparam("rate", 1)
    assert hparams.rate == 1.0
    for name, wrong in (("units", 0.5), ("units", "x"), ("name", 3), ("rate", "fast")):
        with pytest.raises(ValueError, match=name):
            hparams.set_hparam(name, wrong)
    with pytest.raises(ValueError, match="reserved"):
        hparams.add_hparam("parse", 1)
    hparams.del_hparam("units")
    assert "units" not in hparams
    with pytest.raises(KeyError):
        hparams.set_hparam("units", 1)


def test_parse_values_keeps_indices_apart() -> None:
    from tensorflow.contrib.training.python.training.hparam import parse_values

    assert parse_values("a[2]=1,a[0]=3,b=x", {"a": int, "b": str}) == {"a": {2: 1, 0: 3}, "b": "x"}
    assert parse_values("a=1,c=2", {"a": int}, ignore_unknown=True) == {"a": 1}
