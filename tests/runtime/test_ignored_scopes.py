"""``--strategy replica``: copies on all devices, whatever the scopes say, those that cannot be executed included."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import whale as wh
from whale.cluster import Cluster
from whale.runtime.activation import activate
from whale.runtime.in_force import InForce
from whale.runtime.options import Options


def losses(devices: int, default: bool) -> list[float]:
    """The losses of three steps of a model whose last layer asks for ``split``."""
    options = Options(cluster=Cluster.local(devices), strategy="replica", batch="global", quiet=True)
    data = np.random.RandomState(3).rand(8, 4).astype(np.float32)
    with activate(options) as activation, tf.Graph().as_default():
        InForce.set(InForce(activation, options))
        tf.set_random_seed(1)
        x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.int64, [None])
        w = tf.get_variable("w", [4, 8], initializer=tf.glorot_uniform_initializer(seed=1))
        with wh.replica():
            hidden = tf.nn.relu(tf.matmul(x, w))
        if default:
            wh.set_default_strategy(wh.split())
        with contextlib.nullcontext() if default else wh.split():
            v = tf.get_variable("v", [8, 10], initializer=tf.glorot_uniform_initializer(seed=2))
            loss = tf.losses.sparse_softmax_cross_entropy(y, tf.matmul(hidden, v))
        train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            found = [float(session.run([train, loss], {x: data, y: np.arange(8)})[1]) for _ in range(3)]
        wh.shutdown()
    InForce.set(None)
    return found


@pytest.mark.parametrize("default", [False, True], ids=["scope", "default strategy"])
def test_a_split_is_ignored_and_the_script_trains(default: bool) -> None:
    np.testing.assert_allclose(losses(2, default), losses(1, default), rtol=1e-6)
