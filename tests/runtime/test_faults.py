"""A fault of Whale's own: told as one, with the script's line, while the training goes on."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from whale.cluster import Cluster
from whale.errors import Site, VerifyError
from whale.runtime.activation import activate
from whale.runtime.faults import told
from whale.runtime.options import Options
from whale.sharding import propagate


def train() -> list[float]:
    """Losses of three steps."""
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, 4])
        w = tf.get_variable("w", [4, 3], initializer=tf.ones_initializer())
        product = tf.matmul(x, w, name="product")
        loss = tf.reduce_mean(tf.square(product))
        step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        session.run(tf.global_variables_initializer())
        return [session.run([loss, step], {x: np.ones([8, 4])})[0] for _ in range(3)]


def test_a_fault_is_told_with_the_line_of_the_script(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(call: Any) -> Any:
        raise KeyError(call.op.type)

    expected = train()
    monkeypatch.setitem(propagate.RULES, "MatMul", broken)
    with activate(Options(cluster=Cluster.local(2), batch="global")) as activation:
        assert train() == expected
    (report,) = (report for report in activation.reports if report.trains)
    assert report.fault and not report.cut
    said = capsys.readouterr().err
    line = rf"KeyError: 'MatMul' \(test_faults.py:\d+\), met at MatMul 'product', from {re.escape(__file__)}:\d+\n"
    assert re.search(f"one replica: a fault of Whale, not of the script: {line}", said), said
    assert "please report this with what `whale doctor` says" in said


def test_a_fault_that_is_no_error_of_an_op_names_its_place_in_whale() -> None:
    try:
        raise VerifyError("two things are one", site=Site("script.py", 3))
    except VerifyError as fault:
        said = told(fault)
    assert re.search(r"VerifyError: two things are one \(test_faults.py:\d+\), from script.py:3$", said), said
