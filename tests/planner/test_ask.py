"""What a strategy leaves to the search."""

from __future__ import annotations

import dataclasses

import pytest

from whale.errors import PlanError, ScheduleError
from whale.planner.ask import Ask, everything, shares_only, what_runs

OPEN = Ask(batch=48, local=False, devices=4)
STAGED = dataclasses.replace(OPEN, stages=(0, 2), micro_batches=3, schedule="PreferForward", replicas=2)


def test_a_script_without_scopes_leaves_all_open() -> None:
    options = everything(OPEN)
    assert (options.global_batch, options.micro_batches, options.replicas, options.max_stages) == (48, (), None, None)
    assert options.executable_only and options.tensor_parallel > 1 and len(options.recompute) > 1
    runs = what_runs(OPEN)
    assert runs.tensor_parallel == 1 and len(runs.recompute) == 1


def test_stages_micro_batches_and_schedule_of_a_script_are_kept() -> None:
    for options in (everything(STAGED), what_runs(STAGED), shares_only(STAGED)):
        assert options.stages == (0, 2) and options.micro_batches == (3,) and options.replicas == 2
        assert options.schedules == ("gpipe",)


def test_copies_on_all_devices_leave_their_shares_open() -> None:
    options = shares_only(OPEN)
    assert (options.replicas, options.max_stages, options.micro_batches) == (4, 1, (1,))


def test_only_what_is_allowed() -> None:
    assert everything(dataclasses.replace(OPEN, copies=False)).replicas == 1
    assert everything(dataclasses.replace(OPEN, pipelines=False)).max_stages == 1
    assert everything(dataclasses.replace(OPEN, needs_whole_batch=True)).micro_batches == (1,)


def test_a_batch_that_micro_batches_do_not_divide_is_rounded_up() -> None:
    assert everything(dataclasses.replace(STAGED, batch=50)).global_batch == 51


def test_local_batches_add_up() -> None:
    assert everything(dataclasses.replace(STAGED, local=True)).global_batch == 48 * 2 * 3
    with pytest.raises(PlanError, match="their number sets the batch"):
        everything(dataclasses.replace(OPEN, local=True))


def test_an_unknown_schedule_is_an_error() -> None:
    with pytest.raises(ScheduleError, match="unknown pipeline strategy"):
        everything(dataclasses.replace(STAGED, schedule="PreferSideways"))
