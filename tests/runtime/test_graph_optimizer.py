"""How far TensorFlow's own optimizer goes: by what a step has on all devices, not by what the script has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf import rewriter_config_pb2

import whale
from whale.cluster import Cluster
from whale.runtime import graph_optimizer
from whale.runtime.activation import activate
from whale.runtime.options import Options

ONCE = rewriter_config_pb2.RewriterConfig.ONE


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Graphs of 20 ops stand for those of thousands."""
    monkeypatch.setattr(graph_optimizer, "MOST_TWICE", 50)
    monkeypatch.setattr(graph_optimizer, "MOST_NODES", 150)
    with tf.Graph().as_default():
        yield
    whale.shutdown()


def chosen(devices: int) -> str:
    """What a session of the default graph, with 20 ops, is told."""
    with activate(Options(cluster=Cluster.local(devices), quiet=True)), tf.Session() as session:
        rewriting = session._config.graph_options.rewrite_options
    if rewriting.disable_meta_optimizer:
        return "off"
    return "once" if rewriting.meta_optimizer_iterations == ONCE else "twice"


def ops(count: int) -> None:
    for _ in range(count):
        tf.no_op()


def test_every_device_has_a_copy() -> None:
    ops(20)
    assert [chosen(devices) for devices in (2, 3, 8)] == ["twice", "once", "off"]


def test_every_micro_batch_of_a_pipeline_has_a_copy() -> None:
    with whale.pipeline(num_micro_batch=4):
        with whale.stage():
            ops(10)
        with whale.stage():
            ops(10)
    assert chosen(2) == "once"  # one replica of 4 micro-batches
    assert chosen(4) == "off"  # two replicas


def test_micro_batches_that_go_through_a_loop_share_a_copy() -> None:
    with whale.pipeline(num_micro_batch=4), whale.stage():
        ops(20)
    assert chosen(2) == "twice"
