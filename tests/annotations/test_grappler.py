"""Costs by Whale's rules beside those of TensorFlow's own analytical estimator: a second opinion."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf import device_properties_pb2
from tensorflow.python.grappler import cluster as grappler_cluster
from tensorflow.python.grappler import item as grappler_item

from tests.annotations.graphs import new_graph
from whale.annotations.capture import capture
from whale.ir.costs import program_costs

GIGAHERTZ = 1.0


def estimated(graph: tf.Graph, fetch: tf.Tensor) -> dict[str, tuple[float, float]]:
    """Time of computing and of memory by op, in one unit, on a machine of 1 GHz and one core."""
    meta_graph = tf.train.export_meta_graph(graph=graph)
    meta_graph.collection_def["train_op"].node_list.value.append(fetch.name)
    machine = device_properties_pb2.NamedDevice(
        name="/job:localhost/replica:0/task:0/device:CPU:0",
        properties=device_properties_pb2.DeviceProperties(
            type="CPU", frequency=int(GIGAHERTZ * 1000), num_cores=1, bandwidth=1_000_000
        ),
    )
    cluster = grappler_cluster.Cluster(devices=[machine])
    costs, _, _ = cluster.MeasureCosts(grappler_item.Item(meta_graph))
    return {cost.node: (float(cost.compute_time), float(cost.memory_time)) for cost in costs}


def test_flops_agree_up_to_one_factor_with_the_estimator_of_tensorflow() -> None:
    with new_graph() as graph:
        images = tf.placeholder(tf.float32, [4, 16, 16, 8])
        kernel = tf.placeholder(tf.float32, [3, 3, 8, 32])
        conv = tf.nn.conv2d(images, kernel, padding="SAME", name="conv")
        flat = tf.reshape(conv, [4, 16 * 16 * 32])
        product = tf.matmul(flat, tf.placeholder(tf.float32, [16 * 16 * 32, 64]), name="product")
        batched = tf.matmul(tf.reshape(product, [4, 8, 8]), tf.placeholder(tf.float32, [4, 8, 500]), name="batched")
        loss = tf.reduce_sum(batched)
        fetch = tf.add_n([loss, *(tf.reduce_sum(gradient) for gradient in tf.gradients(loss, [kernel, images]))])
        ours = program_costs(capture(graph))
        theirs = estimated(graph, fetch)
    names = ["conv", "product", "batched"]
    names += [op.name for op in graph.get_operations() if op.type.startswith("Conv2DBackprop")]
    assert len(names) == 5
    rates = {}
    for name in names:
        compute, _ = theirs[name]
        flops = ours[name].flops
        assert isinstance(flops, int)
        rates[name] = flops / compute
    # The machine has one rate, so FLOPs over time must be one number, but for rounding of the times.
    reference = rates["conv"]
    assert all(rate == pytest.approx(reference, rel=0.02) for rate in rates.values()), rates
