"""What a session tells of the plan that it was given."""

from __future__ import annotations

import dataclasses

from tests.planner.search.models import block, cluster, known
from whale.cost_model import Chain
from whale.planner.search.options import SearchOptions
from whale.planner.search.search import Found, search
from whale.runtime.planning.in_session import left_out

LITTLE_WORK = Chain((block(1e3, 10**6, 1e2, 1e3),) * 4)
MUCH_WORK = Chain((block(1e12, 10**6, 1e4, 1e3),) * 4)


def found(chain: Chain) -> Found:
    options = SearchOptions(8, executable_only=True, tensor_parallel=1, max_stages=1)
    return search(chain, cluster((("T4", 2, 16.0),)), options, coefficients=known())


def test_a_plan_that_uses_all_devices_leaves_none_out() -> None:
    best = found(MUCH_WORK)
    assert len(best.plan.devices) == 2
    assert left_out(best, 2) == ""


def test_a_plan_says_what_the_devices_that_it_leaves_out_would_have_cost() -> None:
    best = found(LITTLE_WORK)
    assert len(best.plan.devices) == 1
    told = left_out(best, 2)
    assert told.startswith("1 of 2 devices left out: 2 replicas, 1 micro-batch are predicted to take ")
    assert told.endswith(" times as long")


def test_where_no_plan_uses_more_devices_that_is_said() -> None:
    alone = dataclasses.replace(found(LITTLE_WORK), runners_up=())
    assert left_out(alone, 2) == "1 of 2 devices left out: no plan on more of them fits and can run"
