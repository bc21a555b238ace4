"""Starts Whale in this process. Imports TensorFlow, so it is itself imported only when a script is about to run."""

from __future__ import annotations

import contextlib
import os
import sys

import tensorflow.compat.v1 as tf

from whale._tf import without_frames_of
from whale.cluster import CATALOGUE, Cluster, describe, from_tf_config
from whale.config import Config, from_environment
from whale.errors import ClusterError, SetupError
from whale.runtime import launch
from whale.runtime.activation import Activation, activate
from whale.runtime.in_force import InForce
from whale.runtime.initialise import check_alone
from whale.runtime.machine import gpu_descriptions, this_machine
from whale.runtime.options import Options
from whale.runtime.plan_file import read_plan_file


def start(
    cluster: Cluster | None,
    devices: int | None,
    strategy: str | None,
    batch: str | None,
    plan_path: str | None,
    catalogue_path: str | None,
) -> Activation:
    """Whale under the options of the command line and the environment.

    Args:
        cluster: the devices, or None for those of this machine.
        devices: how many of this machine's devices, or None for all GPUs or one CPU device.
        strategy: ``auto``, ``replica``, ``annotated``, or None for what the script's scopes say.
        batch: ``global``, ``local``, or None to decide by the script.
        plan_path: a plan file, or None.
        catalogue_path: a file of devices and links that the catalogue lacks, or None.

    Raises:
        ClusterError: this machine does not have the devices asked for, or they are on several hosts, or ``TF_CONFIG``
            names several processes.
        ConfigError: an environment variable is wrong.
        PlanError: the plan file cannot be read, or does not fit.
    """
    config = Config()
    config.fall_back_on(from_environment(os.environ))
    try:
        check_alone(from_tf_config(os.environ.get("TF_CONFIG", "")))
    except ClusterError as error:
        raise ClusterError(error.what, fix=error.fix) from None  # no line of a script is to blame
    gpus = gpu_descriptions()
    if cluster is not None:
        check_runs_here(cluster, len(gpus), os.cpu_count() or 1)
    chosen = cluster or this_machine(gpus, devices)
    base = Options(
        cluster=chosen,
        strategy=strategy or "",
        batch=batch or "",
        plan_file=None if plan_path is None else read_plan_file(plan_path),
        config=config,
        catalogue=CATALOGUE if catalogue_path is None else CATALOGUE.extended(catalogue_path),
    )
    activation = activate(base.under(config))
    InForce.set(InForce(activation, base))
    return activation


def hidden_launcher() -> contextlib.AbstractContextManager[object]:
    """Within the context the script's ops are noted without the frames that stand above it: the caller's and below.

    Errors of TensorFlow then show where an op was made as they do under Python itself.
    """
    frame, files = sys._getframe(1), set(launch.FRAMES)
    while frame is not None:
        files.add(frame.f_code.co_filename)
        frame = frame.f_back
    return without_frames_of(files)


def tell_if_unused(activation: Activation) -> None:
    """Says on standard error that a script which built a graph ran none of it, and so used no device of ours."""
    count = len(activation.options.cluster.compute_devices)
    if count > 1 and not activation.sessions and tf.get_default_graph().get_operations():
        unused = SetupError(
            f"the script built a graph and made no session, so nothing ran on the {count} devices",
            fix="run the graph in a tf.Session; a script for eager mode runs under python, on one device",
        )
        launch.print_error(unused)


def check_runs_here(cluster: Cluster, gpus: int, cores: int) -> None:
    """Checks that one process on this machine can drive a cluster.

    Args:
        cluster: what a cluster file describes. CPU devices are made as they are asked for.
        gpus: how many GPUs TensorFlow sees.
        cores: how many CPU cores there are.

    Raises:
        ClusterError: it has several hosts, is a job to be served, or has more GPUs than there are here. The message
            says what was asked for and what was found.
    """
    asked = "; ".join(describe(cluster).splitlines())
    here = f"this machine has {gpus} GPU(s) that TensorFlow sees and {cores} CPU core(s)"
    local = f"whale run --devices {gpus or 2}"
    if cluster.worker_num > 1:
        raise ClusterError(
            f"the cluster file has {cluster.worker_num} hosts ({asked}), and this version trains on one; {here}",
            fix=f"leave one host in the file, or use the devices of this machine: {local}",
        )
    if not cluster.is_local:
        raise ClusterError(
            f"the cluster file has the job {cluster.job!r} ({asked}), and this version serves no jobs; {here}",
            fix=f"remove 'job' from the file, or use the devices of this machine: {local}",
        )
    wanted = sum(device.kind == "GPU" for device in cluster.devices)
    if wanted > gpus:
        hint = "" if gpus else " for CPU devices (`whale doctor` says whether TensorFlow can use GPUs at all)"
        raise ClusterError(
            f"the cluster file asks for {wanted} GPU(s) ({asked}), and {here}",
            fix=f"correct the file, or use the devices of this machine: {local}{hint}",
        )
