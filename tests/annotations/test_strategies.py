"""Arguments of scopes, and the rules of nesting for every strategy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from whale.annotations.nesting import check_nesting
from whale.annotations.strategies import INSTEAD, Kind, Strategy, check_available, strategy
from whale.errors import ScopeError, Site

SITE = Site("train.py", 7)


def test_every_strategy_is_available_or_has_a_replacement() -> None:
    for kind in Kind:
        if kind not in INSTEAD:
            check_available(kind, SITE)
            continue
        with pytest.raises(ScopeError) as caught:
            check_available(kind, SITE)
        assert caught.value.site is SITE and caught.value.fix == INSTEAD[kind]


@pytest.mark.parametrize(
    ("arguments", "devices", "count"),
    [
        ((None,), (), None),
        (("gpu:0",), (("gpu:0",),), None),
        ((["gpu:0", "gpu:1"],), (("gpu:0",), ("gpu:1",)), None),
        (([("gpu:0", "gpu:1")], 2), (("gpu:0", "gpu:1"),), 2),
        ((8,), (), 8),
        ((np.int64(8),), (), 8),
        ((None, np.int64(2)), (), 2),
    ],
)
def test_devices_are_strings_per_replica(arguments: Any, devices: Any, count: int | None) -> None:
    made = strategy(Kind.SPLIT, *arguments)
    assert (made.devices, made.device_count) == (devices, count)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"devices": []}, r"the devices of a replica cannot be \[\]"),
        ({"devices": [[]]}, "cannot be"),
        ({"devices": [3]}, "cannot be"),
        ({"devices": {"gpu:0"}}, "cannot be"),
        ({"devices": 2, "device_count": 2}, "cannot be 2"),
        ({"devices": True}, "device_count cannot be True"),
        ({"device_count": 0}, "device_count cannot be 0"),
        ({"device_count": 1.5}, "device_count cannot be 1.5"),
        ({"device_count": "two"}, "device_count cannot be 'two'"),
        ({"devices": ["gpu:0"], "device_count": 2}, "names 1 devices and device_count is 2"),
        ({"name": 3}, "the name of a replica cannot be 3"),
        ({"num_micro_batches": 0}, "num_micro_batch cannot be 0"),
    ],
)
def test_wrong_arguments_are_told_with_the_line(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ScopeError, match=message) as caught:
        strategy(Kind.REPLICA, **arguments, site=SITE)
    assert caught.value.site is SITE


def test_an_unknown_pipeline_strategy_names_the_nearest() -> None:
    with pytest.raises(ScopeError, match="did you mean 'PreferForward'"):
        strategy(Kind.PIPELINE, schedule="PreferForwards", site=SITE)
    assert strategy(Kind.PIPELINE, schedule="PreferForward", num_micro_batches=4).num_micro_batches == 4


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        ([], Kind.REPLICA),
        ([], Kind.PIPELINE),
        ([Kind.PIPELINE], Kind.STAGE),
        ([Kind.REPLICA, Kind.PIPELINE], Kind.STAGE),
        ([Kind.PIPELINE, Kind.STAGE], Kind.REPLICA),
        ([Kind.REPLICA, Kind.PIPELINE, Kind.STAGE], Kind.SPLIT),
        ([Kind.SPLIT], Kind.REPLICA),
    ],
)
def test_different_strategies_nest(outer: list[Kind], inner: Kind) -> None:
    check_nesting(Strategy(inner), [Strategy(kind) for kind in outer], SITE)


@pytest.mark.parametrize("kind", Kind)
def test_no_strategy_stands_inside_itself_at_any_depth(kind: Kind) -> None:
    between = next(other for other in Kind if other is not kind)
    with pytest.raises(ScopeError, match=f"{kind.value} is nested in a scope of the same strategy"):
        check_nesting(Strategy(kind), [Strategy(kind), Strategy(between)], SITE)


def test_a_stage_needs_a_pipeline() -> None:
    with pytest.raises(ScopeError, match="stage 'head' is not inside a pipeline"):
        check_nesting(Strategy(Kind.STAGE, name="head"), [Strategy(Kind.REPLICA)], SITE)
