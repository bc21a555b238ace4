"""What one step moves between devices, counted from the partitioned graphs that TensorFlow really ran."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import tensorflow.compat.v1 as tf

REDUCTIONS = frozenset({"CollectiveReduce", "CollectiveReduceV2", "CollectiveReduceV3"})
GROUP_SIZE_INPUT = 1
"""Which input of a reduction of version 2 is the size of its group."""


@dataclasses.dataclass(frozen=True)
class Traffic:
    """Counts of one step."""

    ops: int
    """Nodes of all partitions, after TensorFlow's own optimisation."""
    messages: int
    """Tensors sent from one device to another; what stays on a device, feeds and fetches are not counted."""
    message_bytes: int
    """Bytes of these tensors."""
    reductions: int
    """Collective reductions: one for each device and bucket."""
    reduction_bytes: int
    """Bytes that they move as rings: 2 (g - 1) / g of the tensor from each of g members."""

    @property
    def moved_bytes(self) -> int:
        """All bytes that go from one device to another."""
        return self.message_bytes + self.reduction_bytes


def trace_options() -> tf.RunOptions:
    """Options of a run whose metadata `count` can read: partition graphs, and the shapes of what was computed."""
    return tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE, output_partition_graphs=True)


def count(metadata: tf.RunMetadata) -> Traffic:
    """The traffic of a run made with `trace_options`.

    Raises KeyError when something is sent that the run did not compute (a branch not taken): its size is unknown.
    """
    sizes = _output_bytes(metadata)
    nodes = [node for partition in metadata.partition_graphs for node in partition.node]
    sent = [node for node in nodes if node.op in {"_Send", "_HostSend"} and _crosses(node)]
    reductions = [node for node in nodes if node.op in REDUCTIONS]
    constants = {node.name: node for node in nodes if node.op == "Const"}
    reduction_bytes = 0
    for node in reductions:
        members = _group_size(node, constants)
        reduction_bytes += 2 * (members - 1) * sizes[f"{node.name}:0"] // members
    return Traffic(
        ops=len(nodes),
        messages=len(sent),
        message_bytes=sum(sizes[_tensor(node.input[0])] for node in sent),
        reductions=len(reductions),
        reduction_bytes=reduction_bytes,
    )


def _crosses(node: tf.NodeDef) -> bool:
    return not node.attr["client_terminated"].b and node.attr["send_device"].s != node.attr["recv_device"].s


def _group_size(node: tf.NodeDef, constants: Mapping[str, tf.NodeDef]) -> int:
    if node.op == "CollectiveReduce":
        return node.attr["group_size"].i
    constant = constants[node.input[GROUP_SIZE_INPUT]]
    return int(tf.make_ndarray(constant.attr["value"].tensor))


def _tensor(name: str) -> str:
    """The input ``name`` of a node, with its slot written out."""
    return name if ":" in name else f"{name}:0"


def _output_bytes(metadata: tf.RunMetadata) -> dict[str, int]:
    """Bytes of every tensor the run computed, by name and slot."""
    sizes: dict[str, int] = {}
    for device in metadata.step_stats.dev_stats:
        for node in device.node_stats:
            for output in node.output:
                description = output.tensor_description
                elements = 1
                for dim in description.shape.dim:
                    elements *= dim.size
                sizes[f"{node.node_name}:{output.slot}"] = elements * tf.as_dtype(description.dtype).size
    return sizes
