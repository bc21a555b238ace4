"""Device strings."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.cluster.strategies import clusters
from whale.cluster import Cluster, DeviceName, parse_name
from whale.errors import ClusterError


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("/job:worker/replica:0/task:2/device:GPU:1", DeviceName("GPU", 1, 2, "worker", 0)),
        ("/job:worker/task:0/gpu:3", DeviceName("GPU", 3, 0, "worker")),
        ("/device:CPU:0", DeviceName("CPU", 0)),
        ("/gpu:1", DeviceName("GPU", 1)),
        ("GPU:1", DeviceName("GPU", 1)),
    ],
)
def test_device_strings_are_read_in_the_forms_scripts_use(text: str, name: DeviceName) -> None:
    assert parse_name(text) == name


@pytest.mark.parametrize("text", ["", "/", "GPU", "/device:TPU:0", "/gpu:-1", "/job:worker/task:0", "/task:x/gpu:0"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ClusterError, match="is not a device string"):
        parse_name(text)


@given(clusters())
def test_a_device_name_says_which_device_it_is(cluster: Cluster) -> None:
    for device in cluster.devices:
        name = parse_name(device.name)
        assert (name.kind, name.index, name.task or 0, name.job or "") == (
            device.kind,
            device.index,
            device.task,
            device.job,
        )
