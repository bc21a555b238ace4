"""Which scopes may stand inside which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from whale.annotations.strategies import Kind, Strategy
from whale.errors import ScopeError, Site

REQUIRED: Mapping[Kind, Kind] = {Kind.STAGE: Kind.PIPELINE}
"""Scopes that stand only inside of another, at any depth."""


def check_nesting(inner: Strategy, outer: Sequence[Strategy], site: Site | None) -> None:
    """Checks a scope that is about to be entered.

    Args:
        inner: its strategy.
        outer: the strategies of the open scopes, outermost first.
        site: the user's line.

    Raises:
        ScopeError: a strategy stands inside itself, or a stage outside of a pipeline.
    """
    for enclosing in outer:
        if enclosing.kind is inner.kind:
            at = f", opened at {enclosing.site}" if enclosing.site else ""
            raise ScopeError(
                f"{inner} is nested in a scope of the same strategy: {enclosing}{at}",
                site=site,
                fix="close the outer scope first, or remove one of the two",
            )
    required = REQUIRED.get(inner.kind)
    if required is not None and all(enclosing.kind is not required for enclosing in outer):
        raise ScopeError(
            f"{inner} is not inside a {required.value}",
            site=site,
            fix=f"put the {inner.kind.value} scopes of a model inside one `with wh.{required.value}(...):`",
        )
