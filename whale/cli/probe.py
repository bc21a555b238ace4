"""Run as a process by ``whale doctor``: prints one line of JSON about TensorFlow's devices and collectives."""

from __future__ import annotations

import json
import os

import tensorflow.compat.v1 as tf


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


def main() -> None:
    """Prints the report."""
    gpus = [device.name for device in tf.config.list_physical_devices("GPU")]
    report = {"cpus": os.cpu_count(), "gpus": gpus, "cuda": tf.test.is_built_with_cuda(), "sum": all_reduce()}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
