"""Whale: trains a TensorFlow static-graph script written for one device on many.

Importing this package does not import TensorFlow; the first function called does, and says what is wrong with it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from whale.annotations.graph_keys import GraphKeys
from whale.annotations.strategies import Kind

# The package ``whale.cluster`` and the function ``cluster`` share a name. Importing a package sets it as an attribute
# of its parent, once: imported here, before the function below is bound, it cannot replace the function later.
# ``from whale.cluster import ...`` works as ever, for it does not look at the attribute.
from whale.cluster import Layout
from whale.config import Config, Env
from whale.errors import (
    CaptureError,
    ClusterError,
    ConfigError,
    ContribError,
    HangError,
    MissingNameError,
    PlanError,
    ScheduleError,
    ScopeError,
    SessionError,
    SetupError,
    VerifyError,
    WhaleError,
)

if TYPE_CHECKING:
    from whale.annotations.cluster_scope import ClusterScope
    from whale.annotations.scopes import StrategyScope
    from whale.annotations.strategies import DevicesArgument
    from whale.runtime.planning.explain import Explanation

__all__ = [
    "CaptureError",
    "ClusterError",
    "Config",
    "ConfigError",
    "ContribError",
    "Env",
    "GraphKeys",
    "HangError",
    "MissingNameError",
    "PlanError",
    "ScheduleError",
    "ScopeError",
    "SessionError",
    "SetupError",
    "VerifyError",
    "WhaleError",
    "add_to_collection",
    "auto_parallel",
    "cluster",
    "current_scope_as_default",
    "explain",
    "get_all_collections",
    "get_collection",
    "init",
    "pipeline",
    "replica",
    "replicate",
    "set_default_strategy",
    "shutdown",
    "split",
    "stage",
]


def init(config: Config | None = None) -> None:
    """Installs Whale in this process, for the sessions made from now on.

    A second call starts afresh: scopes, default strategy, layout and collections are forgotten. No call is needed
    before the other functions: the first of them initialises with defaults. ``shutdown`` undoes it.

    Args:
        config: values of configuration keys; environment variables complete it.

    Raises:
        SetupError: TensorFlow is absent, of a version Whale does not know, or in eager mode.
        ConfigError: a key or value is wrong.
        ClusterError: the environment names several processes, or devices that do not exist.
        ScopeError: a scope is open.
    """
    _calls().init(config)


def shutdown() -> None:
    """Undoes ``init``: TensorFlow is as it was before, and what the script said is forgotten."""
    _calls().shutdown()


def cluster(
    worker_hosts: str | Sequence[str] | None = None,
    ps_hosts: str | Sequence[str] | None = None,
    job_name: str = "worker",
    rank: int = 0,
    layout: Layout = "all",
) -> ClusterScope:
    """Hands the devices out by a layout, which is in force until another call, or within a ``with`` block.

    The result has ``slices`` (device strings by slice, replica and position), ``total_gpu_num`` and ``worker_num``.
    Scopes that name no devices take all devices of the layout.

    Args:
        worker_hosts: addresses of the worker processes; None: from ``TF_CONFIG``. This version runs in one.
        ps_hosts: addresses of further processes, which train as the workers do.
        job_name: the job of this process.
        rank: its index in that job.
        layout: ``"all"``, ``"auto"``, ``"aware_row"``, ``{"average": n}``, ``{"row": n}``, ``{"column": n}``,
            ``{"aware_row": n}`` or ``{"specific": [...]}``.

    Raises:
        ClusterError: a host, layout or device is wrong, a layout asks for more devices than there are, or the job has
            several processes.
    """
    return _calls().cluster(worker_hosts, ps_hosts, job_name, rank, layout)


def replica(devices: DevicesArgument = None, device_count: int | None = None, name: str | None = None) -> StrategyScope:
    """A scope whose ops are copied to every device, each copy with its share of the batch.

    Args:
        devices: device strings, or an entry of ``cluster().slices``; None: all of the cluster or its layout.
        device_count: devices that one copy of the model gives to this scope; must divide the devices there are.
        name: for messages and plans.

    Raises:
        ClusterError: the devices do not exist, or are fewer than asked for.
        ScopeError: on entering, when it stands inside another replica scope.
    """
    return _calls().scope(Kind.REPLICA, devices, device_count, name)


def replicate(device_count: int | None = None, name: str | None = None) -> StrategyScope:
    """EPL's name for ``replica``."""
    return _calls().scope(Kind.REPLICA, None, device_count, name)


