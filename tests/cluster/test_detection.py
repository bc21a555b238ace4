"""From TensorFlow's descriptions to models."""

from __future__ import annotations

import pytest

from whale.cluster.detection import detect_group, detect_model, product_name
from whale.errors import ClusterError

GIB = 2**30

DESCRIPTION = "device: 0, name: Tesla V100-SXM2-16GB, pci bus id: 0000:00:1e.0, compute capability: 7.0"


def test_the_product_is_read_from_a_description() -> None:
    assert product_name(DESCRIPTION) == "Tesla V100-SXM2-16GB"
    assert product_name("NVIDIA L4") == "NVIDIA L4"


@pytest.mark.parametrize(
    ("product", "model", "memory"),
    [
        (DESCRIPTION, "V100", 16),
        ("Tesla V100-PCIE-32GB", "V100-PCIe", 32),
        ("Tesla V100-SXM3-32GB", "V100", 32),
        ("NVIDIA A100-SXM4-80GB", "A100", 80),
        ("NVIDIA A100 80GB PCIe", "A100-PCIe", 80),
        ("NVIDIA A10", "A10", 24),
        ("NVIDIA A10G", "A10G", 24),
        ("NVIDIA H100 80GB HBM3", "H100", 80),
        ("NVIDIA H100 PCIe", "H100-PCIe", 80),
        ("NVIDIA GH200 480GB", "GH200", 96),
        ("NVIDIA GeForce RTX 2080 Ti", "RTX-2080-Ti", 11),
        ("TITAN RTX", "Titan-RTX", 24),
        ("Tesla P100-PCIE-12GB", "P100-PCIe", 12),
        ("Tesla K80", "K80", 12),
        ("Tesla P4", "P4", 8),
        ("Tesla P40", "P40", 24),
        ("NVIDIA L40S", "L40S", 48),
    ],
)
def test_products_are_told_apart(product: str, model: str, memory: int) -> None:
    found = detect_group("GPU", product)
    assert (found.model, found.memory_bytes) == (model, memory * GIB)


def test_the_limit_tells_the_size_where_the_name_does_not() -> None:
    assert detect_group("GPU", "A100-SXM4", 70 * GIB).memory_bytes == 80 * GIB
    assert detect_group("GPU", "A100-SXM4", 30 * GIB).memory_bytes == 40 * GIB


def test_a_part_of_a_device_has_the_memory_of_the_part() -> None:
    assert detect_group("GPU", "NVIDIA L4", 6 * GIB).memory_bytes == 6 * GIB


def test_a_cpu_is_a_cpu() -> None:
    assert detect_group("CPU", "", 256 * 2**20).model == "CPU"


def test_an_unknown_product_names_the_nearest() -> None:
    with pytest.raises(ClusterError, match="unknown device 'NVIDIA V1000'\n  fix: did you mean 'V100'"):
        detect_model("NVIDIA V1000")


def test_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(ClusterError, match="unknown device kind 'TPU'"):
        detect_group("TPU")
