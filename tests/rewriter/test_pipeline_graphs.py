"""What runs where, and what crosses devices, in a step of a pipeline: the graphs that TensorFlow partitioned."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import whale as wh
from whale.cluster import Cluster
from whale.runtime.activation import activate
from whale.runtime.options import Options

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

WIDTHS = (8, 16, 16, 4)
"""Of the batch and of what the three stages make of it."""

BATCH, MICRO_BATCHES = 7, 2

CROSSING = re.compile(r"^(?:_arg_)?run_\d+/(.*?)(?:_\d+_\d+)?$")
"""A node of a run: its name less what names the run and the place of a fed tensor among the arguments."""

SMALL = re.compile(r"feed/batch_|/whale/(sub|floordiv|pack|sum|addv2)|learning_rate$|/ctrl/")
"""Sizes, scalars of the loss and of the optimizer, and the ends of updates that a target waits for."""


class Step:
    """One step of a dense network of three stages.

    ``out0`` and ``out1`` are what stages 0 and 1 hand on. With ``tied``, the last stage multiplies by the first one's
    kernel as well.
    """

    def __init__(self, tf: Any, replicas: int, tied: bool = False) -> None:
        options = Options(Cluster.local(3 * replicas), quiet=True)
        with activate(options) as activation, tf.Graph().as_default():
            wh.init(wh.Config({"batch.mode": "global", "check.mode": "off"}))
            x, y, loss = self._model(tf, replicas, tied)
            train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
            # Without grappler the partitions hold the nodes as they were lowered.
            config = tf.ConfigProto()
            config.graph_options.rewrite_options.disable_meta_optimizer = True
            draw = np.random.RandomState(0)
            feeds = {x: draw.randn(BATCH, WIDTHS[0]), y: draw.randint(0, WIDTHS[-1], BATCH)}
            metadata = tf.RunMetadata()
            with tf.Session(config=config) as session:
                session.run(tf.global_variables_initializer())
                session.run([loss, train], feeds)
                session.run([loss, train], feeds, tf.RunOptions(output_partition_graphs=True), metadata)
            wh.shutdown()
        self.replicas = replicas
        self.report = next(report for report in activation.reports if report.trains and report.cut)
        self.nodes = {int(graph.node[0].device[-1]): list(graph.node) for graph in metadata.partition_graphs}
        assert all(len({node.device for node in nodes}) == 1 for nodes in self.nodes.values())

    @staticmethod
    def _model(tf: Any, replicas: int, tied: bool) -> tuple[Any, Any, Any]:
        x = tf.placeholder(tf.float32, [None, WIDTHS[0]], name="x")
        y = tf.placeholder(tf.int32, [None], name="y")
        around = wh.replica() if replicas > 1 else contextlib.nullcontext()
        with around, wh.pipeline(num_micro_batch=MICRO_BATCHES):
            value, kernels = x, []
            for layer, (width, out) in enumerate(zip(WIDTHS, WIDTHS[1:])):
                with wh.stage():
                    initial = np.full((width, out), 0.1, np.float32)
                    kernels.append(tf.get_variable(f"kernel{layer}", initializer=initial))
                    bias = tf.get_variable(f"bias{layer}", initializer=np.zeros(out, np.float32))
                    if layer < 2:
                        value = tf.nn.relu(tf.matmul(value, kernels[-1]) + bias, name=f"out{layer}")
                        continue
                    if tied:
                        value = tf.matmul(tf.matmul(value, kernels[0], transpose_b=True), kernels[0], name="again")
                    logits = tf.matmul(value, kernels[-1]) + bias
                    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
                    return x, y, tf.reduce_mean(losses, name="loss")
        raise AssertionError("the last layer returns")

    def of_type(self, device: int, *types: str) -> list[Any]:
        """The nodes of some op types on a device."""
        return [node for node in self.nodes[device] if node.op in types]

    def sent(self) -> dict[tuple[int, int], set[str]]:
        """Names of the tensors sent, less their run, by (device they leave, device they reach)."""
        found: dict[tuple[int, int], set[str]] = {}
        for device in self.nodes:
            for node in self.of_type(device, "_Send", "_HostSend"):
                ends = tuple(int(node.attr[end].s.decode()[-1]) for end in ("send_device", "recv_device"))
                if ends[0] != ends[1]:
                    match = CROSSING.match(node.input[0])
                    found.setdefault((ends[0], ends[1]), set()).add(match[1] if match else node.input[0])
        return found

    def large(self) -> dict[tuple[int, int], set[str]]:
        """As ``sent``, without sizes and scalars."""
        kept = {ends: {name for name in names if not SMALL.search(name)} for ends, names in self.sent().items()}
        return {ends: names for ends, names in kept.items() if names}


@pytest.fixture(scope="module")
def steps(tf: Any) -> Iterator[dict[str, Step]]:
    """A step of one replica, one of two, and one with a tied kernel."""
    yield {"one": Step(tf, 1), "two": Step(tf, 2), "tied": Step(tf, 1, tied=True)}


def pieces(replica: int, *names: str) -> set[str]:
    """The names of tensors of each micro-batch of a replica."""
    return {f"replica_{replica}/micro_batch_{m}/{name}" for m in range(MICRO_BATCHES) for name in names}


@pytest.mark.parametrize("which", ["one", "two"])
def test_each_stage_is_on_its_device(steps: dict[str, Step], which: str) -> None:
    step = steps[which]
    assert sorted(step.nodes) == list(range(3 * step.replicas))
    for device in step.nodes:
        stage, suffix = device % 3, f"_{device % 3}" if device % 3 else ""
        variables = step.of_type(device, "VariableV2", "VarHandleOp")
        assert {re.sub(r".*/", "", v.name) for v in variables} == {f"kernel{stage}", f"bias{stage}"}
        products = [node.name.split("/", 1)[1] for node in step.of_type(device, "MatMul")]
        backward = [f"gradients/MatMul{suffix}_grad/MatMul", f"gradients/MatMul{suffix}_grad/MatMul_1"]
        assert set(products) == pieces(device // 3, f"MatMul{suffix}", *backward)
        assert len(products) == 3 * MICRO_BATCHES
        assert len(step.of_type(device, "ApplyGradientDescent")) == 2


def test_what_crosses_is_activations_and_their_gradients(steps: dict[str, Step]) -> None:
    """Labels go straight to the last stage; nothing of a weight crosses."""
    grad = "gradients/MatMul_{}_grad/tuple/control_dependency"
    assert steps["one"].large() == {
        (0, 1): pieces(0, "out0"),
        (1, 2): pieces(0, "out1"),
        (2, 1): pieces(0, grad.format(2)),
        (1, 0): pieces(0, grad.format(1)),
        (0, 2): pieces(0, "feed/y_0"),
    }


def test_replicas_exchange_nothing_but_by_collectives(steps: dict[str, Step]) -> None:
    """Home sends the second replica what is fed."""
    grad = "gradients/MatMul_{}_grad/tuple/control_dependency"
    expected = {(0, 3): pieces(1, "feed/x_0"), (0, 5): pieces(1, "feed/y_0"), (0, 2): pieces(0, "feed/y_0")}
    for replica in range(2):
        first, second, third = (3 * replica + stage for stage in range(3))
        expected |= {
            (first, second): pieces(replica, "out0"),
            (second, third): pieces(replica, "out1"),
            (third, second): pieces(replica, grad.format(2)),
            (second, first): pieces(replica, grad.format(1)),
        }
    assert steps["two"].large() == expected


def test_small_values_are_few(steps: dict[str, Step]) -> None:
    """Sizes of the pieces go to the last stage, where the loss is; the loss comes home; updates are waited for."""
    for step in (steps["one"], steps["two"]):
        for (source, target), names in step.sent().items():
            for name in names:
                if re.search(r"feed/batch_|whale/(sub|floordiv)", name):
                    assert (source, target % 3) == (0, 2), name
                if "/ctrl/" in name:
                    assert target == 0 and "update_" in name


def test_gradients_are_reduced_among_the_devices_of_a_stage(steps: dict[str, Step], tf: Any) -> None:
    assert not any(steps["one"].of_type(device, "CollectiveReduceV2") for device in steps["one"].nodes)
    members: dict[tuple[int, int], list[int]] = {}
    for device in steps["two"].nodes:
        known = {
            node.name: int(tf.make_ndarray(node.attr["value"].tensor))
            for node in steps["two"].of_type(device, "Const")
            if node.attr["dtype"].type == tf.int32.as_datatype_enum and not node.attr["value"].tensor.tensor_shape.dim
        }
        for node in steps["two"].of_type(device, "CollectiveReduceV2"):
            size, group, instance = (known[name.partition(":")[0]] for name in node.input[1:4])
            assert size == 2
            members.setdefault((group, instance), []).append(device)
    assert sorted(map(sorted, members.values())) == sorted(
        [stage, stage + 3] for stage in range(3) for _ in range(len(members) // 3)
    )
    assert len(members) >= 3


def test_the_gradient_of_each_weight_is_reduced_once(steps: dict[str, Step]) -> None:
    parameters = sum(width * out + out for width, out in zip(WIDTHS, WIDTHS[1:]))
    assert steps["two"].report.bytes_reduced == 4 * parameters
    assert steps["one"].report.bytes_reduced == 0


def test_a_tied_kernel_is_sent_and_its_gradient_comes_back(steps: dict[str, Step]) -> None:
    """It lives on the first device alone."""
    step = steps["tied"]
    holders = [(device, v.name) for device in step.nodes for v in step.of_type(device, "VariableV2", "VarHandleOp")]
    assert sorted(name for _, name in holders) == sorted(f"{kind}{i}" for kind in ("kernel", "bias") for i in range(3))
    assert (0, "kernel0") in holders
    large = step.large()
    (weight,) = large[0, 2] - pieces(0, "feed/y_0")
    assert "kernel0" in weight
    back = {name for name in step.sent()[2, 0] if "/ctrl/" not in name}
    assert len(back) == 3, f"the sum over micro-batches of each of its two gradients, and the loss: {back}"
    assert large[0, 1] == pieces(0, "out0")