def stage(devices: DevicesArgument = None, device_count: int | None = None, name: str | None = None) -> StrategyScope:
    """A scope whose ops are one part of a pipeline, on devices of their own; inside of ``pipeline``.

    Ops of no scope join a stage by data flow, and the plan says how many (docs/pipelines.md).

    Args:
        devices: an entry of ``cluster().slices``, or device strings by replica; None: devices are dealt to the stages.
        device_count: devices that one replica of the model gives to this stage, which take micro-batches in turn.
        name: for messages and plans.

    Raises:
        ClusterError: the devices do not exist, or are fewer than asked for.
        ScopeError: on entering, when it stands outside of a pipeline or inside another stage.
    """
    return _calls().scope(Kind.STAGE, devices, device_count, name)


def pipeline(num_micro_batch: int = 1, strategy: str | None = None) -> StrategyScope:
    """A scope around stages, which work on the micro-batches of a step one behind the other.

    With one stage or none it is gradient accumulation: the micro-batches run one after another on every device.

    Args:
        num_micro_batch: pieces that a replica's batch is cut into (global batches), or batches it draws (local ones).
        strategy: order of the micro-batches: ``"PreferBackward"`` (1F1B, the default), ``"PreferForward"`` (GPipe),
            ``"PreferBackwardOptimizer"`` or ``"Interleaved"``; None: ``pipeline.strategy`` of the configuration.

    Raises:
        ScopeError: an argument is wrong; on entering, when it stands inside another pipeline.
    """
    return _calls().scope(Kind.PIPELINE, num_micro_batches=num_micro_batch, schedule=strategy)


def split(devices: DevicesArgument = None, device_count: int | None = None, name: str | None = None) -> StrategyScope:
    """Operators cut over devices. Not available in this version: entering it raises ScopeError."""
    return _calls().scope(Kind.SPLIT, devices, device_count, name)


def current_scope_as_default() -> None:
    """Called inside a scope: ops made after it, outside of every scope, belong to it as well.

    Raises:
        ScopeError: no scope is open.
    """
    _calls().current_scope_as_default()


def set_default_strategy(strategy: StrategyScope) -> None:
    """Ops made from now on outside of every scope belong to this strategy, in graphs made later too.

    Raises:
        ScopeError: the argument is no scope.
    """
    _calls().set_default_strategy(strategy)


def auto_parallel(*strategies: object) -> None:
    """Leaves the strategy to Whale: one of those given (``wh.replica``), or any. No other call is needed.

    Raises:
        ScopeError: an argument is no strategy, or not available in this version.
    """
    _calls().auto_parallel(strategies, _STRATEGIES)


def add_to_collection(tensors: Any, key: str) -> None:
    """Says how the values that the copies hold of a tensor, or of each in a list, are merged when it is fetched.

    Args:
        tensors: a tensor or variable, or a list of them.
        key: one of ``GraphKeys``.

    Raises:
        ScopeError: the key or a tensor is wrong, or a tensor has another rule already.
    """
    _calls().add_to_collection(tensors, key)


def explain(session: Any) -> Explanation:
    """The plan of a session that trains: what runs where, what that is predicted to cost, and what a step takes.

    Args:
        session: a ``tf.Session``, MonitoredSession or the like, after its first training step.

    Returns:
        What ``print`` shows as `whale plan` does; ``report`` has it as data, ``html()`` as a page.

    Raises:
        SessionError: the session is not run by Whale on several devices, or has not trained yet.
        ClusterError: nothing is known of a device of the cluster.
    """
    return _calls().explain(session)


def get_collection(key: str) -> list[Any]:
    """The tensors of the default graph that were added under a key."""
    return _calls().get_collection(key)


def get_all_collections() -> list[list[Any]]:
    """The tensors of the default graph that were added, one list for each of ``GraphKeys``, in their order."""
    return _calls().get_all_collections()


_STRATEGIES = (
    (replica, Kind.REPLICA),
    (replicate, Kind.REPLICA),
    (stage, Kind.STAGE),
    (pipeline, Kind.PIPELINE),
    (split, Kind.SPLIT),
)


@functools.cache
def _calls():
    """The module behind the functions above. It imports TensorFlow, hence not before one of them is called.

    No annotation says what is returned: type checkers find the module, and so the types of its functions.
    """
    from whale.installed import require_tensorflow

    require_tensorflow()
    from whale.runtime import calls

    return calls
