"""``whale.init`` and its undoing."""

from __future__ import annotations

import os

import tensorflow.compat.v1 as tf

from whale.annotations.cluster_scope import ClusterFace
from whale.annotations.state import open_here, script, start_afresh
from whale.cluster import Workers, from_tf_config
from whale.config import Config, Env, from_environment
from whale.config.setting import script_site
from whale.errors import ClusterError, ConfigError, ScopeError, SetupError
from whale.runtime.activation import activate
from whale.runtime.in_force import InForce
from whale.runtime.machine import gpu_descriptions, this_machine
from whale.runtime.options import Options


def init(config: Config | None = None) -> None:
    """Makes the script an annotated one, under a configuration, and forgets what it said before.

    Sessions made from now on are bound to all GPUs of this machine, or to the devices that ``whale run`` chose.

    Raises:
        SetupError: TensorFlow runs eagerly.
        ConfigError: the argument is no ``Config``, or an environment variable is wrong.
        ClusterError: ``TF_CONFIG`` names several processes, or ``cluster.run_visible_devices`` a device there is not.
        ScopeError: a scope is open.
    """
    check_graph_mode()
    _check_no_scope_is_open()
    chosen = _configuration(config)
    check_alone(from_tf_config(os.environ.get("TF_CONFIG", "")))
    current = InForce.get()
    base = current.base if current is not None else Options(cluster=this_machine(gpu_descriptions()))
    options = _under(base, chosen)
    if current is None:
        InForce.set(InForce(activate(options), base, by_script=True))
    else:
        current.activation.options = options
    Env.set(Env(ClusterFace(options.cluster), chosen))
    said = start_afresh()
    said.is_annotated = True
    if chosen.auto.auto_parallel:
        said.auto = ()


def shutdown() -> None:
    """Undoes ``init``: the script is one without annotations again, and TensorFlow as it was before.

    Sessions already made stay bound. Under ``whale run`` later ones are bound as well, as the command line says.
    """
    start_afresh()
    Env.set(None)
    current = InForce.get()
    if current is None:
        return
    if current.by_script:
        InForce.set(None)
        current.activation.close()
    else:
        current.activation.options = _under(current.base, current.base.config)


def initialised() -> Options:
    """The options in force; the first call of any function of Whale initialises with defaults.

    Raises:
        SetupError: TensorFlow runs eagerly.
    """
    check_graph_mode()
    current = InForce.get()
    if current is None or not script().is_annotated:
        init()
        current = InForce.get()
    assert current is not None
    return current.activation.options


def check_graph_mode() -> None:
    """Raises SetupError when ops would be executed at once instead of being added to a graph."""
    if tf.executing_eagerly():
        raise SetupError(
            "TensorFlow runs in eager mode, and Whale works on static graphs",
            site=script_site(),
            fix="call tf.compat.v1.disable_v2_behavior() right after importing TensorFlow, or start the script with "
            "`whale run`, which does",
        )


def check_alone(workers: Workers | None) -> None:
    """Raises ClusterError for a job of several processes."""
    if workers is not None and len(workers.addresses) > 1:
        raise ClusterError(
            f"the job has {len(workers.addresses)} processes, and this version of Whale trains in one",
            site=script_site(),
            fix="start one process that sees all the devices, and name one worker or unset TF_CONFIG",
        )


def _configuration(config: object) -> Config:
    """The script's configuration, which the environment completes; the object itself, since scripts keep it."""
    chosen = Config() if config is None else config
    if not isinstance(chosen, Config):
        raise ConfigError(
            f"init() takes a Config, not {chosen!r}", site=script_site(), fix="write whale.init(whale.Config({...}))"
        )
    chosen.fall_back_on(from_environment(os.environ))
    return chosen


def _check_no_scope_is_open() -> None:
    found = open_here(tf.get_default_graph())
    if found:
        raise ScopeError(
            f"init() is called inside the scope {found[0].strategy}, opened at {found[0].site}",
            site=script_site(),
            fix="call it once, before the first scope",
        )


def _under(base: Options, config: Config) -> Options:
    try:
        return base.under(config)
    except ClusterError as error:
        raise ClusterError(error.what, site=script_site(), fix=error.fix) from None
