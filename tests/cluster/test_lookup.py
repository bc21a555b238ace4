"""Devices by their strings."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.cluster.strategies import clusters
from whale.cluster import Cluster, Workers, find_device
from whale.errors import ClusterError

TWO_HOSTS = Workers(("a:1", "b:1"), 0).cluster(2)


@given(clusters())
def test_every_device_is_found_by_its_name(cluster: Cluster) -> None:
    for device in cluster.devices:
        if device.kind == "GPU" or cluster.compute_devices == cluster.devices:
            assert find_device(cluster, device.name) == device


@pytest.mark.parametrize(
    "name", ["/gpu:1", "GPU:1", "/job:worker/replica:0/task:0/device:GPU:1", "/job:localhost/gpu:1"]
)
@pytest.mark.parametrize("kind", ["CPU", "GPU"])
def test_names_of_gpus_mean_the_devices_of_one_process(name: str, kind: str) -> None:
    cluster = Cluster.local(2, "GPU" if kind == "GPU" else "CPU")
    assert find_device(cluster, name) == cluster.devices[1]


def test_several_hosts_need_a_task() -> None:
    assert find_device(TWO_HOSTS, "/job:worker/task:1/gpu:0") == TWO_HOSTS.devices[2]
    with pytest.raises(ClusterError, match="'/gpu:0' names no task, and the cluster has 2 hosts"):
        find_device(TWO_HOSTS, "/gpu:0")


@pytest.mark.parametrize(
    "name",
    [
        "/job:worker/task:0/gpu:2",
        "/job:worker/task:2/gpu:0",
        "/job:ps/task:0/gpu:0",
        "/job:worker/replica:1/task:0/gpu:0",
        "/job:worker/task:0/cpu:0",
    ],
)
def test_a_device_that_does_not_exist_is_refused(name: str) -> None:
    with pytest.raises(ClusterError, match=r"no device .* in a cluster of 4 devices"):
        find_device(TWO_HOSTS, name)
