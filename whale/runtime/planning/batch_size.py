"""The batch size that an input pipeline states, for batches whose shape leaves it open.

``Dataset.batch(32)`` gives batches of any size up to 32: the shape says nothing, the op that makes the batches does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import tensorflow.compat.v1 as tf
from tensorflow.core.framework import node_def_pb2

from whale.annotations.inline import functions_of
from whale.ir.program import Program

_BATCHES = {
    "BatchDataset": 1,
    "BatchDatasetV2": 1,
    "ParallelBatchDataset": 1,
    "PaddedBatchDataset": 1,
    "PaddedBatchDatasetV2": 1,
    "MapAndBatchDataset": -3,
    "ExperimentalMapAndBatchDataset": -3,
    "QueueDequeueManyV2": 1,
    "QueueDequeueUpToV2": 1,
    "ReaderReadUpToV2": 2,
}
"""Ops that make batches: which of their inputs is the size."""


def stated_batch(program: Program, source: str) -> int | None:
    """The largest batch that a drawn tensor holds; None where no constant says.

    Args:
        program: the captured graph.
        source: an output of an iterator or a queue.
    """
    nodes = {name: node_def_pb2.NodeDef.FromString(op.node) for name, op in program.ops.items() if _matters(op.type)}
    op = program.producer(source)
    if op.type in _BATCHES:
        return _constant(nodes, op.inputs[_BATCHES[op.type]])
    if not op.inputs:
        return None
    iterator = _behind(program, op.inputs[0])
    sizes: set[int | None] = set()
    for node in nodes.values():
        if node.op == "MakeIterator" and _behind(program, program.ops[node.name].inputs[1]) == iterator:
            sizes.add(_nearest(nodes, node.input[0]))
        if node.name == iterator and node.op == "OneShotIterator":
            made = node.attr["dataset_factory"].func.name
            sizes.add(_in_function(program, made))
    return sizes.pop() if len(sizes) == 1 else None


def _matters(kind: str) -> bool:
    return "Dataset" in kind or kind in _BATCHES or kind in ("Const", "MakeIterator", "OneShotIterator")


def _behind(program: Program, tensor: str) -> str:
    """The op that a handle comes from, through identities."""
    op = program.producer(tensor)
    while op.type in ("Identity", "IteratorFromStringHandleV2", "IteratorToStringHandle") and op.inputs:
        op = program.producer(op.inputs[0])
    return op.name


def _nearest(nodes: Mapping[str, node_def_pb2.NodeDef], tensor: str) -> int | None:
    """The size that the last op to make batches, upstream of a dataset, is given."""
    for node in _upstream(nodes, tensor):
        if node.op in _BATCHES:
            inputs = [name for name in node.input if not name.startswith("^")]
            return _constant(nodes, inputs[_BATCHES[node.op]])
    return None


def _upstream(nodes: Mapping[str, node_def_pb2.NodeDef], tensor: str) -> Iterator[node_def_pb2.NodeDef]:
    seen: set[str] = set()
    name = tensor.split(":")[0]  # within a function it is node:output:index
    while name in nodes and name not in seen:
        seen.add(name)
        yield nodes[name]
        if not nodes[name].input:
            return
        name = nodes[name].input[0].split(":")[0]


def _constant(nodes: Mapping[str, node_def_pb2.NodeDef], tensor: str) -> int | None:
    node = nodes.get(tensor.split(":")[0])
    if node is None or node.op != "Const":
        return None
    value = tf.make_ndarray(node.attr["value"].tensor)
    return int(value) if value.shape == () else None


def _in_function(program: Program, name: str) -> int | None:
    """The size in the function that makes the dataset of a one-shot iterator."""
    function = functions_of(program).definition(name)
    if function is None or not function.ret:
        return None
    nodes = {node.name: node for node in function.node_def}
    return _nearest(nodes, next(iter(function.ret.values())))
