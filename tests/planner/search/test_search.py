"""The whole search against every plan, and what must hold for it."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planner.search.models import Machine, block, brute_force, cluster, known
from whale.cluster import Cluster, Link
from whale.cost_model import Chain, Recompute, World
from whale.errors import ClusterError, PlanError
from whale.planner.search.options import SearchOptions
from whale.planner.search.search import Found, search

UNEVEN = Chain((block(1e12, 10**8, 1e7, 1e6), block(4e12, 10**6, 2e7, 1e6), block(2e12, 10**8, 1e7, 0.0, 1e12)))
"""Three blocks of unequal work, the last with work that no micro-batch can divide."""

CASES: dict[str, tuple[Cluster, SearchOptions]] = {
    "one host, two kinds": (
        cluster((("V100", 2, 16.0), ("P100", 1, 16.0))),
        SearchOptions(4, recompute=(Recompute.NONE,)),
    ),
    "two hosts": (
        cluster((("V100", 1, 16.0),), (("P100", 2, 16.0),), network=1e9),
        SearchOptions(4, recompute=(Recompute.NONE,), schedules=("one_f_one_b", "gpipe")),
    ),
    "little memory": (
        cluster((("V100", 1, 2.2), ("P100", 2, 1.7))),
        SearchOptions(4, schedules=("one_f_one_b", "gpipe"), tensor_parallel=1),
    ),
    "groups of two": (
        cluster((("V100", 2, 16.0),), (("V100", 1, 16.0),), network=1e8),
        SearchOptions(2, recompute=(Recompute.NONE, Recompute.FULL), schedules=("one_f_one_b",)),
    ),
    "interleaved": (
        cluster((("V100", 2, 16.0),)),
        SearchOptions(4, recompute=(Recompute.NONE,), tensor_parallel=1),
    ),
}


def find(chain: Chain, devices: Cluster, options: SearchOptions) -> Found:
    return search(chain, devices, options, coefficients=known())


@pytest.mark.parametrize("name", CASES)
def test_no_plan_is_faster(name: str) -> None:
    devices, options = CASES[name]
    best = brute_force(UNEVEN, World(devices, coefficients=known()), options)
    assert best is not None
    found = find(UNEVEN, devices, options)
    assert found.exact
    assert found.estimate.step_seconds == pytest.approx(best.seconds, rel=1e-9)
    assert found.estimate.fits


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_no_plan_of_any_model_is_faster(data: st.DataObject) -> None:
    number = st.integers(1, 5)
    chain = Chain(
        tuple(
            block(1e12 * data.draw(number), 10**7 * data.draw(number), 5e6 * data.draw(number), 1e6 * data.draw(number))
            for _ in range(data.draw(st.integers(1, 3)))
        )
    )
    memory = [data.draw(st.sampled_from([0.6, 1.2, 16.0])) for _ in range(2)]
    devices = cluster((("V100", 1, memory[0]),), (("P100", 1, memory[1]),), network=1e9 * data.draw(number))
    options = SearchOptions(4)
    best = brute_force(chain, World(devices, coefficients=known()), options)
    if best is None:
        with pytest.raises(PlanError, match="fits on no plan"):
            find(chain, devices, options)
        return
    assert find(chain, devices, options).estimate.step_seconds == pytest.approx(best.seconds, rel=1e-9)


@st.composite
def machines(draw: st.DrawFn, most: int) -> list[Machine]:
    """One or two hosts with so many devices in all."""
    found: list[Machine] = []
    for _ in range(draw(st.integers(1, 2))):
        models = draw(st.lists(st.sampled_from(["V100", "P100"]), min_size=1, max_size=2, unique=True))
        found.append(tuple((model, draw(st.integers(1, 2)), draw(st.sampled_from([2.0, 4.0]))) for model in models))
    return found if sum(count for host in found for _, count, _ in host) <= most else found[:1]


SMALL = SearchOptions(4, recompute=(Recompute.NONE,), schedules=("one_f_one_b",))


@settings(max_examples=25, deadline=None)
@given(machines(4), st.sampled_from([1e8, 1e9, 1e10]), st.data())
def test_more_is_never_worse(hosts: list[Machine], network: float, data: st.DataObject) -> None:
    """A device behind the others of a host, whose links stay as they are; memory or bandwidth more."""
    more = [list(host) for host in hosts]
    faster = network
    at = data.draw(st.integers(0, len(hosts) - 1))
    model, count, memory = more[at][-1]
    what = data.draw(st.sampled_from(["device", "memory", "network"]))
    if what == "device":
        more[at][-1] = (model, count + 1, memory)
    elif what == "memory":
        more[at][-1] = (model, count, memory * 2)
    else:
        faster = network * 2
    after = _step([tuple(host) for host in more], faster, SMALL)
    assert after <= _step(hosts, network, SMALL) * (1 + 1e-9)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 2), st.integers(1, 8), st.sampled_from(["kind", "network"]), st.sampled_from([1e9, 1e10]))
def test_a_host_of_another_kind_or_a_faster_network_is_never_worse_in_large(
    hosts: int, count: int, what: str, network: float
) -> None:
    """The same for spaces that are not looked at as a whole."""
    options = dataclasses.replace(SMALL, global_batch=16, exhaustive_limit=0)
    before: list[Machine] = [(("V100", count, 4.0),)] * hosts
    after = [*before, (("P100", 4, 4.0),)] if what == "kind" else before
    faster = network * 2 if what == "network" else network
    assert _step(after, faster, options) <= _step(before, network, options) * (1 + 1e-9)


def _step(machines: list[Machine], network: float, options: SearchOptions) -> float:
    try:
        return find(UNEVEN, cluster(*machines, network=network), options).estimate.step_seconds
    except PlanError:
        return float("inf")


def test_the_same_input_gives_the_same_plan() -> None:
    devices, options = CASES["two hosts"]
    first, second = find(UNEVEN, devices, options), find(UNEVEN, devices, options)
    assert first.plan == second.plan
    assert [loser.reason for loser in first.runners_up] == [loser.reason for loser in second.runners_up]


def test_unequal_devices_have_unequal_shares() -> None:
    chain = Chain((block(1e12, 1000, 10.0, 10.0),))
    found = find(chain, cluster((("V100", 1, 16.0), ("P100", 1, 16.0))), SearchOptions(50))
    fast, slow = found.plan.shares
    assert fast / slow == pytest.approx(15.7 / 9.3, rel=0.2)  # of single-precision peak rates
    equal = next(loser for loser in found.runners_up if loser.family.name == "data")
    assert equal.judged.seconds > 1.2 * found.estimate.step_seconds


def test_operators_are_never_divided_over_a_slow_link() -> None:
    chain = Chain((block(1e13, 10**9, 1e8, 1e7),))
    found = find(chain, cluster((("V100", 1, 32.0),), (("V100", 1, 32.0),), network=1e8), SearchOptions(1))
    assert found.plan.num_replicas == found.plan.rows == found.plan.stages[0].tensor_parallel == 1


def test_a_model_that_fits_nowhere_says_what_it_needs() -> None:
    chain = Chain((block(1e12, 10**9, 1e7, 1e6),) * 2)
    with pytest.raises(PlanError) as caught:
        find(chain, cluster((("V100", 1, 16.0), ("P100", 1, 8.0))), SearchOptions(2))
    # A block's parameters, gradients and two slots of 4e9 bytes each on the smaller device are nearest to fitting.
    assert "the smallest memory found is 14.9" in caught.value.what
    assert "which has 8.00 GiB" in caught.value.what
    assert "use devices with 14.9" in caught.value.fix
    assert "16 bits" in caught.value.fix


def test_what_cannot_run_is_left_out_and_its_gain_is_told() -> None:
    chain = Chain((block(1e13, 5 * 10**8, 1e5, 1e3),))
    found = find(chain, cluster((("V100", 2, 32.0),)), SearchOptions(1, executable_only=True))
    assert found.plan.stages[0].tensor_parallel == 1
    assert found.plan.recompute is Recompute.NONE
    assert found.left_out is not None
    assert found.left_out.judged.seconds < found.estimate.step_seconds
    assert "operators divided over devices" in found.left_out.reason


def test_stages_that_search_cuts_can_run() -> None:
    chain = Chain((block(1e12, 5 * 10**8, 1e7, 1e3),) * 2)
    devices = cluster((("V100", 1, 32.0),), (("V100", 1, 32.0),), network=1e9)
    found = find(chain, devices, SearchOptions(4, executable_only=True, recompute=(Recompute.NONE,)))
    assert len(found.plan.stages) == 2 and found.left_out is None


def test_named_stages_are_kept() -> None:
    devices = cluster((("V100", 1, 16.0), ("P100", 1, 16.0)))
    options = SearchOptions(4, stages=(0, 2), executable_only=True, recompute=(Recompute.NONE,))
    found = find(UNEVEN, devices, options)
    assert [(stage.start, stage.stop) for stage in found.plan.stages] == [(0, 2), (2, 3)]
    assert found.plan.rows == 2


def test_a_plan_goes_around_a_dead_link() -> None:
    alive = cluster((("V100", 1, 16.0),), (("V100", 1, 16.0),), (("P100", 1, 16.0),))
    pairs = (("host0", "host1"), ("host0", "host2"), ("host1", "host2"))
    links = tuple(Link("network", pair, 10**10, 0.0, down=pair == ("host0", "host1")) for pair in pairs)
    found = find(UNEVEN, dataclasses.replace(alive, links=links), SearchOptions(4))
    assert not {"host0", "host1"} <= {d.host for d in alive.devices if d.name in found.plan.devices}
    assert found.plan.num_replicas * found.plan.rows > 1


def test_of_a_machine_with_dead_links_one_device_is_used() -> None:
    devices = cluster((("V100", 2, 16.0), ("P100", 1, 16.0)))
    devices = dataclasses.replace(devices, links=(Link("nvlink", ("host0",), 10**10, 0.0, down=True),))
    assert len(find(UNEVEN, devices, SearchOptions(4)).plan.devices) == 1
    with pytest.raises(ClusterError, match="the nvlink link inside host0 is down"):
        find(UNEVEN, devices, SearchOptions(4, replicas=2))


def test_a_stage_behind_the_last_block_is_an_error() -> None:
    with pytest.raises(PlanError, match="begins at block 3"):
        find(UNEVEN, cluster((("V100", 1, 16.0),)), SearchOptions(4, stages=(0, 3)))


def test_an_unknown_device_is_an_error() -> None:
    with pytest.raises(ClusterError, match="unknown device model 'V99'"):
        find(UNEVEN, cluster((("V99", 1, 16.0),)), SearchOptions(4))
