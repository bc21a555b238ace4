"""What runs where, and what crosses devices, in a training step of a small dense network.

Two views: the graphs that TensorFlow partitioned and ran on CPU devices, and the nodes lowered for GPU devices, which
need no GPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from whale.annotations.capture import capture
from whale.cluster import Cluster
from whale.ir.program import TensorType
from whale.rewriter.keys import KeyAllocator
from whale.rewriter.mesh import Mesh
from whale.rewriter.shadow import Shadow
from whale.runtime.activation import activate
from whale.runtime.options import Options
from whale.runtime.preparation import prepare
from whale.runtime.signature import Run, Signature

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

SIZES = (8, 16, 4)
"""Widths of the layers."""

BATCH = 7

SENDS = ("_Send", "_HostSend")
RECEIVES = ("_Recv", "_HostRecv")
"""Halves of a tensor's way from device to device; in host memory where it is read there."""


def build(tf: Any) -> tuple[Any, Any, Any, Any]:
    """Placeholders, loss and training op of a network made in the default graph."""
    x = tf.placeholder(tf.float32, [None, SIZES[0]], name="x")
    y = tf.placeholder(tf.int32, [None], name="y")
    h = x
    for layer, (width, out) in enumerate(zip(SIZES, SIZES[1:])):
        kernel = tf.get_variable(f"kernel{layer}", initializer=np.full((width, out), 0.1, np.float32))
        bias = tf.get_variable(f"bias{layer}", initializer=np.zeros(out, np.float32))
        h = tf.nn.relu(tf.matmul(h, kernel) + bias)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=h), name="loss")
    return x, y, loss, tf.train.GradientDescentOptimizer(0.1).minimize(loss)


def feeds(x: Any, y: Any) -> dict[Any, np.ndarray]:
    """One batch."""
    draw = np.random.RandomState(0)
    return {x: draw.randn(BATCH, SIZES[0]).astype(np.float32), y: draw.randint(0, SIZES[-1], BATCH).astype(np.int32)}


def device_of(graph: Any) -> str:
    """The device that a partition runs on; every node of it has the same."""
    devices = {node.device for node in graph.node}
    assert len(devices) == 1, devices
    return devices.pop()


class Partitions:
    """The graphs of one training step, by device."""

    def __init__(self, tf: Any, replicas: int) -> None:
        with (
            activate(Options(Cluster.local(replicas), batch="global", quiet=True)) as activation,
            tf.Graph().as_default(),
        ):
            x, y, loss, train = build(tf)
            # Without grappler the partitions hold the nodes as they were lowered.
            config = tf.ConfigProto()
            config.graph_options.rewrite_options.disable_meta_optimizer = True
            with tf.Session(config=config) as session:
                session.run(tf.global_variables_initializer())
                session.run([loss, train], feeds(x, y))
                metadata = tf.RunMetadata()
                session.run([loss, train], feeds(x, y), tf.RunOptions(output_partition_graphs=True), metadata)
        self.report = next(report for report in activation.reports if report.cut)
        self.graphs = {device_of(g): list(g.node) for g in metadata.partition_graphs}

    def nodes(self, device: str, *types: str) -> list[Any]:
        """The nodes of some op types on a device."""
        return [node for node in self.graphs[device] if node.op in types]

    def crossing(self) -> dict[tuple[str, str], set[str]]:
        """Names of the tensors sent, by (device they leave, device they reach)."""
        found: dict[tuple[str, str], set[str]] = {}
        for device in self.graphs:
            for node in self.nodes(device, *SENDS):
                source, target = node.attr["send_device"].s.decode(), node.attr["recv_device"].s.decode()
                if source != target:
                    found.setdefault((source, target), set()).add(node.input[0])
        return found


@pytest.fixture(scope="module", params=[2, 3])
def partitions(tf: Any, request: pytest.FixtureRequest) -> Iterator[Partitions]:
    """A step on 2 and on 3 devices."""
    yield Partitions(tf, request.param)


