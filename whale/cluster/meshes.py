"""How NVLinks join the GPUs of a host that has no switch: how many rings a set of GPUs has.

The boards of the P100 and V100 generations join eight GPUs in a hybrid cube mesh: two squares with diagonals, and a
link between the corners. A collective goes round in rings; a set of GPUs gets as many as disjoint rings can be found.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping

Mesh = Mapping[frozenset[int], int]
"""Links between each two GPUs, by their numbers on the host."""


def _mesh(text: str) -> Mesh:
    """A mesh from ``01x1 03x2``: GPUs 0 and 1 share one link, 0 and 3 two."""
    return {frozenset((int(part[0]), int(part[1]))): int(part[3]) for part in text.split()}


MESHES: Mapping[str, Mesh] = {
    "NVLink-1": _mesh("01x1 02x1 03x1 04x1 12x1 13x1 15x1 23x1 26x1 37x1 45x1 46x1 47x1 56x1 57x1 67x1"),
    "NVLink-2": _mesh("01x1 02x1 03x2 04x2 12x2 13x1 15x2 23x2 26x1 37x1 45x1 46x1 47x2 56x2 57x1 67x2"),
    "NVLink-4-quad": _mesh("01x1 02x1 03x1 12x1 13x1 23x1"),
}
"""The hybrid cube mesh by generation, as in DGX-1 and the cloud machines built like it; and four superchips, each two
of them joined by six links, which count as one here."""

LINKS: Mapping[str, int] = {"NVLink-1": 4, "NVLink-2": 6, "NVLink-4-quad": 3}
"""Links of one GPU."""


@functools.lru_cache(maxsize=1024)
def ring_count(link: str, members: tuple[int, ...]) -> int:
    """Directed rings through some GPUs of a host, each over one link in one direction.

    Two GPUs have a ring for each link. For more, rings are taken one by one, always the one that leaves most to the
    others; both directions of a ring count. Where no ring goes through all (a GPU that hangs on another alone), rings
    may pass a GPU twice, and the links of the GPU with the fewest count.

    Args:
        link: a key of ``MESHES``.
        members: numbers of the GPUs on their host, ascending.
    """
    mesh = {pair: count for pair, count in MESHES[link].items() if pair <= frozenset(members)}
    if len(members) < 2:
        return 0
    if len(members) == 2:
        return mesh.get(frozenset(members), 0)
    found = _pack(members, mesh)
    if found:
        return 2 * found
    return min(sum(count for pair, count in mesh.items() if member in pair) for member in members)


def _pack(members: tuple[int, ...], mesh: Mesh) -> int:
    """The most rings that together use no link twice."""
    rings = [ring for ring in _rings(members) if all(mesh.get(pair, 0) for pair in ring)]
    best = 0
    # Few rings fit at once: a GPU has at most six links and a ring takes two of them.
    for number in range(1, 4):
        if any(_fits(chosen, mesh) for chosen in itertools.combinations_with_replacement(rings, number)):
            best = number
        else:
            break
    return best


def _rings(members: tuple[int, ...]) -> list[tuple[frozenset[int], ...]]:
    """All ways to go round, as the pairs they pass."""
    first, *rest = members
    found: list[tuple[frozenset[int], ...]] = []
    for order in itertools.permutations(rest):
        if order[0] < order[-1]:
            way = (first, *order, first)
            found.append(tuple(frozenset(pair) for pair in zip(way, way[1:])))
    return found


def _fits(rings: tuple[tuple[frozenset[int], ...], ...], mesh: Mesh) -> bool:
    used: dict[frozenset[int], int] = {}
    for ring in rings:
        for pair in ring:
            used[pair] = used.get(pair, 0) + 1
            if used[pair] > mesh[pair]:
                return False
    return True
