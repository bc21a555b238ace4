"""Run as a process by ``whale doctor``: prints a line of JSON about TensorFlow's devices, and Whale on two of them."""

from __future__ import annotations

import json
import os

import numpy as np
import tensorflow.compat.v1 as tf

from whale.cluster import Cluster
from whale.runtime.activation import activate
from whale.runtime.options import Options


def all_reduce() -> list[float]:
    """The sum of 1 and 2, all-reduced over two CPU devices, as each of them got it."""
    with tf.Graph().as_default() as graph:
        sums = []
        for index in range(2):
            with tf.device(f"/cpu:{index}"):
                sums.append(
                    tf.raw_ops.CollectiveReduceV2(
                        input=tf.constant(float(index + 1)),
                        group_size=2,
                        group_key=1,
                        instance_key=1,
                        ordering_token=[],
                        merge_op="Add",
                        final_op="Id",
                        communication_hint="ring",
                    )
                )
        config = tf.ConfigProto(device_count={"CPU": 2}, inter_op_parallelism_threads=4)
        config.experimental.collective_group_leader = "/job:localhost/replica:0/task:0"
        with tf.Session(graph=graph, config=config) as session:
            return [float(value) for value in session.run(sums)]


def trained() -> np.ndarray:
    """Weights after three steps of a small model."""
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        rows = tf.placeholder(tf.float32, [None, 4])
        weights = tf.get_variable("weights", [4, 2])
        loss = tf.reduce_mean(tf.square(tf.matmul(rows, weights) - 1.0))
        step = tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss)
        with tf.Session(config=tf.ConfigProto(device_count={"GPU": 0})) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(3):
                session.run(step, {rows: np.arange(28, dtype=np.float32).reshape(7, 4) / 28})
            return session.run(weights)


def difference() -> float | str:
    """The relative difference between training on two CPU devices and on one, or why it was not on two."""
    expected = trained()
    with activate(Options(cluster=Cluster.local(2), quiet=True)) as activation:
        actual = trained()
    reasons = [report.reason for report in activation.reports if report.trains and not report.cut]
    return reasons[0] if reasons else float(np.max(np.abs(actual - expected)) / np.max(np.abs(expected)))


def main() -> None:
    """Prints the report."""
    tf.disable_v2_behavior()
    gpus = [device.name for device in tf.config.list_physical_devices("GPU")]
    report = {"cpus": os.cpu_count(), "gpus": gpus, "cuda": tf.test.is_built_with_cuda(), "sum": all_reduce()}
    report["step"] = difference()
    print(json.dumps(report))


if __name__ == "__main__":
    main()
