"""``import epl``: what EPL's scripts read is there, and what is internal to EPL says what there is."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import pytest
import tensorflow.compat.v1 as tf

import whale
from whale.cluster import Cluster
from whale.runtime.activation import activate
from whale.runtime.in_force import InForce
from whale.runtime.options import Options

DEVICES = ["/device:CPU:0", "/device:CPU:1"]


@pytest.fixture(autouse=True)
def two_devices() -> Iterator[None]:
    """The default graph under an activation over two CPU devices."""
    options = Options(cluster=Cluster.local(2), quiet=True)
    with activate(options) as activation, tf.Graph().as_default():
        InForce.set(InForce(activation, options))
        yield
        whale.shutdown()
    InForce.set(None)


def test_every_public_name_of_whale_is_one_of_epl() -> None:
    import epl

    assert all(getattr(epl, name) is getattr(whale, name) for name in whale.__all__)
    assert epl.VERSION == "1.0.0"


def test_the_modules_that_define_names_hide_none() -> None:
    import epl
    from epl.cluster import Cluster as EplCluster
    from epl.config import Config
    from epl.env import Env
    from epl.ir.graph import Graph
    from epl.strategies.replicate import replicate
    from epl.strategies.split import split

    assert (EplCluster, Graph) == (epl.Cluster, epl.Graph)
    assert (Config, Env, replicate, split) == (whale.Config, whale.Env, whale.replicate, whale.split)
    assert (epl.replicate, epl.split, epl.env.Env) == (whale.replicate, whale.split, whale.Env)


def test_what_scripts_read_of_the_environment() -> None:
    import epl

    epl.init()
    cluster = epl.Env.get().cluster
    assert (cluster.worker_num, cluster.worker_index) == (1, 0)
    assert (cluster.gpu_num_per_worker, cluster.total_gpu_num) == (2, 2)
    assert cluster.available_devices == DEVICES
    assert epl.Env.get().parallel_information == {} == epl.Graph.get().parallel_information


def test_virtual_devices_are_those_of_the_layout_in_force() -> None:
    import epl

    epl.init()
    facts = epl.Env.get().cluster
    assert [virtual.all_devices for virtual in facts.virtual_devices] == [tuple(DEVICES)]
    with epl.Cluster(layout={"average": 1}) as cluster:
        assert [virtual.local_devices for virtual in facts.virtual_devices] == [(name,) for name in DEVICES]
        assert facts.slices == cluster.slices == [[[name]] for name in DEVICES]
        assert facts.virtual_devices[1].get_device(0, 0) == DEVICES[1]
    assert len(facts.virtual_devices) == 1
    assert epl.Cluster(layout=None).slices == [[[name] for name in DEVICES]]


def test_a_default_strategy_may_be_set_on_the_graph() -> None:
    import epl

    epl.Graph.get(may_create=True).set_default_strategy(epl.replicate(1))
    w = tf.get_variable("w", [])
    assert w.op.graph is tf.get_default_graph()


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ("epl.Env.get().strategy_context", "Env.get\\(\\) has no attribute 'strategy_context'"),
        (
            "epl.Env.get().cluster.gpu_num",
            "the cluster has no attribute 'gpu_num' in Whale\n.*\n.*'total_gpu_num",
        ),
        ("epl.Graph.get().taskgraphs", "epl.Graph has no attribute 'taskgraphs'.*\n.*\n.*whale.explain"),
        ("epl.replicat", "epl has no attribute 'replicat' in Whale\n.*\n.*did you mean 'replicate'"),
    ],
)
def test_what_is_missing_is_an_attribute_error_that_says_what_there_is(attribute: str, message: str) -> None:
    import epl

    epl.init()
    with pytest.raises(whale.MissingNameError, match=message) as raised:
        eval(attribute, {"epl": epl})
    assert isinstance(raised.value, AttributeError)


@pytest.mark.parametrize("module", ["epl.parallel.graph_editor", "epl.utils.constant", "epl.runtime.amp.auto_amp"])
def test_an_internal_module_says_so(module: str) -> None:
    with pytest.raises(ModuleNotFoundError, match="internal module of EPL"):
        importlib.import_module(module)