def devices(partitions: Partitions) -> list[str]:
    """Devices in order."""
    return sorted(partitions.graphs)


def constants(tf: Any, partitions: Partitions, device: str) -> dict[str, Any]:
    """Values of the constants of a device, by node."""
    return {n.name: tf.make_ndarray(n.attr["value"].tensor) for n in partitions.nodes(device, "Const")}


def test_every_device_has_its_part(partitions: Partitions) -> None:
    assert partitions.report.cut
    assert all(re.search(rf"/device:CPU:{i}$", device) for i, device in enumerate(devices(partitions)))
    for device in devices(partitions):
        assert len(partitions.nodes(device, "MatMul")) == 6, "2 forward, 2 a layer backward"
        assert len(partitions.nodes(device, "VariableV2", "VarHandleOp")) == 4
        assert len(partitions.nodes(device, "ApplyGradientDescent", "ResourceApplyGradientDescent")) == 4


def test_gradients_are_all_reduced_in_equal_buckets(partitions: Partitions, tf: Any) -> None:
    keys = []
    for device in devices(partitions):
        known = constants(tf, partitions, device)
        collectives = partitions.nodes(device, "CollectiveReduceV2")
        assert collectives
        rows = []
        for node in collectives:
            size, group, instance = (int(known[name.partition(":")[0]]) for name in node.input[1:4])
            assert size == len(partitions.graphs)
            hint, merge = node.attr["communication_hint"].s, node.attr["merge_op"].s
            rows.append((instance, group, hint, merge, node.attr["final_op"].s))
        assert len({instance for instance, *_ in rows}) == len(rows)
        assert {(hint, merge, final) for _, _, hint, merge, final in rows} == {(b"ring", b"Add", b"Id")}
        keys.append(sorted(rows))
    assert all(row == keys[0] for row in keys)


def test_every_gradient_is_reduced_once(partitions: Partitions) -> None:
    parameters = sum(width * out + out for width, out in zip(SIZES, SIZES[1:]))
    assert partitions.report.bytes_reduced == 4 * parameters


def test_sends_and_receives_match(partitions: Partitions) -> None:
    sent, received = [], []
    for nodes in partitions.graphs.values():
        for node in nodes:
            ends = (node.attr["send_device"].s, node.attr["recv_device"].s, node.attr["tensor_name"].s)
            if node.op in SENDS:
                sent.append(ends)
            if node.op in RECEIVES:
                received.append(ends)
    assert sorted(sent) == sorted(received)


def test_only_pieces_of_the_batch_sizes_and_the_loss_cross_devices(partitions: Partitions) -> None:
    """Copies of the model exchange gradients by the collectives alone."""
    home = devices(partitions)[0]
    for (source, target), names in partitions.crossing().items():
        assert home in (source, target), f"{source} sends {names} to {target}"
        for name in names:
            assert not re.search(r"kernel|bias|MatMul|Relu", name), f"{source} sends {name} to {target}"


def test_what_home_sends_are_pieces_and_sizes(partitions: Partitions) -> None:
    """What is fed arrives at home; each piece goes to its device alone."""
    home = devices(partitions)[0]
    for (source, target), names in partitions.crossing().items():
        if source == home:
            replica = devices(partitions).index(target)
            pieces = {name for name in names if re.search(r"/feed/[xy]_0", name)}
            assert len(pieces) == 2
            assert all(f"/replica_{replica}/" in name for name in pieces), pieces
            assert all(re.search(r"/feed/batch|/whale/", name) for name in names - pieces), names


def test_what_others_send_home_is_the_loss(partitions: Partitions) -> None:
    home = devices(partitions)[0]
    for (source, target), names in partitions.crossing().items():
        if target == home:
            assert len(names) == 1, f"{source} sends {names}"


# -- lowering for GPUs -------------------------------------------------------------------------------------------------


