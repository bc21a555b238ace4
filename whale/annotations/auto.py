"""``auto_parallel``: the script leaves the strategy to Whale."""

from __future__ import annotations

from collections.abc import Sequence

from whale.annotations.state import script
from whale.annotations.strategies import Kind, check_available
from whale.config.setting import script_site


def auto_parallel(kinds: Sequence[Kind]) -> None:
    """Every graph is parallelised, by a strategy out of these, or out of all when there are none.

    Raises:
        ScopeError: a strategy is not available.
    """
    site = script_site()
    for kind in kinds:
        check_available(kind, site)
    script().auto = tuple(kinds)
