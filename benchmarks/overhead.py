"""What Whale adds to one ``session.run`` on one device, where the graph it runs is op for op the user's.

Two sessions over equal graphs, one of them Whale's, take turns in one process, a block of small steps at a time. A
second plain session takes part too: its difference from the first is what the machine's noise alone looks like.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

from benchmarks import measure

STEPS = 1000
GOAL_MICROSECONDS = 30.0


def block() -> Callable[[], float]:
    """A session over a perceptron of 16 units, ready to run; calling it runs a block of steps.

    A block's value is the median of its steps in microseconds: in a mean, the few steps in which the process is not
    scheduled would outweigh all others.
    """
    import tensorflow.compat.v1 as tf

    with tf.Graph().as_default():
        inputs = tf.placeholder(tf.float32, [None, 8])
        kernel = tf.get_variable("kernel", [8, 16])
        readout = tf.get_variable("readout", [16, 1])
        loss = tf.reduce_mean(tf.square(tf.matmul(tf.tanh(tf.matmul(inputs, kernel)), readout) - 1.0))
        train = tf.train.GradientDescentOptimizer(1e-4).minimize(loss)
        session = tf.Session(config=tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1))
        session.run(tf.global_variables_initializer())
    feed = {inputs: np.ones([8, 8], dtype=np.float32)}
    fetches = [train, loss]

    def run() -> float:
        seconds: list[float] = []
        for _ in range(STEPS):
            start = time.perf_counter()
            session.run(fetches, feed)
            seconds.append(time.perf_counter() - start)
        return statistics.median(seconds) * 1e6

    return run


def rows(rounds: int, with_whale: bool = True) -> list[measure.Row]:
    """The overhead in microseconds a step, and the noise beside it.

    The plain sessions are made before Whale is active, so that it leaves them alone.
    """
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    blocks = {"plain": block(), "plain again": block()}
    if with_whale:
        from whale.cluster import Cluster
        from whale.runtime import activation, options

        with activation.activate(options.Options(cluster=Cluster.local(1), batch="global")):
            blocks["whale"] = block()
            samples = measure.alternate(blocks, rounds)
    else:
        samples = measure.alternate(blocks, rounds)

    plain = samples["plain"]
    noise = measure.differences(samples["plain again"], plain)
    result = [
        measure.Row("overhead", "plain", "us per run", measure.spread(plain)),
        measure.Row("overhead", "plain again", "us per run beyond plain", noise, note="noise of the machine"),
    ]
    if with_whale:
        overhead = measure.differences(samples["whale"], plain)
        result.append(measure.Row("overhead", "whale", "us per run beyond plain", overhead, goal=GOAL_MICROSECONDS))
    return result