class Recorded:
    """The nodes that lowering a training step for a mesh of devices emits; nothing is run."""

    def __init__(self, tf: Any, cluster: Cluster) -> None:
        with tf.Graph().as_default() as graph:
            x, y, loss, train = build(tf)
        program = capture(graph)
        values = {t.name: v for t, v in feeds(x, y).items()}
        signature = Signature((loss.name,), (train.name,), tuple(sorted(values)), ())
        shapes = {name: v.shape for name, v in values.items()}
        types = {t.name: TensorType(t.dtype.name, tuple(t.shape.as_list())) for t in (x, y)}
        self.devices = tuple(d.name for d in cluster.compute_devices)
        self.nodes: list[Any] = []
        shadow = Shadow()
        add = shadow.add

        def note(node: Any, *arguments: Any) -> str:
            self.nodes.append(node)
            return add(node, *arguments)

        shadow.add = note  # type: ignore[method-assign]
        shadow.extend_user_graph(program)
        run = Run(signature, types, shapes)
        mesh = Mesh(self.devices, (1,) * len(self.devices), worth=64)
        self.prepared, self.report = prepare(program, run, shadow, mesh, KeyAllocator(), Options(cluster), 1)
        self.origins = shadow.origins

    def of_type(self, *types: str) -> list[Any]:
        """The nodes of some op types."""
        return [n for n in self.nodes if n.op in types]


@pytest.fixture(scope="module")
def gpus(tf: Any) -> Recorded:
    """A step lowered for two GPUs."""
    return Recorded(tf, Cluster.local(2, "GPU"))


def test_gpu_nodes_name_their_devices(gpus: Recorded) -> None:
    assert gpus.report.cut
    assert [d.rpartition("/")[2] for d in gpus.devices] == ["device:GPU:0", "device:GPU:1"]
    assert {n.device for n in gpus.nodes} == set(gpus.devices)
    for replica, device in enumerate(gpus.devices):
        copies = [n for n in gpus.nodes if n.name.startswith(f"replica_{replica}/") and n.op == "MatMul"]
        assert len(copies) == 6
        assert {n.device for n in copies} == {device}


def test_gpus_reduce_by_nccl(gpus: Recorded, tf: Any) -> None:
    known = {n.name: int(tf.make_ndarray(n.attr["value"].tensor)) for n in gpus.of_type("Const") if _scalar(n)}
    members: dict[int, list[tuple[str, int, int]]] = {}
    for node in gpus.of_type("CollectiveReduceV2"):
        size, group, instance = (known[name.partition(":")[0]] for name in node.input[1:4])
        assert node.attr["communication_hint"].s == b"nccl"
        members.setdefault(instance, []).append((node.device, size, group))
    assert members
    for found in members.values():
        assert sorted(device for device, _, _ in found) == sorted(gpus.devices)
        assert {size for _, size, _ in found} == {2}
        assert len({group for _, _, group in found}) == 1


def _scalar(node: Any) -> bool:
    return node.attr["dtype"].type == 3 and not node.attr["value"].tensor.tensor_shape.dim


def test_each_communicator_is_a_group_of_its_own(gpus: Recorded, tf: Any) -> None:
    """Buckets under way at once need groups of their own; within a group they follow each other on every device."""
    known = {n.name: int(tf.make_ndarray(n.attr["value"].tensor)) for n in gpus.of_type("Const") if _scalar(n)}
    chains: dict[tuple[str, int], list[str]] = {}
    for node in gpus.of_type("CollectiveReduceV2"):
        group = known[node.input[2].partition(":")[0]]
        chain = chains.setdefault((node.device, group), [])
        controls = [name[1:] for name in node.input if name.startswith("^")]
        assert controls == chain[-1:]
        chain.append(node.name)
    groups = {group for _, group in chains}
    assert len(groups) == 2
    assert len(chains) == len(groups) * len(gpus.devices)


def test_no_node_of_one_copy_sits_on_another_copys_device(gpus: Recorded) -> None:
    home = gpus.devices[0]
    for node in gpus.nodes:
        replica = gpus.origins[node.name].replica
        assert node.device in (gpus.devices[replica], home), node.name
