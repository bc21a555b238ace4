"""The text of a cluster."""

from __future__ import annotations

from whale.cluster import Cluster, DeviceGroup, Host, describe


def test_one_line_a_host() -> None:
    hosts = (
        Host.build("host0", (DeviceGroup("GPU", "V100", 2**34, 8),), job="worker"),
        Host.build("host1", (DeviceGroup("CPU", "CPU"), DeviceGroup("GPU", "P100", 3 * 2**29)), task=1, job="worker"),
    )
    assert describe(Cluster(hosts)) == "host0: 8 x V100 (16 GiB)\nhost1: 1 x CPU, 1 x P100 (1536 MiB)"


def test_equal_devices_are_counted_together() -> None:
    small, large = DeviceGroup("GPU", "A100", 40 * 2**30), DeviceGroup("GPU", "A100", 80 * 2**30)
    cluster = Cluster((Host.build("a", (small, large, small)),))
    assert describe(cluster) == "a: 2 x A100 (40 GiB), 1 x A100 (80 GiB)"
