"""Ops named in few words: ``encoder/layer_3/*`` for all that lies below a scope.

A name is matched by the longest pattern that it fits: its own, else that of the innermost scope around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

_ALL = "*"


def cover(groups: Sequence[Iterable[str]]) -> tuple[tuple[str, ...], ...]:
    """Patterns that tell groups of ops apart.

    Args:
        groups: disjoint sets of op names.

    Returns:
        For each group its patterns, sorted. By ``expand``, every name falls into its own group again.
    """
    root = _Scope()
    for number, names in enumerate(groups):
        for name in names:
            scope = root
            for part in name.split("/"):
                scope = scope.inner.setdefault(part, _Scope())
            scope.own = number
    found: list[list[str]] = [[] for _ in groups]
    root.collect("", None, found)
    return tuple(tuple(sorted(patterns)) for patterns in found)


def expand(patterns: Sequence[Iterable[str]], names: Iterable[str]) -> Mapping[str, int]:
    """By name: the group whose pattern it fits best. Names that fit none are left out."""
    group_of = {pattern: number for number, some in enumerate(patterns) for pattern in some}
    found: dict[str, int] = {}
    for name in names:
        number = group_of.get(name)
        scope = name
        while number is None and scope:
            scope = scope.rpartition("/")[0]
            number = group_of.get(f"{scope}/{_ALL}" if scope else _ALL)
        if number is not None:
            found[name] = number
    return found


class _Scope:
    """A scope, or an op, and what lies below."""

    def __init__(self) -> None:
        self.own: int | None = None
        self.inner: dict[str, _Scope] = {}

    def most(self, counts: dict[int, int]) -> None:
        """Counts the ops of each group at and below it."""
        if self.own is not None:
            counts[self.own] = counts.get(self.own, 0) + 1
        for scope in self.inner.values():
            scope.most(counts)

    def collect(self, name: str, outer: int | None, found: list[list[str]]) -> None:
        """Adds the patterns that are needed here, given the group that the innermost pattern around stands for."""
        if self.own is not None and self.own != outer:
            found[self.own].append(name)
        if not self.inner:
            return
        counts: dict[int, int] = {}
        for scope in self.inner.values():
            scope.most(counts)
        usual = max(sorted(counts), key=counts.__getitem__)
        if usual != outer and sum(counts.values()) > 1:
            found[usual].append(f"{name}/{_ALL}" if name else _ALL)
            outer = usual
        for part, scope in self.inner.items():
            scope.collect(f"{name}/{part}" if name else part, outer, found)
