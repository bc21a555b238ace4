"""The devices of this machine."""

from __future__ import annotations

import pytest

from whale.errors import ClusterError
from whale.runtime.machine import this_machine

V100, P100 = "Tesla V100-SXM2-16GB", "Tesla P100-PCIE-16GB"


def test_without_gpus_there_are_cpu_devices() -> None:
    assert [device.kind for device in this_machine([]).devices] == ["CPU"]
    assert [device.kind for device in this_machine([], 3).devices] == ["CPU"] * 3


def test_gpus_are_told_by_their_products() -> None:
    devices = this_machine([V100, V100, P100]).compute_devices
    assert [device.model for device in devices] == ["V100", "V100", "P100-PCIe"]
    assert [device.name for device in devices] == [f"/device:GPU:{i}" for i in range(3)]
    assert {device.memory_bytes for device in devices} == {16 * 2**30}
    assert [device.model for device in this_machine([V100, V100, P100], 1).compute_devices] == ["V100"]


def test_a_product_that_nobody_knows_runs_as_well() -> None:
    assert [device.model for device in this_machine(["Wonder 9000", ""]).compute_devices] == ["GPU", "GPU"]


def test_more_gpus_than_there_are_is_an_error() -> None:
    with pytest.raises(ClusterError, match="sees 2 GPU"):
        this_machine([V100, V100], 3)
