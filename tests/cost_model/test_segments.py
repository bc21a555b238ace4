"""How segments become blocks."""

from __future__ import annotations

import pytest

from whale.cost_model.segments import Group, fold


@pytest.mark.parametrize(
    ("signatures", "light", "groups"),
    [
        ("eAMAMAMh", "", [Group(0, 1, 1), Group(1, 2, 3), Group(7, 1, 1)]),
        ("AAAA", "", [Group(0, 1, 4)]),
        ("ABCD", "", [Group(0, 1, 1), Group(1, 1, 1), Group(2, 1, 1), Group(3, 1, 1)]),
        # A norm before the head joins it; one after the embedding joins that.
        ("eAMAMnh", "n", [Group(0, 1, 1), Group(1, 2, 2), Group(5, 2, 1)]),
        ("enAMAMh", "n", [Group(0, 2, 1), Group(2, 2, 2), Group(6, 1, 1)]),
        ("AAn", "n", [Group(0, 1, 2), Group(2, 1, 1)]),
    ],
)
def test_repeated_segments_are_one_block(signatures: str, light: str, groups: list[Group]) -> None:
    assert fold(signatures, [letter not in light for letter in signatures]) == groups
