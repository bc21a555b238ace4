"""The order of node groups in a pipeline.

Problem: machines in a row, each handing its activations to the next; minimise the sum of the costs between neighbours
(a shortest Hamiltonian path; either end may come first). Exact by dynamic programming over subsets for up to 12 groups
(Held and Karp, 1962; ``2^n n^2`` steps), by annealing with a fixed seed beyond.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

from whale.cost_model import Topology, send_seconds
from whale.errors import ClusterError
from whale.planner.search.devices import Pool

EXACT_GROUPS = 12
"""Up to so many groups the order is exact."""

PROBE_BYTES = 16e6
"""Size of the transfer that links are compared by."""

Costs = Sequence[Sequence[float]]
"""``costs[a][b]``: from a to b; endless where no link joins them."""


def best_path(costs: Costs) -> tuple[int, ...]:
    """The order of least cost; the first in lexicographic order of equal ones when exact."""
    count = len(costs)
    if count <= 2:
        return tuple(range(count))
    return _held_karp(costs) if count <= EXACT_GROUPS else _annealed(costs)


def path_cost(costs: Costs, path: Sequence[int]) -> float:
    """The sum of the costs between neighbours."""
    return sum(costs[a][b] for a, b in zip(path, path[1:]))


def _held_karp(costs: Costs) -> tuple[int, ...]:
    count = len(costs)
    everything = (1 << count) - 1
    # best[set][first]: the cheapest path over the set that begins with first, and what comes second.
    best: list[dict[int, tuple[float, int]]] = [{} for _ in range(everything + 1)]
    for node in range(count):
        best[1 << node][node] = (0.0, -1)
    for chosen in range(1, everything + 1):
        if chosen & (chosen - 1) == 0:
            continue
        for first in range(count):
            if chosen >> first & 1:
                rest = best[chosen ^ (1 << first)]
                best[chosen][first] = min((costs[first][second] + rest[second][0], second) for second in sorted(rest))
    first = min(best[everything], key=lambda node: (best[everything][node][0], node))
    path: list[int] = []
    chosen = everything
    while first >= 0:
        path.append(first)
        following = best[chosen][first][1]
        chosen ^= 1 << first
        first = following
    return tuple(path)


def _annealed(costs: Costs, seed: int = 0, steps: int = 20_000) -> tuple[int, ...]:
    """Reverses parts of the path while it cools down; starts from the nearest-neighbour path."""
    count = len(costs)
    finite = [c for row in costs for c in row if 0 < c < math.inf]
    if not finite:
        return tuple(range(count))
    # Links that do not exist cost more than any path over those that do.
    wall = 10 * count * max(finite)
    walled = [[min(c, wall) for c in row] for row in costs]
    source = random.Random(seed)
    path = _nearest(walled)
    now = path_cost(walled, path)
    best, best_cost = list(path), now
    heat = sum(finite) / len(finite)
    for step in range(steps):
        i, j = sorted(source.sample(range(count), 2))
        turned = path[:i] + path[i : j + 1][::-1] + path[j + 1 :]
        cost = path_cost(walled, turned)
        temperature = heat * (1 - step / steps) ** 3 + 1e-12
        if cost <= now or source.random() < math.exp((now - cost) / temperature):
            path, now = turned, cost
            if cost < best_cost:
                best, best_cost = list(path), cost
    return tuple(best)


def _nearest(costs: Costs) -> list[int]:
    left = set(range(1, len(costs)))
    path = [0]
    while left:
        path.append(min(left, key=lambda node: (costs[path[-1]][node], node)))
        left.remove(path[-1])
    return path


def link_costs(topology: Topology, pools: Sequence[Pool]) -> tuple[tuple[str, ...], list[list[float]]]:
    """(machines, seconds of a transfer between each two); endless where no link joins them or it is down."""
    first = {pool.machine: pool.devices[0] for pool in reversed(pools)}
    machines = tuple(dict.fromkeys(pool.machine for pool in pools))
    costs = [[0.0] * len(machines) for _ in machines]
    for a, b in itertools.combinations(range(len(machines)), 2):
        try:
            seconds = send_seconds(topology, first[machines[a]], first[machines[b]], PROBE_BYTES)
        except ClusterError:
            seconds = math.inf
        costs[a][b] = costs[b][a] = seconds
    return machines, costs


def order_machines(machines: Sequence[str], costs: Costs) -> tuple[str, ...]:
    """Machines in the order in which pipelines go over them; as they are where all links are alike."""
    different = {round(costs[a][b], 12) for a in range(len(machines)) for b in range(a)}
    if len(different) < 2:
        return tuple(machines)
    return tuple(machines[i] for i in best_path(costs))


def joined_sets(machines: Sequence[str], costs: Costs) -> list[tuple[str, ...]]:
    """The largest sets of machines of which each two are joined (Bron and Kerbosch, 1973); one set as a rule.

    Plans keep to one of them: a collective needs a way between any two of its members.
    """
    alive = {a: {b for b in range(len(machines)) if b != a and costs[a][b] < math.inf} for a in range(len(machines))}
    found: list[tuple[int, ...]] = []

    def grow(chosen: set[int], candidates: set[int], excluded: set[int]) -> None:
        if not candidates and not excluded:
            found.append(tuple(sorted(chosen)))
            return
        pivot = max(sorted(candidates | excluded), key=lambda node: len(alive[node] & candidates))
        for node in sorted(candidates - alive[pivot]):
            grow(chosen | {node}, candidates & alive[node], excluded & alive[node])
            candidates = candidates - {node}
            excluded = excluded | {node}

    grow(set(), set(range(len(machines))), set())
    return [tuple(machines[i] for i in members) for members in sorted(found)]
