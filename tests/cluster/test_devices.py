"""Devices, hosts, links and clusters."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given

from tests.cluster.strategies import clusters
from whale.cluster import Cluster, Device, DeviceGroup, Host, Link
from whale.errors import ClusterError

V100 = DeviceGroup("GPU", "V100", 16 * 2**30, 2)


def test_a_local_cluster_names_devices_without_job() -> None:
    cluster = Cluster.local(2)
    assert [device.name for device in cluster.devices] == ["/device:CPU:0", "/device:CPU:1"]
    assert cluster.is_local
    assert cluster.worker_num == 1
    assert cluster.job == ""


def test_a_local_cluster_may_hold_gpus_of_a_model() -> None:
    cluster = Cluster.local(8, "GPU", "V100", 32 * 2**30)
    assert cluster.devices[7] == Device("GPU", 7, "host0", 0, "V100", 32 * 2**30)
    assert cluster.devices[7].name == "/device:GPU:7"


def test_devices_of_several_hosts_name_job_and_task() -> None:
    hosts = tuple(Host.build(f"host{task}", (V100,), task=task, job="worker") for task in range(2))
    cluster = Cluster(hosts)
    assert [device.name for device in cluster.devices] == [
        "/job:worker/replica:0/task:0/device:GPU:0",
        "/job:worker/replica:0/task:0/device:GPU:1",
        "/job:worker/replica:0/task:1/device:GPU:0",
        "/job:worker/replica:0/task:1/device:GPU:1",
    ]
    assert not cluster.is_local
    assert cluster.worker_num == 2


def test_total_gpu_num_counts_gpus_only_when_there_are_any() -> None:
    mixed = Cluster((Host.build("host0", (DeviceGroup("CPU", "CPU"), V100)),))
    assert mixed.total_gpu_num == 2
    assert [device.kind for device in mixed.devices] == ["CPU", "GPU", "GPU"]
    assert [device.index for device in mixed.devices] == [0, 0, 1]
    assert Cluster.local(3).total_gpu_num == 3


def test_hosts_on_one_machine_share_the_address_without_the_port() -> None:
    assert Host.build("a", (V100,), address="10.0.0.1:22").machine == "10.0.0.1"
    assert Host.build("a", (V100,)).machine == "a"


@given(clusters())
def test_groups_build_the_same_host(cluster: Cluster) -> None:
    for task, host in enumerate(cluster.hosts):
        assert Host.build(host.name, host.groups, address=host.address, task=task, job=cluster.job) == host


def _host(name: str, task: int, job: str = "worker", address: str = "") -> Host:
    return Host.build(name, (V100,), address=address, task=task, job=job)


@pytest.mark.parametrize(
    ("hosts", "links", "what"),
    [
        ((), (), "a cluster without a host"),
        ((_host("a", 0), _host("a", 1)), (), "two hosts are named 'a'"),
        ((_host("a", 0, address="h:1"), _host("b", 1, address="h:1")), (), "two hosts have the address 'h:1'"),
        ((_host("a", 0, job=""), _host("b", 1, job="")), (), "several hosts without a job"),
        ((_host("a", 1),), (), "stands under task 0"),
        ((_host("a", 0), _host("b", 1, job="ps")), (), "stands under task 1"),
        ((_host("a", 0, job="no job"),), (), "is not a job name"),
        ((_host("node1", 0),), (Link("pcie", ("node2",), 1, 0.0),), "did you mean 'node1'"),
        ((_host("a", 0),), (Link("pcie", ("a",), 1, 0.0), Link("pcie", ("a",), 2, 0.0)), "two pcie links join a"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused(hosts: tuple[Host, ...], links: tuple[Link, ...], what: str) -> None:
    with pytest.raises(ClusterError, match=what):
        Cluster(hosts, links)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"kind": "TPU"}, "unknown device kind 'TPU'"),
        ({"index": -1}, "must not be negative"),
        ({"model": ""}, "is not a model name"),
        ({"memory_bytes": 0}, "a memory of 0 bytes"),
        ({"memory_bytes": 33 * 2**30}, "V100 has at most 32 GiB of memory, not 33 GiB"),
        ({"kind": "CPU"}, "V100 is a GPU, not a CPU"),
    ],
)
def test_a_device_that_cannot_be_is_refused(changes: dict[str, object], what: str) -> None:
    device = Device("GPU", 0, "host0", 0, "V100", None)
    with pytest.raises(ClusterError, match=what):
        dataclasses.replace(device, **changes)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"kind": "nvlnk"}, "did you mean 'nvlink'"),
        ({"hosts": ()}, "joins nothing"),
        ({"hosts": ("a", "a")}, "names host 'a' twice"),
        ({"bytes_per_second": 0}, "a link of 0 bytes per second"),
        ({"latency_seconds": -1.0}, "a latency of -1.0 seconds"),
        ({"latency_seconds": float("nan")}, "a latency of nan seconds"),
    ],
)
def test_a_link_that_cannot_be_is_refused(changes: dict[str, object], what: str) -> None:
    link = Link("nvlink", ("a",), 10**9, 1e-6)
    with pytest.raises(ClusterError, match=what):
        dataclasses.replace(link, **changes)  # pyright: ignore[reportArgumentType]


def test_a_host_needs_a_name_a_device_and_indices_from_zero() -> None:
    with pytest.raises(ClusterError, match="is not a host name"):
        Host.build("a b", (V100,))
    with pytest.raises(ClusterError, match="has no device"):
        Host("a", "", ())
    with pytest.raises(ClusterError, match=r"the GPUs of host 'a' are numbered \[1\]"):
        Host("a", "", (Device("GPU", 1, "a", 0, "V100", None),))
    with pytest.raises(ClusterError, match="a count of 0 devices"):
        Cluster.local(0)
