"""Op rules: one table per family, merged here.

A rule maps what is known of an op's inputs to how the op runs over the copies, or declines with a reason. Backward ops
are ordinary ops: the same tables serve both passes.
"""

from __future__ import annotations

from collections.abc import Callable

from whale.sharding.call import Call
from whale.sharding.facts import Decision
from whale.sharding.rules import (
    algebra,
    concat,
    control,
    elementwise,
    fill,
    images,
    index,
    nn,
    python,
    recurrent,
    reduction,
    reshape,
    segments,
    shapes,
    slices,
    source,
    space,
    sparse,
    whole,
)

Rule = Callable[[Call], Decision]

RULES: dict[str, Rule] = {
    **elementwise.RULES,
    **algebra.RULES,
    **reduction.RULES,
    **shapes.RULES,
    **reshape.RULES,
    **concat.RULES,
    **slices.RULES,
    **fill.RULES,
    **index.RULES,
    **nn.RULES,
    **images.RULES,
    **space.RULES,
    **sparse.RULES,
    **segments.RULES,
    **whole.RULES,
    **recurrent.RULES,
    **python.RULES,
    **source.RULES,
    **control.RULES,
}

for _name in ("AddN", "ZerosLike"):
    RULES[_name] = control.of_lists(RULES[_name])

for _name in ("Identity", "Cast", "Reshape", "ExpandDims", "StopGradient"):
    RULES[_name] = index.iota_through(RULES[_name])

__all__ = ["RULES", "Rule"]
