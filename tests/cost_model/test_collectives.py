"""All-reduces and transfers over links."""

from __future__ import annotations

import pytest

from tests.cost_model.models import GIB, cluster, coefficients
from whale.cluster import Cluster, DeviceGroup, Host, Link
from whale.cost_model import Topology, all_gather_seconds, all_reduce_seconds, send_seconds
from whale.errors import ClusterError


def topology(found: Cluster, **changed: float) -> Topology:
    return Topology(found, coefficients=coefficients(**changed))


def test_a_ring_moves_each_byte_twice_but_for_one_part() -> None:
    links = topology(cluster(devices=8))
    seconds = all_reduce_seconds(links, links.cluster.compute_devices, 1e9)
    assert seconds == pytest.approx(2 * 7 / 8 * 1e9 / 150e9)


def test_a_start_and_a_hop_for_each_further_device() -> None:
    links = topology(cluster(devices=4), **{"collective__NVLink-2__start": 1e-5, "collective__NVLink-2__hop": 1e-6})
    small = all_reduce_seconds(links, links.cluster.compute_devices, 1)
    assert small == pytest.approx(1e-5 + 3e-6, rel=1e-3)


def test_one_device_and_no_bytes_take_no_time() -> None:
    links = topology(cluster(devices=2))
    assert all_reduce_seconds(links, links.cluster.compute_devices[:1], 1e9) == 0
    assert all_reduce_seconds(links, links.cluster.compute_devices, 0) == 0


ETHERNET = 0.8
"""What 100 Gb Ethernet, the nearest network of the catalogue, reaches of its rate."""


def test_between_hosts_the_network_is_shared_by_the_groups() -> None:
    links = topology(cluster(hosts=2, devices=4))
    devices = links.cluster.compute_devices
    one_each = all_reduce_seconds(links, (devices[0], devices[4]), 1e9)
    assert one_each == pytest.approx(1e9 * 4 / 10e9 / ETHERNET)
    alone = all_reduce_seconds(links, (devices[0], devices[4]), 1e9, sharing=1)
    assert alone == pytest.approx(1e9 / 10e9 / ETHERNET)


def test_a_gather_is_half_a_reduction() -> None:
    links = topology(cluster(devices=4))
    group = links.cluster.compute_devices
    assert all_gather_seconds(links, group, 1e9) == pytest.approx(all_reduce_seconds(links, group, 1e9) / 2)


def test_a_transfer_within_a_host_and_to_itself() -> None:
    links = topology(cluster(devices=4))
    first, second = links.cluster.compute_devices[:2]
    assert send_seconds(links, first, second, 25e9) == pytest.approx(1.0)
    assert send_seconds(links, first, first, 25e9) == 0


def test_unequal_devices_of_a_host_meet_on_its_bus() -> None:
    host = Host.build("a", (DeviceGroup("GPU", "V100", GIB), DeviceGroup("GPU", "P100", GIB)))
    links = topology(Cluster((host,)))
    assert links.inside(links.cluster.compute_devices).name == "PCIe-3.0"


def test_a_cluster_file_states_speeds() -> None:
    host = Host.build("a", (DeviceGroup("GPU", "V100", GIB, 16),))
    links = topology(Cluster((host,), (Link("nvlink", ("a",), 10**9, 0.0),)))
    assert links.inside(links.cluster.compute_devices[:2]).bytes_per_second == 10**9


def test_dead_nvlink_leaves_the_bus_and_dead_links_leave_nothing() -> None:
    host = Host.build("a", (DeviceGroup("GPU", "V100", GIB, 2),))
    dead = Link("nvlink", ("a",), 10**9, 0.0, down=True)
    bus = topology(Cluster((host,), (dead, Link("pcie", ("a",), 10**9, 0.0))))
    assert bus.inside(bus.cluster.compute_devices).name == "PCIe-3.0"
    nothing = topology(Cluster((host,), (dead,)))
    with pytest.raises(ClusterError, match="links inside host 'a' are down"):
        nothing.inside(nothing.cluster.compute_devices)


def test_a_network_nobody_described_is_assumed() -> None:
    described = cluster(hosts=2)
    assert not topology(described).assumed
    assert topology(Cluster(described.hosts)).assumed
