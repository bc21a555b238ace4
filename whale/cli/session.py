"""Starts Whale in this process. Imports TensorFlow, so it is itself imported only when a script is about to run."""

from __future__ import annotations

import os

import tensorflow.compat.v1 as tf

from whale.cluster import Cluster
from whale.config import Config, from_environment
from whale.errors import ClusterError
from whale.runtime.activation import Activation, activate
from whale.runtime.options import Options


def start(
    cluster: Cluster | None, devices: int | None, strategy: str, batch: str | None, plan_path: str | None
) -> Activation:
    """Whale under the options of the command line and the environment.

    Args:
        cluster: the devices, or None for those of this machine.
        devices: how many of this machine's devices, or None for all GPUs or one CPU device.
        strategy: ``auto``, ``replica`` or ``annotated``.
        batch: ``global``, ``local``, or None to decide by the script.
        plan_path: a plan file, or None.

    Raises:
        ClusterError: more GPUs are asked for than there are.
        ConfigError: an environment variable is wrong.
    """
    config = Config()
    config.fall_back_on(from_environment(os.environ))
    chosen = cluster or local_cluster(devices, len(tf.config.list_physical_devices("GPU")))
    return activate(Options(cluster=chosen, strategy=strategy, batch=batch or "", plan_path=plan_path, config=config))


def local_cluster(devices: int | None, gpus: int) -> Cluster:
    """The devices of this machine that a run uses.

    Args:
        devices: how many were asked for, or None.
        gpus: how many GPUs TensorFlow sees.

    Raises:
        ClusterError: more GPUs are asked for than there are.
    """
    if not gpus:
        return Cluster.local(devices or 1, "CPU")
    if devices is not None and devices > gpus:
        raise ClusterError(
            f"--devices {devices}, but TensorFlow sees {gpus} GPU(s) here",
            fix=f"ask for at most {gpus}, or hide the GPUs (CUDA_VISIBLE_DEVICES=-1) to use CPU devices",
        )
    return Cluster.local(devices or gpus, "GPU")
