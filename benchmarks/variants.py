"""One training step on two CPU devices, done in each of the ways that are compared; run as a worker process.

``one``        plain TensorFlow on one device
``whale``      the same script under Whale
``towers``     what an expert writes by hand: a tower per device, gradients all-reduced in buckets by TF's collectives
``mirrored``   tf.distribute.MirroredStrategy in graph mode
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf
from tensorflow.python.ops import collective_ops

from benchmarks import measure, models, traffic, workers
from benchmarks.data_parallel import DEVICES

GROUP_KEY = 1
BUCKET_BYTES = 4 << 20


class Prepared:
    """A variant with its session: steps and counts."""

    def __init__(self, session: tf.Session, train: Sequence[tf.Operation], losses: Sequence[tf.Tensor]) -> None:
        """``losses`` are each device's part of the loss; ``train`` is run for its effect."""
        self._session = session
        self._fetches = [*train, *losses]
        self._losses = len(losses)

    def step(self) -> float:
        """Run one step; the loss is the sum of what the parts of the batch contribute."""
        return math.fsum(float(loss) for loss in self._session.run(self._fetches)[-self._losses :])

    def facts(self) -> dict[str, Any]:
        """Traffic of one step, peak memory of the process until now, and bytes of all trained variables."""
        peak_bytes = measure.peak_rss_bytes()
        metadata = tf.RunMetadata()
        self._session.run(self._fetches, options=traffic.trace_options(), run_metadata=metadata)
        counts = traffic.count(metadata)
        trained = self._session.graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES)
        parameter_bytes = sum(v.shape.num_elements() * v.dtype.base_dtype.size for v in trained)
        return {
            **dataclasses.asdict(counts),
            "moved_bytes": counts.moved_bytes,
            "peak_bytes": peak_bytes,
            "parameter_bytes": parameter_bytes,
        }


def session_config() -> tf.ConfigProto:
    """The same devices and threads for all: collectives need a thread for each member that waits."""
    return tf.ConfigProto(device_count={"CPU": DEVICES}, inter_op_parallelism_threads=2 * DEVICES)


def user_script(model: models.Model) -> Prepared:
    """What a user writes for one device; Whale sees exactly this."""
    inputs, labels = tf.data.make_one_shot_iterator(models.dataset(model, model.batch_size)).get_next()
    with tf.variable_scope("tower_0"):
        loss = tf.reduce_mean(model.losses(inputs, labels))
    train = tf.train.GradientDescentOptimizer(model.learning_rate).minimize(loss)
    session = tf.Session(config=session_config())
    session.run(tf.global_variables_initializer())
    return Prepared(session, [train], [loss])


def one(model: models.Model) -> Prepared:
    """Plain TensorFlow; the second device stays idle."""
    return user_script(model)


def whale(model: models.Model) -> Prepared:
    """The user's script under Whale: the global batch is cut over the devices."""
    from whale.cluster import Cluster
    from whale.runtime import activation, options

    # Never left: the session stays bound for as long as the worker lives.
    stack = contextlib.ExitStack()
    stack.enter_context(activation.activate(options.Options(cluster=Cluster.local(DEVICES), batch="global")))
    return user_script(model)


def buckets(gradients: Sequence[tf.Tensor]) -> list[list[int]]:
    """Indices of gradients to reduce together, in backward order; a gradient of bucket size goes alone, uncopied."""
    result: list[list[int]] = []
    room = 0
    for index in reversed(range(len(gradients))):
        size = gradients[index].shape.num_elements() * gradients[index].dtype.size
        if size >= BUCKET_BYTES:
            result.insert(0, [index])
        elif size <= room:
            result[-1].append(index)
            room -= size
        else:
            result.append([index])
            room = BUCKET_BYTES - size
    return result


def all_reduced(gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """This tower's gradients, each summed over the towers."""
    reduced: list[tf.Tensor] = list(gradients)
    for key, members in enumerate(buckets(gradients)):
        flat = [tf.reshape(gradients[index], [-1]) for index in members]
        total = collective_ops.all_reduce_v2(
            flat[0] if len(flat) == 1 else tf.concat(flat, axis=0),
            group_size=DEVICES,
            group_key=GROUP_KEY,
            instance_key=key,
            merge_op="Add",
            final_op="Id",
            communication_hint="ring",
        )
        pieces = [total] if len(flat) == 1 else tf.split(total, [int(piece.shape[0]) for piece in flat])
        for index, piece in zip(members, pieces):
            reduced[index] = tf.reshape(piece, gradients[index].shape)
    return reduced


def towers(model: models.Model) -> Prepared:
    """A tower per device with variables of its own, which start equal and stay equal."""
    with tf.device("/cpu:0"):
        inputs, labels = tf.data.make_one_shot_iterator(models.dataset(model, model.batch_size)).get_next()
        parts = list(zip(tf.split(inputs, DEVICES), tf.split(labels, DEVICES)))
    updates: list[tf.Operation] = []
    losses: list[tf.Tensor] = []
    for index, (tower_inputs, tower_labels) in enumerate(parts):
        with tf.device(f"/cpu:{index}"), tf.variable_scope(f"tower_{index}"):
            loss = tf.reduce_sum(model.losses(tower_inputs, tower_labels)) / model.batch_size
            variables = tf.trainable_variables(f"tower_{index}/")
            gradients = all_reduced(tf.gradients(loss, variables))
            optimizer = tf.train.GradientDescentOptimizer(model.learning_rate)
            updates.append(optimizer.apply_gradients(list(zip(gradients, variables))))
            losses.append(loss)
    session = tf.Session(config=session_config())
    session.run(tf.global_variables_initializer())
    return Prepared(session, updates, losses)


def mirrored(model: models.Model) -> Prepared:
    """MirroredStrategy over two logical CPU devices; each draws its part from a distributed dataset."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * DEVICES)
    strategy = tf.distribute.MirroredStrategy([f"/cpu:{index}" for index in range(DEVICES)])

    def replica_step(inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.variable_scope("tower_0"):
            loss = tf.reduce_sum(model.losses(inputs, labels)) / model.batch_size
        optimizer = tf.train.GradientDescentOptimizer(model.learning_rate)
        with tf.control_dependencies([optimizer.minimize(loss)]):
            return tf.identity(loss)

    with strategy.scope():
        distributed = strategy.experimental_distribute_dataset(models.dataset(model, model.batch_size))
        iterator = tf.data.make_initializable_iterator(distributed)
        losses = strategy.experimental_local_results(strategy.run(replica_step, args=iterator.get_next()))
        session = tf.Session(config=session_config())
        session.run([iterator.initializer, tf.global_variables_initializer()])
    return Prepared(session, [], losses)


VARIANTS = {"one": one, "whale": whale, "towers": towers, "mirrored": mirrored}


def main() -> None:
    """Serve the variant and model named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("variant", choices=VARIANTS)
    parser.add_argument("model", choices=models.MODELS)
    args = parser.parse_args()
    tf.disable_v2_behavior()
    workers.serve(lambda: VARIANTS[args.variant](models.MODELS[args.model]))


if __name__ == "__main__":
    main()
