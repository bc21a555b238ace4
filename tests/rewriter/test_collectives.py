"""A run is refused before it is imported when it would reach part of a collective only."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.core.framework import node_def_pb2

import whale
from whale.cluster import Cluster
from whale.config import Config
from whale.errors import Site, VerifyError
from whale.ir.program import Op
from whale.ir.waits import check_waits
from whale.rewriter import collectives
from whale.rewriter.collectives import check_collectives
from whale.rewriter.shadow import Origin, Shadow
from whale.runtime import preparation
from whale.runtime.activation import Activation, activate
from whale.runtime.options import Options
from whale.sharding.residence import _Residence

ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.fixture(autouse=True)
def graph() -> Any:
    """A fresh default graph."""
    with tf.Graph().as_default() as made:
        yield made


def train(steps: int = 1) -> float:
    """The loss before the last of some steps."""
    x = tf.placeholder(tf.float32, [None, 3])
    weights = tf.get_variable("w", [3, 1], initializer=tf.ones_initializer())
    loss = tf.reduce_mean(tf.square(tf.matmul(x, weights)))
    update = tf.train.GradientDescentOptimizer(0.001).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return [session.run([loss, update], {x: ROWS})[0] for _ in range(steps)][-1]


def test_each_run_with_collectives_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[set[str], list[str]]] = []

    def watch(shadow: Shadow, roots: list[str], ops: Any) -> None:
        members = {node.name for node in shadow.pending if node.op.startswith("Collective")}
        if members:
            seen.append((members, roots))
            check_collectives(shadow, roots, ops)
            with pytest.raises(VerifyError, match=r"reaches run_2/replica_0/.* but not run_2/replica_1/"):
                check_collectives(shadow, [root for root in roots if "replica_1" not in root], ops)

    monkeypatch.setattr(preparation, "check_collectives", watch)
    with activate(Options(cluster=Cluster.local(2), quiet=True)) as activation:
        train()
    assert activation.reports[-1].cut
    ((members, roots),) = seen
    assert len(members) == 2
    assert any("replica_1" in root for root in roots)


def test_a_run_that_would_hang_is_not_cut_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def only_home(shadow: Shadow, roots: list[str], ops: Any) -> None:
        check_collectives(shadow, [root for root in roots if "replica_1" not in root], ops)

    expected = train(3)
    monkeypatch.setattr(preparation, "check_collectives", only_home)
    with tf.Graph().as_default(), activate(Options(cluster=Cluster.local(2), quiet=True)) as activation:
        assert train(3) == pytest.approx(expected, rel=1e-6)
    report = activation.reports[-1]
    assert not report.cut and "VerifyError: collectives that would wait for ever" in report.reason


def test_keys_of_later_runs_are_found_where_other_constants_have_their_values() -> None:
    x = tf.placeholder(tf.float32, [None, 3])
    weights = [tf.get_variable(f"w{index}", [3, 4]) for index in range(6)]
    updates = [
        tf.train.GradientDescentOptimizer(0.001).minimize(tf.reduce_mean(tf.square(tf.matmul(x, w)))) for w in weights
    ]
    with activate(Options(cluster=Cluster.local(4), quiet=True)) as activation, tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for update in updates:
            session.run(update, {x: np.ones([8, 3])})
    assert {report.reason for report in activation.reports if report.trains} == {""}


def made_by_hand(*nodes: tuple[str, str, list[str]]) -> Shadow:
    """A shadow graph with a collective of two members, ``sum_0`` and ``sum_1``, and nodes around it."""
    shadow = Shadow()
    key = node_def_pb2.NodeDef(name="key", op="Const")
    key.attr["value"].tensor.int_val.append(7)
    shadow.add(key, Origin("", 0))
    for name, kind, inputs in nodes:
        node = node_def_pb2.NodeDef(name=name, op=kind, input=inputs)
        if kind.startswith("Collective"):
            node.device = f"/device:CPU:{name[-1]}"
        if kind == "Enter":
            node.attr["frame_name"].s = name.encode()
        if kind == "_HostSend":
            node.attr["tensor_name"].s = b"draw:input_0"
        shadow.add(node, Origin({"sum_0": "loss", "push": "cell"}.get(name, ""), 0))
    return shadow


OPS = {"loss": Op("loss", "Mean", (), (), (), {}, b"", site=Site("train.py", 9))}


def test_what_leads_through_a_stack_is_followed() -> None:
    shadow = made_by_hand(
        ("stack", "StackV2", []),
        ("enter", "Enter", ["stack:0"]),
        ("push", "StackPushV2", ["enter:0", "sum_1:0"]),
        ("enter_back", "Enter", ["stack:0"]),
        ("pop", "StackPopV2", ["enter_back:0"]),
        ("sum_0", "CollectiveReduceV2", ["pop:0", "size", "group", "key:0"]),
        ("sum_1", "CollectiveReduceV2", ["other:0", "size", "group", "key:0"]),
    )
    with pytest.raises(VerifyError, match="wait for themselves") as caught:
        check_collectives(shadow, ["sum_0", "sum_1"], OPS)
    assert "3 nodes wait for one another: Mean 'loss' at train.py:9, " in str(caught.value)


def test_what_leads_through_the_inputs_of_a_random_op_is_followed() -> None:
    shadow = made_by_hand(
        ("send", "_HostSend", ["sum_1:0"]),
        ("sum_0", "CollectiveReduceV2", ["draw:0", "size", "group", "key:0"]),
        ("sum_1", "CollectiveReduceV2", ["other:0", "size", "group", "key:0"]),
    )
    with pytest.raises(VerifyError, match="wait for themselves"):
        check_collectives(shadow, ["sum_0", "sum_1", "send"], OPS)


def train_through_a_loop(devices: int, config: Config, staged: bool = False) -> Activation:
    """Trains an RNN whose loss reads a mean over the batch that its gradients need inside of the loop."""
    with activate(Options(cluster=Cluster.local(devices), quiet=True, batch="global", config=config)) as activation:
        x, y = tf.placeholder(tf.float32, [None, 4, 5]), tf.placeholder(tf.float32, [None, 4, 40])
        scopes = [whale.stage(), whale.stage()] if staged else [contextlib.nullcontext()] * 2
        with contextlib.ExitStack() as around:
            if staged:
                around.enter_context(whale.replica())
                around.enter_context(whale.pipeline(num_micro_batch=2))
            with scopes[0]:
                hidden = x * tf.get_variable("scale", [5])
            with scopes[1]:
                states, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(40), hidden, dtype=tf.float32)
                loss = tf.reduce_mean(tf.square(states - tf.reduce_mean(y, 0)))
        update = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run([update, loss], {x: np.ones([8, 4, 5]), y: np.ones([8, 4, 40])})
    return activation


@pytest.mark.filterwarnings("ignore:.*GRUCell. is deprecated:UserWarning")
@pytest.mark.parametrize("micro_batches", [1, 2])
def test_a_plan_that_would_hang_in_a_loop_is_refused_in_the_scripts_words(
    micro_batches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Residence, "_feeding_reductions", lambda self: set())
    activation = train_through_a_loop(2, Config({"pipeline.num_micro_batch": micro_batches}))
    report = next(report for report in activation.reports if report.trains)
    assert not report.cut and "nodes that would wait for themselves" in report.reason
    assert f"at {__file__}:" in report.reason


@pytest.mark.filterwarnings("ignore:.*GRUCell. is deprecated:UserWarning")
def test_a_pipeline_is_proved_too(monkeypatch: pytest.MonkeyPatch) -> None:
    proved: list[list[list[str]]] = []

    def watch(reads: Any, groups: Any, loops: Any, shown: Any) -> None:
        proved.append(list(groups))
        check_waits(reads, groups, loops, shown)

    monkeypatch.setattr(collectives, "check_waits", watch)
    activation = train_through_a_loop(4, Config(), staged=True)
    assert next(report for report in activation.reports if report.trains).cut
    assert [len(members) for members in proved[0]] == [2] * len(proved[0])
    assert any("micro_batch_1" in name for members in proved[0] for name in members)
