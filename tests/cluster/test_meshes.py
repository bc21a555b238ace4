"""Rings over the NVLinks of a host without a switch."""

from __future__ import annotations

import pytest

from whale.cluster.meshes import LINKS, MESHES, ring_count


@pytest.mark.parametrize("link", MESHES)
def test_every_gpu_has_all_its_links(link: str) -> None:
    members = {member for pair in MESHES[link] for member in pair}
    for member in members:
        assert sum(count for pair, count in MESHES[link].items() if member in pair) == LINKS[link]


def test_rings_of_a_v100_host_are_those_that_nccl_was_measured_with() -> None:
    # Measured bus rates over 22.5 GB/s, one link: 1.0, 2.0, 3.8, 1.7, 2.0, 3.9, 6.0.
    assert [ring_count("NVLink-2", tuple(range(n))) for n in range(2, 9)] == [1, 2, 4, 2, 2, 4, 6]


def test_a_pair_has_its_own_links() -> None:
    assert ring_count("NVLink-2", (0, 3)) == 2
    assert ring_count("NVLink-2", (0, 7)) == 0
    assert ring_count("NVLink-2", (5,)) == 0


def test_four_superchips() -> None:
    assert [ring_count("NVLink-4-quad", tuple(range(n))) for n in (2, 4)] == [1, 2]
