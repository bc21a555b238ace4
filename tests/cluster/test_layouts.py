"""Every layout, and what all of them keep."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.strategies import clusters
from whale.cluster import Cluster, DeviceGroup, Host, Layout, Slices, Workers, slices
from whale.errors import ClusterError

TWO_BY_FOUR = Workers(("10.0.0.1:8000", "10.0.0.2:8000"), 0).cluster(4)
FOUR_BY_ONE = Workers(("10.0.0.1:1", "10.0.0.2:1", "10.0.0.1:2", "10.0.0.2:2"), 0).cluster(1)


def _short(found: Slices) -> str:
    """``0:1 1:1 | 0:2,0:3`` for two slices, the first of two replicas; a device is task:index."""

    def short(name: str) -> str:
        parts = name.split("/")
        return f"{parts[3][len('task:') :]}:{parts[4].rsplit(':', 1)[1]}"

    return " | ".join(" ".join(",".join(short(name) for name in replica) for replica in part) for part in found)


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ("all", "0:0 0:1 0:2 0:3 1:0 1:1 1:2 1:3"),
        ({"all": True}, "0:0 0:1 0:2 0:3 1:0 1:1 1:2 1:3"),
        ("auto", "0:0 0:1 0:2 0:3 1:0 1:1 1:2 1:3"),
        ({"average": 4}, "0:0 0:1 0:2 0:3 | 1:0 1:1 1:2 1:3"),
        ({"average": 8}, "0:0 0:1 0:2 0:3 1:0 1:1 1:2 1:3"),
        ({"row": 2}, "0:0 0:1 | 0:2 0:3 | 1:0 1:1 | 1:2 1:3"),
        ({"column": 2}, "0:0 1:0 | 0:1 1:1 | 0:2 1:2 | 0:3 1:3"),
        ({"column": 4}, "0:0 1:0 0:1 1:1 | 0:2 1:2 0:3 1:3"),
        ("aware_row", "0:0 0:1 0:2 0:3 | 1:0 1:1 1:2 1:3"),
        ({"aware_row": 2}, "0:0 0:1 | 0:2 0:3 | 1:0 1:1 | 1:2 1:3"),
        ({"aware_row": 8}, "0:0 0:1 0:2 0:3 1:0 1:1 1:2 1:3"),
        (
            {
                "specific": [
                    [["/job:worker/task:0/gpu:0", "/job:worker/task:1/gpu:0"]],
                    (("/job:worker/task:0/gpu:1",),),
                ]
            },
            "0:0,1:0 | 0:1",
        ),
    ],
)
def test_slices_of_two_hosts_of_four(layout: Layout, expected: str) -> None:
    assert _short(slices(TWO_BY_FOUR, layout)) == expected


def test_slices_hold_the_strings_scripts_expect() -> None:
    one = Workers(("h:1", "i:1"), 0).cluster(1)
    assert slices(one) == (
        (("/job:worker/replica:0/task:0/device:GPU:0",), ("/job:worker/replica:0/task:1/device:GPU:0",)),
    )
    assert slices(Cluster.local(2), {"average": 1}) == ((("/device:CPU:0",),), (("/device:CPU:1",),))


@pytest.mark.parametrize(
    ("device_counts", "prefer_intra_node", "expected"),
    [
        ((1, 1), True, "0:0 0:2 1:0 1:2 | 0:1 0:3 1:1 1:3"),
        ((1, 1), False, "0:0 0:1 0:2 0:3 | 1:0 1:1 1:2 1:3"),
        ((2, 1, 1), True, "0:0,0:1 1:0,1:1 | 0:2 1:2 | 0:3 1:3"),
        ((8,), True, "0:0,0:1,0:2,0:3,1:0,1:1,1:2,1:3"),
    ],
)
def test_auto_deals_each_replica_to_the_task_graphs(
    device_counts: tuple[int, ...], prefer_intra_node: bool, expected: str
) -> None:
    found = slices(TWO_BY_FOUR, "auto", device_counts=device_counts, prefer_intra_node=prefer_intra_node)
    assert _short(found) == expected


@pytest.mark.parametrize("layout", ["aware_row", {"aware_row": 2}])
def test_aware_row_groups_workers_of_one_machine(layout: Layout) -> None:
    assert _short(slices(FOUR_BY_ONE, layout)) == "0:0 2:0 | 1:0 3:0"


def test_column_goes_on_where_hosts_have_fewer_devices() -> None:
    sizes = (1, 3)
    hosts = tuple(
        Host.build(f"h{i}", (DeviceGroup("GPU", "T4", None, n),), task=i, job="worker") for i, n in enumerate(sizes)
    )
    assert _short(slices(Cluster(hosts), {"column": 2})) == "0:0 1:0 | 1:1 1:2"


def test_layouts_leave_out_the_cpus_of_a_cluster_with_gpus() -> None:
    host = Host.build("host0", (DeviceGroup("CPU", "CPU"), DeviceGroup("GPU", "T4", None, 2)))
    assert slices(Cluster((host,))) == ((("/device:GPU:0",), ("/device:GPU:1",)),)


@pytest.mark.parametrize(
    ("layout", "what"),
    [
        ("averag", "unknown layout 'averag'\n  fix: did you mean 'average'"),
        ({"block": 2}, "unknown layout 'block'\n  fix: layouts: all, average"),
        ("average", "layout 'average' needs an argument"),
        ({"all": 2}, "layout 'all' takes no argument, not 2"),
        ({"row": 2, "column": 2}, "a layout of 2 entries"),
        ({}, "a layout of 0 entries"),
        (3, "3 is not a layout"),
        ({3: 2}, "unknown layout '3'"),
        ({"average": 3}, "3 devices per slice do not divide 8 devices\n  fix: use one of 1, 2, 4, 8"),
        ({"row": 16}, "asks for 16 devices per slice, and the cluster has 8"),
        ({"column": 0}, "takes a positive number of devices per slice, not 0"),
        ({"column": True}, "takes a positive number of devices per slice, not True"),
        ({"row": "2"}, "takes a positive number of devices per slice, not '2'"),
        ({"specific": []}, "layout 'specific' holds no slice"),
        ({"specific": "/gpu:0"}, "the layout 'specific' is '/gpu:0', not a list"),
        ({"specific": [["/job:worker/task:0/gpu:0"]]}, "a replica of slice 0 is .* not a list"),
        ({"specific": [[[0]]]}, "slice 0 names the device 0"),
        ({"specific": [[["/job:worker/task:0/gpu:9"]]]}, "no device '/job:worker/task:0/gpu:9'"),
        (
            {"specific": [[["/job:worker/task:0/gpu:0"]], [["/job:worker/task:0/gpu:0"]]]},
            "device '/job:worker/replica:0/task:0/device:GPU:0' is used twice",
        ),
    ],
)
def test_a_layout_that_cannot_be_is_refused(layout: Layout, what: str) -> None:
    with pytest.raises(ClusterError, match=what):
        slices(TWO_BY_FOUR, layout)


@pytest.mark.parametrize(
    ("device_counts", "what"),
    [((3,), "do not divide 8"), ((8, 1), "asks for 9"), ((), "devices per TaskGraph"), ((1, 0), "at least 1")],
)
def test_auto_refuses_counts_that_do_not_fit(device_counts: tuple[int, ...], what: str) -> None:
    with pytest.raises(ClusterError, match=what):
        slices(TWO_BY_FOUR, "auto", device_counts=device_counts)


def test_aware_row_refuses_parts_of_two_machines() -> None:
    addresses = tuple(f"10.0.0.{machine}:{port}" for machine in (1, 2) for port in (1, 2, 3))
    cluster = Workers(addresses, 0).cluster(1)
    with pytest.raises(ClusterError, match=r"slice 1 of 2 devices takes part of machines 10\.0\.0\.1, 10\.0\.0\.2"):
        slices(cluster, {"aware_row": 2})


@st.composite
def _cluster_and_layout(draw: st.DrawFn) -> tuple[Cluster, Layout, tuple[int, ...]]:
    cluster = draw(clusters())
    total = cluster.total_gpu_num
    size = draw(st.sampled_from([size for size in range(1, total + 1) if total % size == 0]))
    sized = draw(st.sampled_from(("average", "row", "column")))
    layout = draw(st.sampled_from(("all", "auto", "aware_row", {sized: size})))
    first = draw(st.integers(1, size))
    counts = (first, size - first) if size > first else (first,)
    return cluster, layout, counts


@given(_cluster_and_layout(), st.booleans())
def test_slices_partition_the_compute_devices(
    drawn: tuple[Cluster, Layout, tuple[int, ...]], prefer_intra_node: bool
) -> None:
    cluster, layout, counts = drawn
    found = slices(cluster, layout, device_counts=counts, prefer_intra_node=prefer_intra_node)
    names = [name for part in found for replica in part for name in replica]
    assert sorted(names) == sorted(device.name for device in cluster.compute_devices)
    assert len(set(names)) == len(names)
    if isinstance(layout, dict):
        assert {len(part) for part in found} == set(layout.values())
        assert all(len(replica) == 1 for part in found for replica in part)


@given(clusters(), st.data())
def test_specific_covers_each_device_at_most_once(cluster: Cluster, data: st.DataObject) -> None:
    names = st.sampled_from([device.name for device in cluster.compute_devices])
    wanted = data.draw(st.lists(st.lists(st.lists(names, max_size=2), max_size=3), max_size=3))
    used = [name for part in wanted for replica in part for name in replica]
    regular = bool(wanted) and all(part and part[0] and len({len(r) for r in part}) == 1 for part in wanted)
    if regular and len(set(used)) == len(used):
        assert slices(cluster, {"specific": wanted}) == tuple(tuple(map(tuple, part)) for part in wanted)
    else:
        with pytest.raises(ClusterError):
            slices(cluster, {"specific": wanted})


@given(clusters(), st.sampled_from(("average", "row", "column", "aware_row")), st.integers(-1, 40))
def test_a_size_either_divides_the_devices_or_is_refused(cluster: Cluster, name: str, size: int) -> None:
    try:
        found = slices(cluster, {name: size})
    except ClusterError:
        fits = size > 0 and cluster.total_gpu_num % size == 0
        assert name == "aware_row" or not fits
    else:
        assert [len(part) for part in found] == [size] * (cluster.total_gpu_num // size)
