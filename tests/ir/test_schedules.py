"""Every schedule is valid, keeps no more micro-batches than promised, and takes no longer than promised."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whale.errors import ScheduleError
from whale.ir.schedule import Phase, Schedule, Task, live, validate
from whale.ir.schedule_timing import timing
from whale.ir.schedules import (
    BUILDERS,
    INTERLEAVED,
    forward_only,
    gpipe,
    interleaved,
    make,
    one_f_one_b,
    prefer_backward_optimizer,
)

SIZES = list(itertools.product(range(1, 7), range(1, 10)))
"""Stages and micro-batches."""

stages_counts = st.integers(1, 6)
micro_batch_counts = st.integers(1, 9)


@pytest.mark.parametrize("build", [gpipe, one_f_one_b, prefer_backward_optimizer, forward_only])
def test_one_stage_a_device_is_valid(build: Callable[[int, int], Schedule]) -> None:
    for stages, micro_batches in SIZES:
        made = build(stages, micro_batches)
        validate(made)
        assert (made.stages, made.micro_batches, made.devices) == (stages, micro_batches, stages)
        assert made.name == ("forward" if build is forward_only else build.__name__)


@pytest.mark.parametrize("chunks", [1, 2, 3])
def test_several_stages_a_device_are_valid(chunks: int) -> None:
    for devices, micro_batches in SIZES:
        made = interleaved(devices, devices * chunks, micro_batches)
        validate(made)
        assert (made.name, made.devices) == ("interleaved", devices)
        evaluation = forward_only(devices * chunks, micro_batches, devices)
        validate(evaluation)
        assert (evaluation.name, evaluation.devices) == ("forward", devices)


@given(stages_counts, micro_batch_counts)
def test_live_micro_batches(stages: int, micro_batches: int) -> None:
    def bound(ahead: int) -> tuple[int, ...]:
        return tuple(min(micro_batches, stages - stage + ahead) for stage in range(stages))

    assert live(gpipe(stages, micro_batches)) == (micro_batches,) * stages
    assert live(one_f_one_b(stages, micro_batches)) == bound(0)
    # The last stage has no sending to hide, so it keeps to the bound of 1F1B.
    assert live(prefer_backward_optimizer(stages, micro_batches)) == (*bound(1)[:-1], 1)


@given(stages_counts, st.integers(1, 3), micro_batch_counts)
def test_live_micro_batches_of_a_device_with_several_stages(devices: int, chunks: int, micro_batches: int) -> None:
    made = interleaved(devices, devices * chunks, micro_batches)
    kept = live(made)
    for device in range(devices):
        ahead = devices - device - 1 if chunks == 1 else (chunks - 1) * devices + 2 * (devices - device - 1)
        assert max(kept[device::devices]) <= micro_batches
        peak = sum(_peak(made, device))
        assert peak <= ahead + 1
        if micro_batches % devices == 0:
            assert peak == min(ahead + 1, chunks * micro_batches)


def _peak(made: Schedule, device: int) -> tuple[int, ...]:
    """The live micro-batches of each stage of a device at the moment when they are most."""
    now = [0] * made.stages
    peak = now
    for task in made.rows[device]:
        now = list(now)
        now[task.stage] += 1 if task.phase is Phase.FORWARD else -1
        peak = max(peak, now, key=sum)
    return tuple(peak)


@given(stages_counts, micro_batch_counts, st.integers(1, 3), st.integers(1, 3))
def test_a_step_of_equal_stages_takes_the_ideal_time(
    stages: int, micro_batches: int, forward: int, backward: int
) -> None:
    ideal = (micro_batches + stages - 1) * (forward + backward)
    for build in (gpipe, one_f_one_b, prefer_backward_optimizer):
        assert timing(build(stages, micro_batches), forward, backward).makespan == ideal
    assert timing(forward_only(stages, micro_batches), forward).makespan == (micro_batches + stages - 1) * forward


@given(st.integers(2, 6), st.integers(2, 4), st.integers(1, 3), st.sampled_from([1, 2]))
def test_interleaving_divides_the_bubble(devices: int, chunks: int, rounds: int, backward: int) -> None:
    micro_batches = rounds * devices
    # Slots of a chunk; a whole stage takes as many times longer as it has chunks.
    found = timing(interleaved(devices, devices * chunks, micro_batches), 1, backward).makespan
    whole = timing(one_f_one_b(devices, micro_batches), chunks, chunks * backward).makespan
    assert found == (micro_batches * chunks + devices - 1) * (1 + backward)
    assert found < whole


@given(st.integers(1, 6), st.integers(1, 4), micro_batch_counts, st.sampled_from([1, 2]))
def test_interleaving_is_never_slower(devices: int, chunks: int, micro_batches: int, backward: int) -> None:
    found = timing(interleaved(devices, devices * chunks, micro_batches), 1, backward).makespan
    assert found <= timing(one_f_one_b(devices, micro_batches), chunks, chunks * backward).makespan


@given(stages_counts, micro_batch_counts, st.sampled_from([1, 2]), st.sampled_from([0, 0.25, 0.5, 1, 2]))
def test_one_more_forward_ahead_is_never_slower(
    stages: int, micro_batches: int, backward: int, transfer: float
) -> None:
    more = timing(prefer_backward_optimizer(stages, micro_batches), 1, backward, transfer=transfer)
    assert more.makespan <= timing(one_f_one_b(stages, micro_batches), 1, backward, transfer=transfer).makespan


def test_one_more_forward_ahead_hides_sending() -> None:
    more = timing(prefer_backward_optimizer(4, 16), 1, 2, transfer=0.5)
    assert (more.makespan, timing(one_f_one_b(4, 16), 1, 2, transfer=0.5).makespan) == (66, 71)


@given(stages_counts, micro_batch_counts, st.sampled_from([*BUILDERS, INTERLEAVED]))
def test_gradients_are_added_in_one_order(stages: int, micro_batches: int, strategy: str) -> None:
    for row in make(strategy, stages, stages, micro_batches).rows:
        order = [task.micro_batch for task in row if task.phase is Phase.BACKWARD]
        assert order == list(range(micro_batches))


@pytest.mark.parametrize(("stages", "micro_batches"), [(1, 3), (2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (3, 3)])
@pytest.mark.parametrize("backward", [1, 2])
def test_no_order_within_the_same_memory_beats_1f1b(stages: int, micro_batches: int, backward: int) -> None:
    bound = live(one_f_one_b(stages, micro_batches))
    found = list(_all_orders(stages, micro_batches, bound))
    best = min(_makespan(rows, stages, backward) for rows in found)
    assert best == timing(one_f_one_b(stages, micro_batches), 1, backward).makespan
    assert one_f_one_b(stages, micro_batches).rows in found


def test_less_memory_than_1f1b_is_slower() -> None:
    # Each bound of 1F1B is needed: with one micro-batch less on any stage no order is as fast.
    for bound in [(2, 2, 1), (3, 1, 1)]:
        best = min(_makespan(rows, 3, 1) for rows in _all_orders(3, 3, bound))
        assert best > timing(one_f_one_b(3, 3), 1, 1).makespan


def _all_orders(stages: int, micro_batches: int, bound: tuple[int, ...]) -> Iterator[tuple[tuple[Task, ...], ...]]:
    """The rows of every stage in every order with at most ``bound`` live micro-batches.

    Micro-batches are alike, so those of the first stage go forward in order.
    """
    choices = [
        list(_orders(stage, frozenset(range(micro_batches)), frozenset(), bound[stage])) for stage in range(stages)
    ]
    choices[0] = [row for row in choices[0] if _forward_order(row) == list(range(micro_batches))]
    return itertools.product(*choices)


def _forward_order(row: tuple[Task, ...]) -> list[int]:
    return [task.micro_batch for task in row if task.phase is Phase.FORWARD]


def _orders(stage: int, coming: frozenset[int], kept: frozenset[int], most: int) -> Iterator[tuple[Task, ...]]:
    if not coming and not kept:
        yield ()
    if len(kept) < most:
        for number in coming:
            for rest in _orders(stage, coming - {number}, kept | {number}, most):
                yield (Task(Phase.FORWARD, stage, number), *rest)
    for number in kept:
        for rest in _orders(stage, coming, kept - {number}, most):
            yield (Task(Phase.BACKWARD, stage, number), *rest)


def _makespan(rows: tuple[tuple[Task, ...], ...], stages: int, backward: int) -> float:
    """The time of a step, slot by slot; infinite if it never ends."""
    end: dict[Task, int] = {}
    position, free = [0] * len(rows), [0] * len(rows)
    total = sum(map(len, rows))
    while len(end) < total:
        before = len(end)
        for device, row in enumerate(rows):
            if position[device] == len(row):
                continue
            task = row[position[device]]
            if task.phase is Phase.FORWARD:
                needs = [Task(Phase.FORWARD, task.stage - 1, task.micro_batch)] if task.stage else []
            else:
                needs = [Task(Phase.BACKWARD, task.stage + 1, task.micro_batch)] if task.stage < stages - 1 else []
            if all(need in end for need in needs):
                begin = max(free[device], *(end[need] for need in needs), 0)
                end[task] = free[device] = begin + (1 if task.phase is Phase.FORWARD else backward)
                position[device] += 1
        if len(end) == before:
            return float("inf")
    return max(end.values())


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("PreferForward", gpipe(4, 6)),
        ("gpipe", gpipe(4, 6)),
        ("PreferBackward", one_f_one_b(4, 6)),
        ("preferbackward", one_f_one_b(4, 6)),
        ("one_f_one_b", one_f_one_b(4, 6)),
        ("PreferBackwardOptimizer", prefer_backward_optimizer(4, 6)),
        ("prefer_backward_optimizer", prefer_backward_optimizer(4, 6)),
        ("Interleaved", interleaved(4, 4, 6)),
        ("interleaved", interleaved(4, 4, 6)),
    ],
)
def test_a_strategy_names_its_schedule(strategy: str, expected: Schedule) -> None:
    assert make(strategy, 4, 4, 6) == expected
    assert make(strategy, 4, 4, 6, backward=False) == forward_only(4, 6)


def test_a_strategy_of_several_stages_a_device() -> None:
    assert make("Interleaved", 8, 4, 6) == interleaved(4, 8, 6)
    assert make("Interleaved", 8, 4, 6, backward=False) == forward_only(8, 6, 4)


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (
            lambda: make("PreferBackwards", 2, 2, 2),
            ["unknown pipeline strategy 'PreferBackwards'", "did you mean 'PreferBackward'"],
        ),
        (lambda: make("2f2b", 2, 2, 2), ["unknown pipeline strategy '2f2b'"]),
        (lambda: make("??", 2, 2, 2), ["strategies are PreferBackward, PreferForward"]),
        (
            lambda: make("PreferBackward", 4, 2, 2),
            ["one stage on every device", "4 stages and 2 devices", "use 4 devices, or 'Interleaved'"],
        ),
        (lambda: make("gpipe", 2, 4, 2, backward=False), ["2 stages and 4 devices", "fix: use 2 devices"]),
        (lambda: make("Interleaved", 5, 2, 2), ["5 stages cannot be dealt to 2 devices", "use 4 or 6 stages"]),
        (lambda: make("Interleaved", 2, 4, 2), ["2 stages cannot be dealt to 4 devices", "use 4 stages"]),
        (lambda: make("Interleaved", 2, 0, 2), ["a pipeline of 0 devices", "at least 1"]),
        (lambda: forward_only(3, 2, 2), ["3 stages cannot be dealt to 2 devices", "use 2 or 4 stages"]),
        (lambda: interleaved(2, 4, 0), ["a pipeline of 0 micro-batches"]),
        (lambda: gpipe(0, 2), ["a pipeline of 0 stages"]),
        (lambda: one_f_one_b(2, -1), ["a pipeline of -1 micro-batches"]),
    ],
)
def test_what_cannot_be_made_is_told(build: Callable[[], Schedule], told: list[str]) -> None:
    with pytest.raises(ScheduleError) as caught:
        build()
    for words in told:
        assert words in str(caught.value)
