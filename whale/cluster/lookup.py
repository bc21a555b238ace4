"""The device that a device string means in a cluster."""

from __future__ import annotations

from whale.cluster.devices import WORKER_JOB, Cluster, Device
from whale.cluster.names import DeviceName, parse_name
from whale.errors import ClusterError, nearest

# How TensorFlow and scripts written for one worker call the job of a process that serves nobody.
_LOCAL_JOBS = ("localhost", WORKER_JOB)


def find_device(cluster: Cluster, name: str) -> Device:
    """The device ``name`` stands for; parts it leaves out are filled in where only one value is possible.

    On a cluster without GPUs ``GPU:i`` is CPU device i, so that a script's list of GPUs runs on the CPU devices that
    stand in for them. Raises ClusterError when the name is no device string, or no device of the cluster.
    """
    parsed = parse_name(name)
    if parsed.task is None and cluster.worker_num > 1:
        raise ClusterError(
            f"{name!r} names no task, and the cluster has {cluster.worker_num} hosts",
            fix=f"write it like {cluster.devices[0].name!r}",
        )
    task = parsed.task or 0
    has_gpu = any(device.kind == "GPU" for device in cluster.devices)
    kind = parsed.kind if has_gpu else "CPU"
    if _job_fits(cluster, parsed) and task < cluster.worker_num:
        for device in cluster.hosts[task].devices:
            if (device.kind, device.index) == (kind, parsed.index):
                return device
    raise _no_such_device(cluster, name)


def _job_fits(cluster: Cluster, name: DeviceName) -> bool:
    jobs = _LOCAL_JOBS if cluster.is_local else (cluster.job,)
    return (name.job is None or name.job in jobs) and not name.replica


def _no_such_device(cluster: Cluster, name: str) -> ClusterError:
    names = [device.name for device in cluster.devices]
    fix = nearest(name, names) or f"its devices run from {names[0]!r} to {names[-1]!r}"
    return ClusterError(f"no device {name!r} in a cluster of {len(names)} devices", fix=fix)
