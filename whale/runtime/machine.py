"""The devices of this machine as a cluster."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from whale.cluster import Cluster, DeviceGroup, Host, detect_group
from whale.errors import ClusterError


def this_machine(gpus: Sequence[str], devices: int | None = None) -> Cluster:
    """So many GPUs of this machine; without GPUs, so many CPU devices.

    Args:
        gpus: what TensorFlow says of each GPU that it sees (``gpu_descriptions``).
        devices: how many to use; None: all GPUs, or one CPU device.

    Raises:
        ClusterError: there are not as many GPUs.
    """
    if not gpus:
        return Cluster.local(devices or 1, "CPU")
    if devices is not None and devices > len(gpus):
        raise ClusterError(
            f"--devices {devices}, but TensorFlow sees {len(gpus)} GPU(s) here",
            fix=f"ask for at most {len(gpus)}, or hide the GPUs (CUDA_VISIBLE_DEVICES=-1) to use CPU devices",
        )
    return Cluster((Host.build("host0", [_gpu(text) for text in gpus[:devices]]),))


def gpu_descriptions() -> list[str]:
    """The product name of each GPU that TensorFlow sees; empty text where it does not say."""
    found: list[str] = []
    for gpu in tf.config.list_physical_devices("GPU"):
        details = tf.config.experimental.get_device_details(gpu)
        found.append(str(details.get("device_name", "")))
    return found


def _gpu(description: str) -> DeviceGroup:
    try:
        return detect_group("GPU", description)
    except ClusterError:
        return DeviceGroup("GPU", "GPU", None)  # runs as well; only a planner needs to know what it is
