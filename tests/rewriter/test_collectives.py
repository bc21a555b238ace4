"""A run is refused before it is imported when it would reach part of a collective only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from whale.cluster import Cluster
from whale.errors import VerifyError
from whale.rewriter.collectives import check_collectives
from whale.rewriter.shadow import Shadow
from whale.runtime import preparation
from whale.runtime.activation import activate
from whale.runtime.options import Options

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

    def watch(shadow: Shadow, roots: list[str]) -> None:
        members = {node.name for node in shadow.pending if node.op.startswith("Collective")}
        if members:
            seen.append((members, roots))
            check_collectives(shadow, roots)
            with pytest.raises(VerifyError, match=r"reaches run_2/replica_0/.* but not run_2/replica_1/"):
                check_collectives(shadow, [root for root in roots if "replica_1" not in root])

    monkeypatch.setattr(preparation, "check_collectives", watch)
    with activate(Options(cluster=Cluster.local(2), quiet=True)) as activation:
        train()
    assert activation.reports[-1].cut
    ((members, roots),) = seen
    assert len(members) == 2
    assert any("replica_1" in root for root in roots)


def test_a_run_that_would_hang_is_not_cut_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def only_home(shadow: Shadow, roots: list[str]) -> None:
        check_collectives(shadow, [root for root in roots if "replica_1" not in root])

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
