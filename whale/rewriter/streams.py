"""Random streams: one node for all plans of a random op, whose inputs every run sends it.

A random op keeps its generator in its node. Runs that are planned differently work out its shape in different ways;
each with a node of its own would each have a stream of its own. So in the shadow graph the user's op receives its
inputs, by rendezvous within one run and one device, and every run that reaches it runs the nodes that send them. A
dead value that is sent makes the op dead, as in the branch it came from.

An op whose inputs are constants is the same node in every plan as it is, unless these wait for something: a constant
in a branch waits for the branch to be taken, which runs may find out in different ways. One in a loop cannot receive,
since the key of a rendezvous holds the iteration, and one that waits for others cannot, since what is dead by a control
edge alone is sent as if it were alive: both stay as they are.
"""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf
from tensorflow.core.framework import attr_value_pb2, node_def_pb2

from whale.ir.program import Op, Program, split_tensor
from whale.sharding.order import ENTERS, order
from whale.sharding.rules.source import RANDOM

DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"
"""Where values are sent and received: the host of the first device."""


def receiving(program: Program) -> set[str]:
    """The random ops of a program that are to receive their inputs."""
    found = {op.name for op in program.ops.values() if op.type in RANDOM and _varies(op, program)}
    if found and any(op.type in ENTERS for op in program.ops.values()):
        frames = order(program.ops.values(), frozenset()).frames
        found = {name for name in found if name not in frames}
    return found


def _varies(op: Op, program: Program) -> bool:
    inputs = (program.ops[split_tensor(t)[0]] for t in op.inputs)
    return not op.controls and any(producer.type != "Const" or producer.controls for producer in inputs)


def receiver(op: Op, program: Program) -> list[node_def_pb2.NodeDef]:
    """The op as it stands in the shadow graph, and the nodes it receives its inputs from."""
    made = node_def_pb2.NodeDef()
    made.ParseFromString(op.node)
    del made.input[:]
    nodes = [made]
    for index in range(len(op.inputs)):
        node = node_def_pb2.NodeDef(name=f"{op.name}/whale/receive_{index}", op="_HostRecv", device=DEVICE)
        for key, value in address(op, program, index, "tensor_type").items():
            node.attr[key].CopyFrom(value)
        made.input.append(node.name)
        nodes.append(node)
    return nodes


def sender(op: Op, program: Program, index: int) -> node_def_pb2.NodeDef:
    """The node that sends an op its input as it is in the user's graph."""
    node = node_def_pb2.NodeDef(name=f"{op.name}/whale/send_{index}", op="_HostSend", device=DEVICE)
    node.input.append(op.inputs[index])
    for key, value in address(op, program, index, "T").items():
        node.attr[key].CopyFrom(value)
    return node


def address(op: Op, program: Program, index: int, type_key: str) -> dict[str, Any]:
    """The attributes of a node that sends or receives an input of an op; their types have different names."""
    dtype = tf.as_dtype(program.tensor(op.inputs[index]).dtype).base_dtype.as_datatype_enum
    host = attr_value_pb2.AttrValue(s=DEVICE.encode())
    return {
        type_key: attr_value_pb2.AttrValue(type=dtype),
        "tensor_name": attr_value_pb2.AttrValue(s=f"{op.name}:input_{index}".encode()),
        "send_device": host,
        "recv_device": host,
        "send_device_incarnation": attr_value_pb2.AttrValue(i=1),
        "client_terminated": attr_value_pb2.AttrValue(b=False),
    }
