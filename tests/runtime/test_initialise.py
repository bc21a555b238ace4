"""``init``, ``shutdown`` and ``cluster``: what is put in force, and by whom."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import tensorflow.compat.v1 as tf

import whale as wh
from whale import _tf
from whale.annotations.state import annotations_of
from whale.cluster import Cluster
from whale.runtime import initialise
from whale.runtime.activation import Activation, activate
from whale.runtime.in_force import InForce
from whale.runtime.options import Options

TWO_WORKERS = json.dumps({"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}})


@pytest.fixture
def graph() -> Iterator[tf.Graph]:
    """A process in which Whale is not active, with a fresh default graph."""
    InForce.set(None)
    with tf.Graph().as_default() as graph:
        yield graph
        wh.shutdown()


@pytest.fixture
def launched(graph: tf.Graph) -> Iterator[Activation]:
    """A process started by ``whale run --devices 4 --batch global``."""
    options = Options(cluster=Cluster.local(4), batch="global", quiet=True)
    with activate(options) as activation:
        InForce.set(InForce(activation, options))
        yield activation
    InForce.set(None)


def test_init_activates_and_shutdown_undoes_it(graph: tf.Graph) -> None:
    plain = _tf.BaseSession.__init__
    assert annotations_of(graph) is None
    wh.init()
    assert _tf.BaseSession.__init__ is not plain
    assert annotations_of(graph) is not None
    assert wh.Env.get().cluster.total_gpu_num == 1
    wh.shutdown()
    assert _tf.BaseSession.__init__ is plain
    assert annotations_of(graph) is None and InForce.get() is None
    with pytest.raises(wh.SetupError, match="before Whale was initialised"):
        wh.Env.get()
    wh.shutdown()


def test_init_again_starts_afresh(graph: tf.Graph) -> None:
    wh.init()
    current = InForce.get()
    with wh.replica():
        wh.current_scope_as_default()
        old = tf.constant(1.0)
        wh.add_to_collection(old, wh.GraphKeys.GLOBAL_SUM_OBJECTS)
    wh.set_default_strategy(wh.replica())
    wh.auto_parallel()
    wh.cluster()
    wh.init()
    said = annotations_of(graph)
    assert said is not None
    assert (said.scopes, said.default, said.collections, said.auto, said.layout) == ((), None, {}, None, ())
    assert "_whale_scope" not in tf.constant(1.0).op.node_def.attr
    with wh.replica():
        new = tf.constant(1.0)
    said = annotations_of(graph)
    assert said is not None and said.scope_of(old.op.get_attr("_whale_scope")) is None
    assert said.scope_of(new.op.get_attr("_whale_scope")) is said.scopes[0]
    after = InForce.get()
    assert current is not None and after is not None and after.activation is current.activation


@pytest.mark.parametrize(
    "call",
    [
        lambda: wh.replica(),
        lambda: wh.replicate(1),
        lambda: wh.cluster(),
        lambda: wh.auto_parallel(wh.replica),
        lambda: wh.set_default_strategy(wh.replica()),
        lambda: wh.add_to_collection(tf.constant(1.0), wh.GraphKeys.GLOBAL_MEAN_OBJECTS),
        lambda: wh.get_collection(wh.GraphKeys.GLOBAL_MEAN_OBJECTS),
    ],
)
def test_any_first_call_initialises(graph: tf.Graph, call: Any) -> None:
    call()
    assert InForce.get() is not None
    assert annotations_of(graph) is not None
    assert wh.Env.get().cluster.worker_num == 1


def test_the_devices_whale_run_chose_stay(launched: Activation, graph: tf.Graph) -> None:
    patched = _tf.BaseSession.__init__
    assert annotations_of(graph) is None
    config = wh.Config({"batch.mode": "local"})
    wh.init(config)
    assert _tf.BaseSession.__init__ is patched
    assert launched.options.cluster == Cluster.local(4)
    assert launched.options.config is config and launched.options.batch == "global"
    assert wh.Env.get().cluster.total_gpu_num == 4 and wh.Env.get().config is config
    assert annotations_of(graph) is not None
    wh.shutdown()
    assert _tf.BaseSession.__init__ is patched
    assert launched.options.config is not config


def test_the_environment_completes_the_configuration(graph: tf.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHALE_BATCH_MODE", "local")
    monkeypatch.setenv("EPL_COMMUNICATION_MAX_SPLITS", "3")
    wh.init(wh.Config({"batch.mode": "global"}))
    config = wh.Env.get().config
    assert (config.batch.mode, config.communication.max_splits) == ("global", 3)


def test_visible_devices_are_counted_anew_from_what_was_launched(launched: Activation) -> None:
    for visible, count in (("1,3", 2), ("0", 1), ("", 4)):
        wh.init(wh.Config({"cluster.run_visible_devices": visible}))
        assert wh.Env.get().cluster.total_gpu_num == len(launched.options.cluster.devices) == count
    with pytest.raises(wh.ClusterError, match="no device 7 among 4") as caught:
        wh.init(wh.Config({"cluster.run_visible_devices": "7"}))
    assert caught.value.site is not None and caught.value.site.path == __file__


def test_auto_parallel_by_configuration(graph: tf.Graph) -> None:
    wh.init(wh.Config({"auto.auto_parallel": True}))
    said = annotations_of(graph)
    assert said is not None and said.auto == ()


def test_eager_mode_is_refused(graph: tf.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(initialise.tf, "executing_eagerly", lambda: True)
    for call in (wh.init, wh.replica, wh.auto_parallel):
        with pytest.raises(wh.SetupError, match="eager mode") as caught:
            call()
        assert "disable_v2_behavior" in caught.value.fix
        assert caught.value.site is not None and caught.value.site.path == __file__
    assert InForce.get() is None


def test_init_takes_a_config_only(graph: tf.Graph) -> None:
    wrong: Any = {"batch.mode": "local"}
    with pytest.raises(wh.ConfigError, match=r"init\(\) takes a Config"):
        wh.init(wrong)


def test_init_inside_a_scope(graph: tf.Graph) -> None:
    with wh.replica(), pytest.raises(wh.ScopeError, match=r"init\(\) is called inside the scope replica"):
        tf.constant(1.0)
        wh.init()


def test_several_processes_are_refused(graph: tf.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(wh.ClusterError, match="the job has 3 processes"):
        wh.cluster(worker_hosts="a:1,b:1", ps_hosts=["c:1"])
    wh.cluster(worker_hosts=["a:1"])
    monkeypatch.setenv("TF_CONFIG", TWO_WORKERS)
    wh.cluster(worker_hosts=["a:1"])
    for call in (wh.init, wh.cluster):
        with pytest.raises(wh.ClusterError, match="the job has 2 processes") as caught:
            call()
        assert caught.value.site is not None and caught.value.site.path == __file__


def test_a_rejected_init_leaves_nothing_behind(graph: tf.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = _tf.BaseSession.__init__
    monkeypatch.setenv("TF_CONFIG", TWO_WORKERS)
    with pytest.raises(wh.ClusterError):
        wh.init()
    assert _tf.BaseSession.__init__ is plain and annotations_of(graph) is None


# -- cluster ---------------------------------------------------------------------------------------------------


def test_a_layout_holds_within_its_block(launched: Activation, graph: tf.Graph) -> None:
    with wh.cluster(layout={"specific": [[["gpu:3"], ["gpu:1"]]]}) as layout:
        assert (layout.slices, layout.total_gpu_num, layout.worker_num) == (
            [[["/device:CPU:3"], ["/device:CPU:1"]]],
            4,
            1,
        )
        with wh.replica():
            tf.constant(1.0)
    said = annotations_of(graph)
    assert said is not None and said.devices == ("/device:CPU:3", "/device:CPU:1")
    with tf.Graph().as_default() as other:
        said = annotations_of(other)
        assert said is not None and said.devices == ()


def test_a_layout_without_a_block_holds_from_then_on(launched: Activation, graph: tf.Graph) -> None:
    wh.cluster(layout={"specific": [[["gpu:0"], ["gpu:1"]]]})
    wh.auto_parallel(wh.replica)
    said = annotations_of(tf.Graph())
    assert said is not None and said.devices == ("/device:CPU:0", "/device:CPU:1")


def test_a_layout_is_known_to_its_graph_after_the_block(launched: Activation, graph: tf.Graph) -> None:
    wh.auto_parallel(wh.replica)
    with wh.cluster(layout={"specific": [[["gpu:2"]]]}):
        tf.constant(1.0)
    said = annotations_of(graph)
    assert said is not None and said.devices == ("/device:CPU:2",)


def test_a_replica_over_several_slices_takes_them_all(launched: Activation, graph: tf.Graph) -> None:
    with wh.cluster(layout={"row": 2}), wh.replica():
        tf.constant(1.0)
    said = annotations_of(graph)
    assert said is not None and len(said.devices) == 4


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ({"average": 8}, "asks for 8 devices per slice, and the cluster has 4"),
        ({"row": 3}, "3 devices per slice do not divide 4 devices"),
        ({"specific": [[["gpu:9"]]]}, "no device 'gpu:9'"),
        ("rows", "unknown layout 'rows'"),
    ],
)
def test_a_wrong_layout_is_told_with_the_line(launched: Activation, layout: Any, message: str) -> None:
    with pytest.raises(wh.ClusterError, match=message) as caught:
        wh.cluster(layout=layout)
    assert caught.value.site is not None and caught.value.site.path == __file__
