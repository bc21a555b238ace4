"""When a device's copy of a variable counts as equal to home."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from whale.cluster import Cluster
from whale.config import Config
from whale.runtime.activation import activate
from whale.runtime.options import Options


def test_a_write_that_ends_while_the_variable_is_copied_is_copied_again(monkeypatch: pytest.MonkeyPatch) -> None:
    options = Options(cluster=Cluster.local(2), batch="global", config=Config({"check.mode": "off"}), quiet=True)
    with activate(options) as activation, tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, 64])
        w = tf.get_variable("w", [64, 64], initializer=tf.zeros_initializer())
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - 1.0))
        step = tf.train.GradientDescentOptimizer(0.0).minimize(loss)
        assign = w.assign(tf.ones([64, 64]))
        rows = np.full([8, 64], 1 / 64, np.float32)
        session.run(tf.global_variables_initializer())
        session.run(step, {x: rows})
        assert any(report.cut for report in activation.reports)
        session.run(assign)  # is planned
        session.run(tf.global_variables_initializer())
        binding = session.whale_binding
        copy = binding._run_targets

        def copy_while_another_thread_writes(targets: Sequence[Any]) -> None:
            copy(targets)
            writer = threading.Thread(target=session.run, args=(assign,))
            writer.start()
            writer.join(60)
            assert not writer.is_alive()

        monkeypatch.setattr(binding, "_run_targets", copy_while_another_thread_writes)
        session.run(step, {x: rows})
        monkeypatch.undo()
        assert session.run([loss, step], {x: rows})[0] == 0
