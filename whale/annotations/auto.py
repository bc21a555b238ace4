"""``auto_parallel``: the script leaves the strategy to Whale."""

from __future__ import annotations

from collections.abc import Sequence

from whale.annotations.state import script
from whale.annotations.strategies import Kind, check_available
from whale.config.setting import script_site
from whale.errors import ScopeError


def auto_parallel(kinds: Sequence[Kind]) -> None:
    """Every graph is parallelised, by a strategy out of these, or out of all when there are none.

    Raises:
        ScopeError: a strategy is not available.
    """
    site = script_site()
    for kind in kinds:
        check_available(kind, site)
        if kind in (Kind.STAGE, Kind.PIPELINE):
            raise ScopeError(
                f"auto_parallel(wh.{kind.value}): this version of Whale does not look for stages by itself",
                site=site,
                fix="put the parts of the model in `with wh.stage():` blocks of a `with wh.pipeline(...):`",
            )
    script().auto = tuple(kinds)
