"""A proof that no step waits for itself.

All members of a collective are one: each waits for every other, so what goes into a message must not be needed for
another part of it. A loop is one: what it gives comes after all of its turns, and all that enters it is needed for
them; only its own turns may follow one another. Seen so, the nodes of a step must have no cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from whale.errors import VerifyError

SHOWN = 12
"""Names of a cycle's nodes that a message gives."""


def check_waits(
    reads: Mapping[str, Sequence[str]],
    groups: Iterable[Sequence[str]],
    loops: Mapping[str, str] = MappingProxyType({}),
    shown: Callable[[str], str] = str,
) -> None:
    """Checks that no node, collective or loop waits, at some remove, for what comes of it.

    Nodes without prerequisites are taken away, one after another, until none is left but those in cycles and behind
    them; of what is left, strongly connected components are found (R. Tarjan, Depth-first search and linear graph
    algorithms, 1972). Takes time linear in the number of nodes and edges.

    Args:
        reads: the nodes that each node reads or waits for; nodes that are absent read nothing.
        groups: the members of each collective.
        loops: for each node in a loop, the name of the outermost one around it.
        shown: what a message calls a node.

    Raises:
        VerifyError: a run would hang; the message names the nodes of each such cycle.
    """
    first: dict[str, str] = {}
    unit = {name: first.setdefault(loop, name) for name, loop in loops.items()}
    collective = {name: members[0] for members in groups for name in members}
    unit.update(collective)
    before: dict[str, set[str]] = {}
    for name, inputs in reads.items():
        own = unit.get(name, name)
        found = before.setdefault(own, set())
        found.update(u for u in (unit.get(i, i) for i in inputs) if u != own or name not in loops)
    left = _peeled(before)
    if not left:
        return
    kept = {name: [i for i in before[name] if i in left] for name in left}
    rank = {**dict.fromkeys(first.values(), 1), **dict.fromkeys(collective.values(), 0)}
    faults: list[str] = []
    for component in _components(kept):
        if len(component) > 1 or component[0] in kept[component[0]]:
            named = dict.fromkeys(shown(name) for name in sorted(component, key=lambda name: (rank.get(name, 2), name)))
            faults.append(f"{len(component)} nodes wait for one another: {', '.join([*named][:SHOWN])}")
    raise VerifyError("\n  ".join(["nodes that would wait for themselves:", *faults]))


def _peeled(before: Mapping[str, set[str]]) -> set[str]:
    """What remains when nodes all of whose prerequisites are gone are taken away again and again."""
    waiting = {name: sum(i in before for i in inputs) for name, inputs in before.items()}
    readers: dict[str, list[str]] = {}
    for name, inputs in before.items():
        for i in inputs:
            readers.setdefault(i, []).append(name)
    ready = [name for name, count in waiting.items() if not count]
    while ready:
        name = ready.pop()
        del waiting[name]
        for reader in readers.get(name, ()):
            waiting[reader] -= 1
            if not waiting[reader]:
                ready.append(reader)
    return set(waiting)


def _components(before: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """The strongly connected components of a graph."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    open_nodes: list[str] = []
    is_open: set[str] = set()
    found: list[list[str]] = []
    for root in before:
        if root in number:
            continue
        path = [(root, iter(before[root]))]
        number[root] = low[root] = len(number)
        open_nodes.append(root)
        is_open.add(root)
        while path:
            name, rest = path[-1]
            following = next(rest, None)
            if following is None:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[name])
                if low[name] == number[name]:
                    found.append([])
                    while name in is_open:
                        found[-1].append(open_nodes.pop())
                        is_open.discard(found[-1][-1])
            elif following not in number:
                number[following] = low[following] = len(number)
                open_nodes.append(following)
                is_open.add(following)
                path.append((following, iter(before[following])))
            elif following in is_open:
                low[name] = min(low[name], number[following])
    return found
