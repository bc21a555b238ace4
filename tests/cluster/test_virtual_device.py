"""Virtual devices."""

from __future__ import annotations

import pytest

from whale.cluster import Cluster, VirtualDevice
from whale.errors import ClusterError

FOUR = Cluster.local(4)


def test_devices_are_kept_per_replica() -> None:
    virtual = VirtualDevice.named(FOUR, 1, [["/gpu:2", "/gpu:3"], ["/gpu:0", "/gpu:1"]])
    assert virtual.index == 1
    assert virtual.num_replicas == 2
    assert virtual.devices_per_replica == 2
    assert virtual.names == (("/device:CPU:2", "/device:CPU:3"), ("/device:CPU:0", "/device:CPU:1"))
    assert [device.index for device in virtual.devices] == [2, 3, 0, 1]


_REFUSED: list[tuple[list[list[str]], str]] = [
    ([], "slice 0 holds no device"),
    ([[]], "slice 0 holds no device"),
    ([["/gpu:0"], ["/gpu:1", "/gpu:2"]], "replica 1 has 2 devices and replica 0 has 1"),
    ([["/gpu:0"], ["/cpu:0"]], "device '/device:CPU:0' is used twice"),
    ([["/gpu:4"]], "no device '/gpu:4' in a cluster of 4 devices"),
]


@pytest.mark.parametrize(("replicas", "what"), _REFUSED)
def test_a_slice_that_cannot_be_is_refused(replicas: list[list[str]], what: str) -> None:
    with pytest.raises(ClusterError, match=what):
        VirtualDevice.named(FOUR, 0, replicas)
