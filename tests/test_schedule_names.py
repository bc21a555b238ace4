"""A schedule has the same names wherever one is given: in scopes, settings, plan files and the planner."""

from __future__ import annotations

import json

import pytest

from whale.annotations.strategies import Kind, strategy
from whale.config import Config, from_environment
from whale.config.schedule_names import NAMES, canonical
from whale.errors import ConfigError, PlanError, ScheduleError, ScopeError
from whale.ir.plan import load
from whale.ir.schedules import make

SPELLINGS = {
    "one_f_one_b": ["PreferBackward", "preferbackward", "prefer_backward", "1F1B", "1f1b", "one_f_one_b", "OneFOneB"],
    "gpipe": ["PreferForward", "PREFERFORWARD", "GPipe", "gpipe", "prefer-forward"],
    "prefer_backward_optimizer": ["PreferBackwardOptimizer", "prefer_backward_optimizer", "preferbackwardoptimizer"],
    "interleaved": ["Interleaved", "interleaved", "INTERLEAVED"],
}
IN_SCRIPTS = {
    "one_f_one_b": "PreferBackward",
    "gpipe": "PreferForward",
    "prefer_backward_optimizer": "PreferBackwardOptimizer",
    "interleaved": "Interleaved",
}
EACH = [(spelling, own) for own, spellings in SPELLINGS.items() for spelling in spellings]


@pytest.mark.parametrize(("spelling", "own"), EACH)
def test_every_spelling_is_taken_everywhere(spelling: str, own: str) -> None:
    assert canonical(spelling) == own
    assert Config({"pipeline.strategy": spelling}).pipeline.strategy == IN_SCRIPTS[own]
    assert from_environment({"EPL_PIPELINE_STRATEGY": spelling}) == {"pipeline.strategy": IN_SCRIPTS[own]}
    assert canonical(strategy(Kind.PIPELINE, schedule=spelling).schedule) == own
    assert load(json.dumps({"version": 1, "shares": [1], "schedule": spelling})).schedule == own
    assert make(spelling, 2, 2, 4).rows == make(own, 2, 2, 4).rows


def test_every_name_in_messages_is_taken() -> None:
    assert {canonical(name) for name in NAMES} == set(SPELLINGS)


@pytest.mark.parametrize("wrong", ["PreferSideways", "2F2B", 7])
def test_a_wrong_name_is_told_with_the_same_list_everywhere(wrong: object) -> None:
    texts: list[str] = []
    with pytest.raises(ScopeError) as scope:
        strategy(Kind.PIPELINE, schedule=wrong)  # pyright: ignore[reportArgumentType] - scripts are not typed
    with pytest.raises(ConfigError) as setting:
        Config({"pipeline.strategy": wrong})
    with pytest.raises(ScheduleError) as own:
        make(wrong, 2, 2, 4)  # pyright: ignore[reportArgumentType] - as above
    texts = [scope.value.fix, setting.value.fix, own.value.fix]
    if isinstance(wrong, str):
        with pytest.raises(PlanError) as plan:
            load(json.dumps({"version": 1, "shares": [1], "schedule": wrong}))
        texts.append(plan.value.fix)
    assert all(name in text for text in texts for name in NAMES)
