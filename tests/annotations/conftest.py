"""A script's surroundings: a fresh graph, and devices as ``whale run`` chooses them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import tensorflow.compat.v1 as tf

import whale as wh
from whale.cluster import Cluster
from whale.runtime.activation import activate
from whale.runtime.in_force import InForce
from whale.runtime.options import Options


@pytest.fixture
def graph() -> Iterator[tf.Graph]:
    """The default graph of one test, under an activation over four CPU devices."""
    options = Options(cluster=Cluster.local(4), quiet=True)
    with activate(options) as activation, tf.Graph().as_default() as graph:
        InForce.set(InForce(activation, options))
        yield graph
        wh.shutdown()
    InForce.set(None)
