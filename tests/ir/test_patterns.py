"""Ops named by patterns: few of them, and every op falls into its own group again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from whale.ir.patterns import cover, expand

PART = st.sampled_from(["a", "b", "layer_1", "layer_2"])
NAME = st.lists(PART, min_size=1, max_size=4).map("/".join)


@given(st.dictionaries(NAME, st.integers(0, 3), max_size=30))
def test_every_name_falls_into_its_group_again(group_of: dict[str, int]) -> None:
    groups = [[name for name, own in group_of.items() if own == group] for group in range(4)]
    assert expand(cover(groups), group_of) == group_of


def test_layers_are_named_by_their_scopes() -> None:
    layers = [[f"encoder/layer_{i}/{op}" for op in ("dense/MatMul", "dense/BiasAdd", "Relu")] for i in range(4)]
    first, second = layers[0] + layers[1] + layers[2], layers[3] + ["loss/Mean", "loss/mul"]
    assert cover([first, second]) == (("*",), ("encoder/layer_3/*", "loss/*"))


def test_what_fits_no_pattern_is_left_out() -> None:
    assert expand([["a/*"], ["b/c"]], ["a/x/y", "b/c", "b/d", "other"]) == {"a/x/y": 0, "b/c": 1}
